"""The one door: what a client gets of a raw result, whatever the result is."""

from __future__ import annotations

import base64
import json
import threading
from typing import Any

import anyio.lowlevel
import pytest
from conftest import MAPS
from hostile_texts import CSV, HOSTILE, LOG, NESTED, json_values
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.types import CallToolResult

from leafgate.clean.cleaner import Cleaner
from leafgate.clean.sanitize import SanitizePolicy
from leafgate.codec.leaf import wrap_tool_call
from leafgate.gateway.deliver import Delivery, deliver_result, deliver_text
from leafgate.gateway.leaf_checks import LeafChecks
from leafgate.gateway.workload import SHARE_BYTES, Workload
from leafgate.model.envelope import ENVELOPE_META_KEY, Origin
from leafgate.model.errors import GatewayError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.model.request import Request
from leafgate.state.memory import MemoryArtifactStore
from leafgate.state.records import ArtifactLimits
from leafgate.telemetry.metrics import Metrics
from leafgate.tokens.encoder import Encoder

pytestmark = pytest.mark.anyio

CL100K = MAPS.load("openai/cl100k_base")
ORIGIN = Origin("disk", "read_file")


def count(text: str) -> int:
    return len(CL100K.encode(text))


def door(**more: Any) -> Delivery:
    parts = {
        "artifacts": MemoryArtifactStore(),
        "recorder": Metrics(lambda: "today"),
        "clean": Cleaner(),
        "count": count,
        "budget": 800,
        "checks": LeafChecks("canonical"),
        "encoder_of": MAPS.prepare,
    }
    return Delivery(**{**parts, **more})


def text_result(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}


async def delivered(
    raw: dict[str, Any], at: Delivery | None = None, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    result = (await deliver_result(at or door(), Request("me"), ORIGIN, raw, **more)).as_mcp()
    return result, result["_meta"][ENVELOPE_META_KEY]


def visible_tokens(result: dict[str, Any]) -> int:
    return sum(count(block.get("text", "")) for block in result["content"])


@pytest.mark.parametrize("text", ["It is 14:30 now.", "word " * 190])
async def test_a_small_result_costs_what_it_costs(text: str) -> None:
    result, envelope = await delivered(text_result(text))
    assert result["content"] == [{"type": "text", "text": text}]
    assert envelope == {"status": "ok", "provenance": {"server": "disk", "tool": "read_file"}}


async def test_a_small_result_with_a_large_image_costs_at_most_forty_tokens_more() -> None:
    image = {"type": "image", "data": base64.b64encode(b"x" * 400_000).decode(), "mimeType": "image/png"}
    result, envelope = await delivered({"content": [{"type": "text", "text": "here it is"}, image]})
    assert visible_tokens(result) - count("here it is") <= 40
    assert envelope["artifacts"][0]["media_type"] == "image/png"
    assert envelope["artifacts"][0]["bytes"] == 400_000


async def test_a_large_result_becomes_a_digest_and_is_kept_whole() -> None:
    at = door()
    result, envelope = await delivered(text_result(CSV), at)
    assert visible_tokens(result) <= 400
    (kept,) = envelope["artifacts"]
    assert kept["media_type"] == "text/csv"
    assert kept["lines"] == 1001
    assert kept["tokens"] == count(CSV)
    assert envelope["facts"] == ["rows: 1000", "columns: id, name, score"]
    assert envelope["summary"] == result["content"][0]["text"][:500]
    stored = await at.artifacts.get("me", kept["handle"])
    assert stored is not None
    assert stored.content.decode() == CSV
    assert stored.origin == ORIGIN
    assert (await delivered(text_result(CSV), at)) == (result, envelope)


async def test_large_counts_are_estimates_and_say_so() -> None:
    _, envelope = await delivered(text_result(LOG))
    (kept,) = envelope["artifacts"]
    assert kept["tokens_estimated"]
    assert abs(kept["tokens"] - count(LOG)) < 0.1 * count(LOG)


async def test_provenance_lists_what_was_done_and_what_the_caller_adds() -> None:
    secret = "AKIAIOSFODNN7EXAMPL3"
    raw = text_result(f"<|im_start|> {secret}")
    _, envelope = await delivered(raw, provenance={"cache_hit": True})
    told = envelope["provenance"]
    assert told["cache_hit"]
    assert [each["count"] for each in told["removed"]] == [1]
    assert [each["count"] for each in told["redacted"]] == [1]


@pytest.mark.parametrize(
    ("structured", "blocks"),
    [({"content": "a note"}, 1), ({"result": "a note"}, 1), ({"content": "another"}, 2), ({"a": "a note", "b": 1}, 2)],
)
async def test_structured_content_that_a_text_tells_is_not_told_twice(structured: Any, blocks: int) -> None:
    result, _ = await delivered(text_result("a note", structuredContent=structured))
    assert len(result["content"]) == blocks


async def test_structured_content_gives_facts_and_goes_along_when_asked_for() -> None:
    raw = text_result("done", structuredContent={"count": 42, "say": "<|im_start|>"})
    result, envelope = await delivered(raw)
    assert envelope["facts"][0] == "count: 42"
    assert "structuredContent" not in result
    result, _ = await delivered(raw, find_violations=lambda clean: ())
    assert result["structuredContent"]["count"] == 42
    assert "<|im_start|>" not in json.dumps(result)


async def test_a_server_has_its_own_cleaner() -> None:
    at = door(clean_for={"disk": Cleaner(SanitizePolicy(escape_html=True))})
    result, _ = await delivered(text_result("<b>"), at)
    assert result["content"][0]["text"] == "&lt;b&gt;"


async def test_a_result_too_large_for_the_store_says_so() -> None:
    at = door(artifacts=MemoryArtifactStore(ArtifactLimits(capacity=10_000)))
    result, envelope = await delivered(text_result(LOG), at)
    assert "artifacts" not in envelope
    assert "too large to be kept" in result["content"][0]["text"]


async def test_the_receiving_models_map_counts(toy: Encoder) -> None:
    text = "the cat sat " * 150
    result = (
        await deliver_result(
            door(), Request("me", map_digest=toy.map.digest), ORIGIN, wrap_tool_call(text_result(text), toy)
        )
    ).as_mcp()
    assert count(text) <= 800 < len(toy.encode(text))
    envelope = result["_meta"][ENVELOPE_META_KEY]
    assert envelope["artifacts"][0]["tokens"] == len(toy.encode(text))
    assert len(toy.encode(result["content"][0]["text"])) <= 400
    assert "rejected" not in envelope["provenance"]["codec"]


async def test_a_digest_is_the_gateways_own_text_and_no_shim_of_the_tools(toy: Encoder) -> None:
    metrics = Metrics(lambda: "today")
    blocks = [{"type": "text", "text": "the cat sat " * 150}, {"type": "text", "text": "the cat"}]
    request = Request("me", map_digest=toy.map.digest)
    result = (await deliver_result(door(recorder=metrics), request, ORIGIN, {"content": blocks})).as_mcp()
    assert all(CODEC_META_KEY in block["_meta"] for block in result["content"])
    (row,) = metrics.as_json()["leaves"]
    assert row["blocks"] == {"shim": 1}
    assert row["tokens"] == {"shim": len(toy.encode("the cat"))}
    assert metrics.as_json()["own"]["texts"] == 1
    codec = result["_meta"][ENVELOPE_META_KEY]["provenance"]["codec"]
    assert codec == {"leafBypasses": 0, "tokenizeCalls": 1}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_results_are_delivered(name: str) -> None:
    result, _ = await delivered(text_result(HOSTILE[name], structuredContent={"text": HOSTILE[name]}))
    assert visible_tokens(result) <= 800
    CallToolResult.model_validate(json.loads(json.dumps(result)))


def nested(depth: int) -> Any:
    value: Any = "<|im_start|>"
    for _ in range(depth):
        value = {"a": [value]}
    return value


async def test_deep_structures_are_delivered() -> None:
    result, _ = await delivered({"structuredContent": nested(5000), "content": [{"type": "odd", "x": nested(3000)}]})
    assert "<|im_start|>" not in json.dumps(result)


blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "other"])},
    optional={
        "text": json_values | st.text(),
        "data": json_values | st.just("QUJD"),
        "mimeType": json_values | st.just("image/png"),
        "uri": json_values | st.just("file:///x"),
        "name": json_values | st.just("x"),
        "title": json_values,
        "description": json_values,
        "size": json_values,
        "icons": json_values | st.lists(st.dictionaries(st.sampled_from(["src", "mimeType", "sizes"]), json_values)),
        "_meta": json_values,
        "annotations": json_values
        | st.fixed_dictionaries({}, optional={"audience": json_values, "priority": json_values}),
        "resource": json_values
        | st.fixed_dictionaries(
            {"uri": st.just("x")},
            optional={"text": json_values, "blob": st.just("QUJD"), "mimeType": json_values, "_meta": json_values},
        ),
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(blocks | json_values, max_size=4), json_values, json_values)
async def test_whatever_a_server_sends_the_answer_is_a_result(content: Any, structured: Any, is_error: Any) -> None:
    raw = {"content": content, "structuredContent": structured, "isError": is_error}
    result, _ = await delivered(raw)
    CallToolResult.model_validate(result)


async def test_nested_json_is_told_by_its_outline() -> None:
    result, envelope = await delivered(text_result(NESTED, structuredContent=json.loads(NESTED)))
    assert len(result["content"]) == 1
    assert "items: array [900] of object" in result["content"][0]["text"]
    assert envelope["facts"] == ["count: 900", "items: 900 items", "cursor: null"]


SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize("form", ["text", "both", "ids"])
async def test_no_ids_pass_but_those_of_text_blocks(toy: Encoder, form: Any) -> None:
    """Ids spell what the firewall would have redacted, wherever a server puts them."""
    ids = [*f"the key is {SECRET}".encode()]  # the toy map's first tokens are the bytes
    assert toy.decode_bytes(ids).decode().endswith(SECRET)
    meta = {CODEC_META_KEY: {"map_id": toy.map.digest, "ids": ids}}
    sibling = {"type": "_codec_meta", "map_id": toy.map.digest, "ids": ids}
    resource = {"uri": "x://a", "text": "a text", "_meta": meta}
    content = [
        {"type": "resource", "resource": resource, "_meta": meta},
        {"type": "image", "mimeType": "image/png", "data": "aGk=", "_meta": meta},
        sibling,
        {"type": "resource_link", "uri": "x://a", "name": "a", "_meta": meta},
        {"type": "odd", "text": "a text", "_meta": meta, "inner": [sibling]},
        {"type": "text", "text": "a text", "_meta": {"other": meta}, "annotations": {"x": meta}, "extra": meta},
    ]
    raw = {"content": content, "structuredContent": {"a": 1, "_meta": meta, "b": [sibling]}, "_meta": meta}
    request = Request("me", map_digest=None if form == "text" else toy.map.digest, form=form)
    shown = json.dumps((await deliver_result(door(), request, ORIGIN, raw, find_violations=lambda clean: ())).as_mcp())
    assert json.dumps(ids)[1:-1] not in shown
    assert json.dumps(ids, separators=(",", ":"))[1:-1] not in shown


@pytest.mark.parametrize(
    "raw",
    [
        {"content": [{"type": "text", "text": "a", "_meta": {"x": [1] * 50_000}}]},
        {
            "content": [
                {"type": "text", "text": "a", "_meta": {CODEC_META_KEY: {"map_id": "a" * 64, "ids": [1] * 50_000}}}
            ]
        },
        {"content": [{"type": "odd", "x": {"y": [[1, 2]] * 5_000}}]},
        {"content": [], "structuredContent": {"rows": [{"a": "b"}] * 2_000}},
        {"content": [{"type": "text", "text": "", "annotations": {}}] * 2_000},
        {"content": [{"type": "text", "text": "\u7684" * 3_000, "annotations": {}}]},
    ],
)
async def test_large_work_of_any_kind_is_done_off_the_loop(raw: dict[str, Any]) -> None:
    """A text may be short and what surrounds it large."""
    here = threading.current_thread()
    on_the_loop: set[bool] = set()

    class Watching(Cleaner):
        def json(self, value: Any) -> Any:
            on_the_loop.add(threading.current_thread() is here)
            return super().json(value)

        def text(self, text: str) -> Any:
            on_the_loop.add(threading.current_thread() is here)
            return super().text(text)

    await delivered(raw, door(clean=Watching()))
    assert on_the_loop == {False}


async def test_a_large_result_waits_for_its_turn_and_a_small_one_does_not() -> None:
    """Large is all of it together, wherever in the result it is."""
    workload = Workload()
    large = {"content": [{"type": "text", "text": "x" * 1_000}] * 1_000, "structuredContent": {"a": ["y" * 100_000]}}
    done: list[str] = []

    async def one(name: str, raw: dict[str, Any]) -> None:
        await delivered(raw, door(workload=workload))
        done.append(name)

    async with anyio.create_task_group() as group, workload.share_of(ORIGIN.server).reserve_bytes(SHARE_BYTES):
        group.start_soon(one, "large", large)
        await one("medium", text_result("word " * 20_000))
        await one("small", text_result("word"))
    assert done == ["medium", "small", "large"]


async def test_others_get_their_turn_while_many_blocks_are_reported(toy: Encoder) -> None:
    turns = 0
    at_report: list[int] = []

    class Watched(Metrics):
        def leaf(self, *args: Any) -> None:
            at_report.append(turns)
            super().leaf(*args)

    async def another() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(another)
        blocks = [{"type": "text", "text": ""}] * 2_000
        at = door(recorder=Watched(lambda: "today"))
        await deliver_result(at, Request("me", map_digest=toy.map.digest), ORIGIN, {"content": blocks})
        group.cancel_scope.cancel()
    assert len(at_report) == 2_000
    assert len(set(at_report)) > 5


async def test_a_map_that_is_gone_since_the_call_began_costs_the_ids_and_not_the_answer(toy: Encoder) -> None:
    async def gone(digest: str) -> Encoder:
        raise GatewayError("MAP_UNAVAILABLE", "the map is not available")

    request = Request("me", map_digest=toy.map.digest, form="ids")
    result = (
        await deliver_result(door(encoder_of=gone), request, ORIGIN, wrap_tool_call(text_result("the cat"), toy))
    ).as_mcp()
    assert result["content"] == [{"type": "text", "text": "the cat"}]
    assert "map_id" not in result["_meta"][ENVELOPE_META_KEY]["provenance"]
    content = await deliver_text(door(encoder_of=gone), request, "an error")
    assert content == ({"type": "text", "text": "an error"},)
