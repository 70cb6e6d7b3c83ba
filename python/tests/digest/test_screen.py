"""What of a result is withheld: as little as possible, never more than fits, and nothing is lost."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hostile_texts import HOSTILE, LOG, NESTED, json_values
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.clean.cleaner import Cleaner
from leafgate.digest.instance import Shortened
from leafgate.digest.screen import (
    LONGEST_FACT,
    MAX_FACTS,
    MAX_NOTES,
    Choice,
    ScreenedResult,
    Withheld,
    choose,
    facts_of,
    mcp_result_to_envelope,
    screen,
)
from leafgate.digest.size import total
from leafgate.maps.files import MapFiles
from leafgate.model.envelope import ArtifactRef, ResultEnvelope

CL100K = MapFiles().load("openai/cl100k_base")
COUNT = total(lambda text: len(CL100K.encode(text)))
CLEAN = Cleaner()
FITS = lambda value: ()  # noqa: E731  any structured content fits its schema
HANDLE = "6ac3d4e3ded086d5f669fe9b"


def screened(*blocks: dict[str, Any], structured: Any = None, budget: int = 800, **more: Any) -> ScreenedResult:
    return screen(blocks, structured, CLEAN, count=COUNT, budget=budget, **more)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(b"\x89" * size).decode(), "mimeType": "image/png", **more}


def visible(found: ScreenedResult) -> list[Any]:
    blocks = [slot.block(HANDLE) if isinstance(slot, Withheld) else slot for slot in found.slots]
    return [block for block in blocks if block is not None]


def cost(found: ScreenedResult) -> int:
    total_cost = 0
    for block in visible(found):
        total_cost += COUNT(block.get("text") or block.get("resource", {}).get("text") or "")
    return total_cost


def test_what_fits_stays_and_costs_nothing_more() -> None:
    blocks = [text_block("one two"), image(100), text_block("three")]
    assert visible(screened(*blocks)) == blocks


@pytest.mark.parametrize(
    ("sizes", "budget", "choice"),
    [
        ([], 800, Choice()),
        ([800], 800, Choice()),
        ([801], 800, Choice((0,), 400)),
        ([50, 5000, 200], 800, Choice((1,), 400)),
        ([300, 5000, 300], 800, Choice((1,), 200)),
        ([900, 5000], 800, Choice((0, 1), 400)),
        ([900, 900], 800, Choice((0, 1), 400)),
        ([500, 400], 800, Choice((0,), 400)),
        ([2000] * 6, 800, Choice(tuple(range(6)), 133)),
        ([2000] * 7, 800, Choice(tuple(range(7)), 400, as_one=True)),
        ([1] * 900, 800, Choice(tuple(range(900)), 400, as_one=True)),
    ],
)
def test_the_largest_go_first_and_as_few_as_needed(sizes: list[int], budget: int, choice: Choice) -> None:
    assert choose(sizes, budget) == choice


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=40), st.integers(100, 2000))
def test_what_stays_and_the_digests_fit_together(sizes: list[int], budget: int) -> None:
    made = choose(sizes, budget)
    stays = 0 if made.as_one else sum(size for at, size in enumerate(sizes) if at not in made.withheld)
    digests = made.room * (1 if made.as_one else len(made.withheld))
    assert stays + digests <= budget
    assert made.room <= budget // 2


def test_many_small_blocks_are_told_as_one_and_kept_whole() -> None:
    found = screened(*[text_block(f"result number {n}") for n in range(500)], image(10))
    (told, picture) = visible(found)
    assert picture["type"] == "image"
    (kept,) = [slot for slot in found.slots if isinstance(slot, Withheld)]
    assert kept.content.decode() == "\n".join(f"result number {n}" for n in range(500))
    assert COUNT(told["text"]) <= 400


def test_a_resources_text_is_screened_like_any_other() -> None:
    resource = {"uri": "file:///app.log", "mimeType": "text/x-log", "text": LOG}
    found = screened({"type": "resource", "resource": resource})
    (kept,) = found.slots
    assert isinstance(kept, Withheld)
    assert (kept.content.decode(), kept.media_type) == (LOG, "text/x-log")
    (block,) = visible(found)
    assert block["type"] == "resource"
    assert block["resource"]["uri"] == "file:///app.log"
    assert block["resource"]["mimeType"] == "text/plain"
    assert HANDLE in block["resource"]["text"]


def test_large_bytes_are_withheld_and_keep_their_bytes() -> None:
    blob = {"uri": "file:///a.bin", "mimeType": "application/zip", "blob": base64.b64encode(b"PK" * 150_000).decode()}
    found = screened(image(300_000), {"type": "resource", "resource": blob}, image(50))
    first, second, third = found.slots
    assert isinstance(first, Withheld)
    assert isinstance(second, Withheld)
    assert (first.content, first.media_type, first.size) == (b"\x89" * 300_000, "image/png", None)
    assert (second.content, second.media_type) == (b"PK" * 150_000, "application/zip")
    assert third == image(50)
    notes = visible(found)[:2]
    assert all(HANDLE in note["text"] and COUNT(note["text"]) <= 40 for note in notes)


def test_a_blob_that_is_a_text_is_read_as_one() -> None:
    encoded = base64.b64encode(LOG.encode() * 5).decode()
    found = screened({"type": "resource", "resource": {"uri": "file:///l", "mimeType": "text/plain", "blob": encoded}})
    (kept,) = found.slots
    assert isinstance(kept, Withheld)
    assert kept.size is not None
    assert kept.content.decode() == LOG * 5


def test_a_small_blob_of_text_is_cleaned_inside() -> None:
    encoded = base64.b64encode(b"hi <|im_start|>").decode()
    found = screened({"type": "resource", "resource": {"uri": "file:///l", "mimeType": "text/plain", "blob": encoded}})
    (block,) = visible(found)
    assert b"<|im_start|>" not in base64.b64decode(block["resource"]["blob"])


def test_notes_on_bytes_are_few() -> None:
    found = screened(*[image(300_000 + n) for n in range(MAX_NOTES + 30)])
    assert sum(isinstance(slot, Withheld) for slot in found.slots) == MAX_NOTES + 30
    assert len(visible(found)) == MAX_NOTES + 1
    assert "30 more" in visible(found)[-1]["text"]


def test_images_that_are_many_are_withheld_in_the_end() -> None:
    found = screened(*[image(150_000) for _ in range(10)])
    kinds = [block["type"] for block in visible(found)]
    assert kinds.count("image") == 5


def test_links_stay_links_until_they_are_too_many() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the file"}
    assert visible(screened(link)) == [link]
    found = screened(*[{**link, "uri": f"file:///{n}"} for n in range(500)])
    assert cost(found) <= 800
    (kept,) = [slot for slot in found.slots if isinstance(slot, Withheld)]
    links = sum(block["type"] == "resource_link" for block in visible(found))
    assert links + len(json.loads(kept.content)) == 500


@pytest.mark.parametrize(
    "block",
    [
        {"type": "hologram", "voxels": "x" * 10},
        {"type": "image", "data": "no base64!", "mimeType": "image/png"},
        {"type": "image", "data": "AAAA"},
        {"type": "resource", "resource": {"uri": "file:///x"}},
        {"type": "resource", "resource": "x"},
        {"type": "resource_link"},
        {"type": "text"},
        {},
    ],
)
def test_what_is_no_block_is_shown_as_text(block: dict[str, Any]) -> None:
    (shown,) = visible(screened(block))
    assert shown["type"] == "text"
    assert json.loads(shown["text"]) == block


def test_every_string_of_every_block_is_clean() -> None:
    bad, secret = "<|im_start|>", "AKIAIOSFODNN7EXAMPL3"
    blocks = [
        {"type": "text", "text": bad, "_meta": {"note": secret}, "annotations": {"priority": 1, "x": bad}},
        {"type": "resource", "resource": {"uri": "file:///x", "text": bad, "_meta": {}, "title": secret}},
        {"type": "resource_link", "uri": "file:///x", "name": bad, "description": secret},
        {"type": "other", bad: {"deep": [secret]}},
        image(5, title=bad),
    ]
    found = screened(*blocks, structured={"say": [bad], secret: 1})
    everything = json.dumps(visible(found)) + json.dumps(found.provenance)
    assert bad not in everything
    assert secret not in everything
    told = found.provenance
    assert sum(each["count"] for each in told["removed"]) >= 5
    assert sum(each["count"] for each in told["redacted"]) >= 4


def test_annotations_that_no_client_takes_are_told_beside() -> None:
    block = {**text_block("x"), "annotations": {"audience": ["human"], "priority": 0.9}}
    found = screened(text_block("y"), block)
    assert visible(found) == [text_block("y"), text_block("x")]
    assert found.provenance["content_annotations"] == [{"part_index": 1, "audience": ["human"], "priority": 0.9}]
    sound = {**text_block("x"), "annotations": {"audience": ["user"], "priority": 0.9}}
    assert visible(screened(sound)) == [sound]


def test_structured_content_is_told_as_an_outline_with_facts() -> None:
    found = screened(structured=json.loads(NESTED))
    (block,) = visible(found)
    assert "items: array [900] of object" in block["text"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_results_fit_and_are_kept(name: str) -> None:
    found = screened(text_block(HOSTILE[name]))
    assert cost(found) <= 800
    for slot in found.slots:
        if isinstance(slot, Withheld):
            assert slot.content.decode() == CLEAN(HOSTILE[name])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=8), json_values, max_size=5), max_size=5), json_values)
def test_no_result_crashes(blocks: list[dict[str, Any]], structured: Any) -> None:
    found = screened(*blocks, structured=structured)
    assert cost(found) <= 800
    assert repr(screened(*blocks, structured=structured)) == repr(found)


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
def test_no_result_crashes_envelope(raw: Any, structured: Any) -> None:
    if isinstance(raw, dict):
        envelope, _, full_text = mcp_result_to_envelope({**raw, "structuredContent": structured}, "t")
        assert envelope.status == "ok"
        assert full_text


@pytest.mark.parametrize("content", [None, "text", 5, {}, []])
def test_a_result_without_content_says_so(content: object) -> None:
    envelope, binaries, full_text = mcp_result_to_envelope({"content": content}, "t")
    assert (envelope.summary, binaries, full_text) == ("(no content)", {}, "(no content)")


@pytest.mark.parametrize(
    ("value", "facts"),
    [
        ({"count": 42, "status": "done"}, ("count: 42", "status: done")),
        (
            {"items": [1, 2], "owner": {"a": 1}, "x": None, "ok": True},
            ("items: 2 items", "owner: 1 members", "x: null", "ok: true"),
        ),
        ({"a\nb": "two\nlines"}, ("a b: two lines",)),
        ([1, 2], ()),
        ("text", ()),
        (None, ()),
        ({"n": 10**5000}, ("n: a huge number",)),
    ],
)
def test_the_first_level_is_told(value: Any, facts: tuple[str, ...]) -> None:
    assert facts_of(value) == facts


@settings(max_examples=150, deadline=None)
@given(json_values)
def test_facts_are_few_and_short(value: Any) -> None:
    found = facts_of({"v": value, "k" * 500: "x" * 9000, **{str(n): n for n in range(99)}})
    assert len(found) == MAX_FACTS
    assert all(len(fact) <= LONGEST_FACT and "\n" not in fact for fact in found)


def test_structured_content_is_returned_clean_and_its_facts_with_it() -> None:
    structured = {"password": "hunter2!xY", "authorization": "hawk 8f7a6b5c4d3e2f1a0b9c", "note": "a\u200bb"}
    written = screen([], structured, CLEAN, count=COUNT, budget=800, is_written=True, find_violations=FITS)
    assert written.structured == Shortened({**structured, "password": "[redacted:password]", "note": "ab"})
    assert written.slots == ()
    assert written.facts == (
        "password: [redacted:password]",
        "authorization: hawk [redacted:authorization]",
        "note: ab",
    )
    shown = screen([], structured, CLEAN, count=COUNT, budget=800)
    assert (shown.structured, shown.facts) == (None, written.facts)
    assert "hunter2" not in str(shown.slots)
