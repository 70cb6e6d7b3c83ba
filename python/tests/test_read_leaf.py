"""Lifting leaves out of results: both forms, what is no payload, and what stripping leaves."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from leafgate.codec.read_leaf import (
    find_codec_meta,
    has_codec_meta,
    read_codec_meta,
    read_codec_meta_from_block,
    strip_codec_meta,
    strip_everywhere,
    take_ids,
)
from leafgate.model.errors import CodecMetaMapMismatchError, MapDigestError
from leafgate.model.leaf import CODEC_META_KEY

HASH = "sha256:" + "ab" * 32
OTHER = "sha256:" + "0" * 64


def text(content: str, ids: Any = None, map_id: Any = HASH) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": content}
    return block if ids is None else {**block, "_meta": {CODEC_META_KEY: {"map_id": map_id, "ids": ids}}}


def sibling(ids: Any, map_id: Any = HASH) -> dict[str, Any]:
    return {"type": "_codec_meta", "map_id": map_id, "ids": ids}


IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def test_one_entry_per_text_block() -> None:
    result = {"content": [text("a", [1]), IMAGE, text("b"), text("c"), sibling([3])]}
    entries = read_codec_meta(result)
    assert [(e.text_index, e.text, e.ids, e.map_id, e.source) for e in entries] == [
        (0, "a", [1], HASH, "meta"),
        (2, "b", None, None, None),
        (3, "c", [3], HASH, "sibling"),
    ]
    assert take_ids(result) == [[1], None, [3]]
    assert has_codec_meta(result)


def test_its_own_meta_counts() -> None:
    found = find_codec_meta({"content": [text("a", [1]), sibling([2])]}, 0)
    assert found is not None
    assert found.as_json() == {"map_id": HASH, "ids": [1]}


def test_find_outside_the_text_blocks() -> None:
    result = {"content": [IMAGE, sibling([1]), text("a", [1])]}
    assert [find_codec_meta(result, index) is not None for index in (-1, 0, 1, 2, 3)] == [
        False,
        False,
        False,
        True,
        False,
    ]


def test_map_ids_come_in_the_emitted_form() -> None:
    found = read_codec_meta_from_block(text("a", [1], HASH.removeprefix("sha256:").upper()))
    assert found is not None
    assert found.map_id == HASH


@pytest.mark.parametrize(
    "payload",
    [None, 5, "x", [], {}, {"map_id": HASH}, {"ids": [1]}, {"map_id": "toy", "ids": [1]}, {"map_id": HASH, "ids": "1"},
     {"map_id": HASH, "ids": {"0": 1}}, {"map_id": HASH, "ids": None}, {"map_id": 5, "ids": [1]}],
)  # fmt: skip
def test_what_is_not_well_formed_is_no_payload(payload: Any) -> None:
    block = {"type": "text", "text": "a", "_meta": {CODEC_META_KEY: payload}}
    assert read_codec_meta_from_block(block) is None
    assert not has_codec_meta({"content": [block]})


@pytest.mark.parametrize(
    "result", [{}, {"content": None}, {"content": 5}, {"content": "text"}, {"content": [None, 5, "x", []]}]
)
def test_results_without_text_blocks(result: dict[str, Any]) -> None:
    assert read_codec_meta(result) == []
    assert strip_codec_meta(result) is result


def test_an_expected_map() -> None:
    result = {"content": [text("a", [1]), text("b", [2], OTHER)]}
    with pytest.raises(CodecMetaMapMismatchError) as caught:
        read_codec_meta(result, expected_map_hash=HASH.upper().replace("SHA", "sha"))
    assert (caught.value.expected, caught.value.found, caught.value.text_index) == (HASH, OTHER, 1)
    with pytest.raises(MapDigestError):
        read_codec_meta(result, expected_map_hash="toy")


def test_strip() -> None:
    result = {
        "content": [text("a", [1]), {**text("b", [2]), "x": 1}, sibling([2]), IMAGE],
        "isError": True,
        "_meta": {"mine": 1},
    }
    before = copy.deepcopy(result)
    assert strip_codec_meta(result) == {
        "content": [text("a"), {**text("b"), "x": 1}, IMAGE],
        "isError": True,
        "_meta": {"mine": 1},
    }
    assert result == before


def test_strip_keeps_other_keys() -> None:
    block = {"type": "text", "text": "a", "_meta": {"k": 1, CODEC_META_KEY: "junk"}}
    assert strip_codec_meta({"content": [block]}) == {"content": [{"type": "text", "text": "a", "_meta": {"k": 1}}]}


def test_nothing_to_strip_gives_the_same_object() -> None:
    result = {"content": [text("a"), {"type": "text", "text": "b", "_meta": {"k": 1}}, IMAGE]}
    assert strip_codec_meta(result) is result


HIDDEN = {CODEC_META_KEY: {"map_id": "sha256:" + "a" * 64, "ids": [1, 2]}}
SIBLING = {"type": "_codec_meta", "map_id": "sha256:" + "a" * 64, "ids": [1, 2]}


@pytest.mark.parametrize(
    ("value", "stripped"),
    [
        ({"_meta": HIDDEN}, {}),
        ({"_meta": {**HIDDEN, "other": 1}}, {"_meta": {"other": 1}}),
        (HIDDEN, {}),
        ({"messages": [{"content": {"text": "a", "_meta": HIDDEN}}]}, {"messages": [{"content": {"text": "a"}}]}),
        ({"annotations": {"x": [[HIDDEN]]}}, {"annotations": {"x": [[{}]]}}),
        ({"a": [1, SIBLING, {"b": SIBLING, "c": "d"}]}, {"a": [1, {"c": "d"}]}),
    ],
)
def test_strip_everywhere(value: Any, stripped: Any) -> None:
    before = copy.deepcopy(value)
    assert strip_everywhere(value) == stripped
    assert value == before


@pytest.mark.parametrize(
    "value", [None, "text", 1, [], {}, [1, 2.5, None, "a"], {"a": [{"b": [1]}], "_meta": {"c": 1}}]
)
def test_where_there_is_nothing_to_strip_the_value_is_the_same(value: Any) -> None:
    assert strip_everywhere(value) is value


def test_stripping_ends_at_a_depth_that_no_client_sees() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = {"a": [value]}
    assert strip_everywhere(value) is value
