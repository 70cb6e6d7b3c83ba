"""What of a result is withheld: as little as possible, never more than fits, and nothing is lost."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hostile_texts import HOSTILE, LOG, NESTED, json_values
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.firewall.cleaner import make_cleaner
from leafgate.firewall.fit import total
from leafgate.firewall.screen import NOTED, Choice, Screened, Withheld, choose, screen
from leafgate.storage.map_files import MapFiles

CL100K = MapFiles().load("openai/cl100k_base")
COUNT = total(lambda text: len(CL100K.encode(text)))
CLEAN = make_cleaner()
HANDLE = "6ac3d4e3ded086d5f669fe9b"


def screened(*blocks: dict[str, Any], structured: Any = None, budget: int = 800, **more: Any) -> Screened:
    return screen(blocks, structured, CLEAN, count=COUNT, budget=budget, **more)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(b"\x89" * size).decode(), "mimeType": "image/png", **more}


def visible(found: Screened) -> list[Any]:
    blocks = [slot.block(HANDLE) if isinstance(slot, Withheld) else slot for slot in found.slots]
    return [block for block in blocks if block is not None]


def cost(found: Screened) -> int:
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
        ([2000] * 7, 800, Choice(tuple(range(7)), 400, joined=True)),
        ([1] * 900, 800, Choice(tuple(range(900)), 400, joined=True)),
    ],
)
def test_the_largest_go_first_and_as_few_as_needed(sizes: list[int], budget: int, choice: Choice) -> None:
    assert choose(sizes, budget) == choice


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=40), st.integers(100, 2000))
def test_what_stays_and_the_digests_fit_together(sizes: list[int], budget: int) -> None:
    made = choose(sizes, budget)
    stays = 0 if made.joined else sum(size for at, size in enumerate(sizes) if at not in made.withheld)
    digests = made.room * (1 if made.joined else len(made.withheld))
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
    found = screened(*[image(300_000 + n) for n in range(NOTED + 30)])
    assert sum(isinstance(slot, Withheld) for slot in found.slots) == NOTED + 30
    assert len(visible(found)) == NOTED + 1
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
    everything = json.dumps(visible(found)) + json.dumps(found.annotations)
    assert bad not in everything
    assert secret not in everything
    told = found.found.as_provenance()
    assert sum(each["count"] for each in told["removed"]) >= 5
    assert sum(each["count"] for each in told["redacted"]) >= 4


def test_annotations_that_no_client_takes_are_told_beside() -> None:
    block = {**text_block("x"), "annotations": {"audience": ["human"], "priority": 0.9}}
    found = screened(text_block("y"), block)
    assert visible(found) == [text_block("y"), text_block("x")]
    assert found.annotations == ({"part_index": 1, "audience": ["human"], "priority": 0.9},)
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
