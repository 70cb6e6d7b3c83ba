"""mcp_result_to_envelope, by the examples of its reference document and beyond them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.firewall.envelope import mcp_result_to_envelope
from leafgate.model.envelope import ArtifactRef, ResultEnvelope

PNG = base64.b64encode(b"\x89PNG\r\n").decode()


def test_text_is_joined_and_summed_up() -> None:
    result = {"content": [{"type": "text", "text": "Found 42 records matching query"}], "isError": False}
    envelope, binaries, full_text = mcp_result_to_envelope(result, "search_database")
    assert envelope.status == "ok"
    assert envelope.summary == full_text == "Found 42 records matching query"
    assert binaries == {}
    long = {"content": [{"type": "text", "text": "x" * 2000}, {"type": "text", "text": "end"}], "isError": True}
    envelope, _, full_text = mcp_result_to_envelope(long, "t")
    assert envelope.status == "error"
    assert len(envelope.summary) == 500
    assert full_text == "x" * 2000 + "\nend"


def test_structured_content_is_kept_and_told_as_facts() -> None:
    result = {
        "content": [{"type": "text", "text": "query done"}],
        "structuredContent": {"count": 42, "status": "done", "items": [1, 2, 3]},
    }
    envelope, binaries, full_text = mcp_result_to_envelope(result, "query")
    data, media_type, _ = binaries["mcp:query:structured_content"]
    assert json.loads(data) == result["structuredContent"]
    assert media_type == "application/json"
    assert {"count: 42", "status: done", "items: 3 items"} <= set(envelope.facts)
    assert full_text == "query done"
    only, _, told = mcp_result_to_envelope({"structuredContent": {"key": "value"}}, "t")
    assert told == "key: value"
    assert [ref.handle for ref in only.artifacts] == ["mcp:t:structured_content"]


def test_bytes_of_every_kind_are_kept() -> None:
    blob = base64.b64encode(b"PK\x03\x04").decode()
    result = {
        "content": [
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "audio", "data": PNG, "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "hello"}},
            {"type": "resource", "resource": {"uri": "file:///a.zip", "mimeType": "application/zip", "blob": blob}},
            {"type": "resource_link", "uri": "file:///data.json", "name": "data", "mimeType": "application/json"},
        ]
    }
    envelope, binaries, full_text = mcp_result_to_envelope(result, "t")
    assert full_text == "hello"
    assert {handle: kept[:2] for handle, kept in binaries.items()} == {
        "mcp:t:image:0": (b"\x89PNG\r\n", "image/png"),
        "mcp:t:audio:1": (b"\x89PNG\r\n", "audio/wav"),
        "mcp:t:resource:2": (b"hello", "text/plain"),
        "mcp:t:resource:3": (b"PK\x03\x04", "application/zip"),
        "mcp:t:resource_link:4": (b"file:///data.json", "text/uri-list"),
    }
    assert envelope.artifacts[4] == ArtifactRef(
        "mcp:t:resource_link:4", "application/json", 17, label="data", uri="file:///data.json"
    )
    assert envelope.artifacts[0].size_bytes == 6


def test_annotations_are_collected_whatever_their_audience() -> None:
    annotated = {"type": "text", "text": "...", "annotations": {"audience": ["human"], "priority": 0.9}}
    envelope, _, _ = mcp_result_to_envelope({"content": [annotated]}, "tool")
    assert envelope.provenance["content_annotations"] == [{"part_index": 0, "audience": ["human"], "priority": 0.9}]


def test_everything_in_it_is_clean() -> None:
    secret = "AKIAIOSFODNN7EXAMPL3"
    result = {
        "content": [
            {"type": "text", "text": f"{secret} <|im_start|>"},
            {"type": "resource", "resource": {"uri": "file:///x", "text": secret}},
        ],
        "structuredContent": {"key": f"see {secret}"},
    }
    envelope, binaries, full_text = mcp_result_to_envelope(result, "t")
    everything = json.dumps(envelope.as_json()) + full_text + "".join(str(kept[0]) for kept in binaries.values())
    assert secret not in everything
    assert "<|im_start|>" not in everything
    assert envelope.provenance["redacted"][0]["count"] == 3


def test_the_wire_form_leaves_out_what_is_empty() -> None:
    assert ResultEnvelope("ok").as_json() == {"status": "ok"}
    ref = ArtifactRef("h", "text/plain", 5, 2, 1, tokens_estimated=True)
    whole = ResultEnvelope("error", "s", ("f: 1",), (ref,), {"tool": "t"})
    assert whole.as_json() == {
        "status": "error",
        "summary": "s",
        "facts": ["f: 1"],
        "artifacts": [
            {"handle": "h", "media_type": "text/plain", "bytes": 5, "tokens": 2, "lines": 1, "tokens_estimated": True}
        ],
        "provenance": {"tool": "t"},
    }
    assert ArtifactRef("h", "image/png", 5).as_json() == {"handle": "h", "media_type": "image/png", "bytes": 5}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "other"])},
    optional={
        name: json_values | st.text()
        for name in ("text", "data", "mimeType", "uri", "name", "_meta", "annotations", "resource")
    },
)


@settings(max_examples=200, deadline=None)
@given(json_values | st.fixed_dictionaries({"content": st.lists(blocks | json_values, max_size=4)}), json_values)
def test_no_result_crashes(raw: Any, structured: Any) -> None:
    if isinstance(raw, dict):
        envelope, _, full_text = mcp_result_to_envelope({**raw, "structuredContent": structured}, "t")
        assert envelope.status == "ok"
        assert full_text


@pytest.mark.parametrize("content", [None, "text", 5, {}, []])
def test_a_result_without_content_says_so(content: object) -> None:
    envelope, binaries, full_text = mcp_result_to_envelope({"content": content}, "t")
    assert (envelope.summary, binaries, full_text) == ("(no content)", {}, "(no content)")
