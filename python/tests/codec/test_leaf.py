"""Lifting leaves out of results: both forms, what is no payload, and what stripping leaves."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.codec.leaf import (
    build_meta_block,
    find_codec_meta,
    has_codec_meta,
    read_codec_meta,
    read_codec_meta_from_block,
    strip_codec_meta,
    strip_everywhere,
    take_ids,
    verify_codec_meta,
    wrap_tool_call,
)
from leafgate.maps.files import MapFiles
from leafgate.model.errors import CodecMetaMapMismatchError, MapDigestError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.tokens.encoder import Encoder

HASH = "sha256:" + "ab" * 32
OTHER = "sha256:" + "0" * 64


def text_block(content: str, ids: Any = None, map_id: Any = HASH) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": content}
    return block if ids is None else {**block, "_meta": {CODEC_META_KEY: {"map_id": map_id, "ids": ids}}}


def sibling(ids: Any, map_id: Any = HASH) -> dict[str, Any]:
    return {"type": "_codec_meta", "map_id": map_id, "ids": ids}


IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def test_one_entry_per_text_block() -> None:
    result = {"content": [text_block("a", [1]), IMAGE, text_block("b"), text_block("c"), sibling([3])]}
    entries = read_codec_meta(result)
    assert [(e.text_index, e.text, e.ids, e.map_id, e.source) for e in entries] == [
        (0, "a", [1], HASH, "meta"),
        (2, "b", None, None, None),
        (3, "c", [3], HASH, "sibling"),
    ]
    assert take_ids(result) == [[1], None, [3]]
    assert has_codec_meta(result)


def test_its_own_meta_counts() -> None:
    found = find_codec_meta({"content": [text_block("a", [1]), sibling([2])]}, 0)
    assert found is not None
    assert found.as_json() == {"map_id": HASH, "ids": [1]}


def test_find_outside_the_text_blocks() -> None:
    result = {"content": [IMAGE, sibling([1]), text_block("a", [1])]}
    assert [find_codec_meta(result, index) is not None for index in (-1, 0, 1, 2, 3)] == [
        False,
        False,
        False,
        True,
        False,
    ]


def test_map_ids_come_in_the_emitted_form() -> None:
    found = read_codec_meta_from_block(text_block("a", [1], HASH.removeprefix("sha256:").upper()))
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
    result = {"content": [text_block("a", [1]), text_block("b", [2], OTHER)]}
    with pytest.raises(CodecMetaMapMismatchError) as caught:
        read_codec_meta(result, expected_map_hash=HASH.upper().replace("SHA", "sha"))
    assert (caught.value.expected, caught.value.found, caught.value.text_index) == (HASH, OTHER, 1)
    with pytest.raises(MapDigestError):
        read_codec_meta(result, expected_map_hash="toy")


def test_strip() -> None:
    result = {
        "content": [text_block("a", [1]), {**text_block("b", [2]), "x": 1}, sibling([2]), IMAGE],
        "isError": True,
        "_meta": {"mine": 1},
    }
    before = copy.deepcopy(result)
    assert strip_codec_meta(result) == {
        "content": [text_block("a"), {**text_block("b"), "x": 1}, IMAGE],
        "isError": True,
        "_meta": {"mine": 1},
    }
    assert result == before


def test_strip_keeps_other_keys() -> None:
    block = {"type": "text", "text": "a", "_meta": {"k": 1, CODEC_META_KEY: "junk"}}
    assert strip_codec_meta({"content": [block]}) == {"content": [{"type": "text", "text": "a", "_meta": {"k": 1}}]}


def test_nothing_to_strip_gives_the_same_object() -> None:
    result = {"content": [text_block("a"), {"type": "text", "text": "b", "_meta": {"k": 1}}, IMAGE]}
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


TOY = MapFiles().load("toy")


def toy_block(content: str, ids: Any = None, map_id: str = TOY.map.digest) -> dict[str, Any]:
    return text_block(content, ids, map_id)


def test_every_block_by_itself() -> None:
    result = {
        "content": [
            toy_block("the cat", [261, 264]),
            {"type": "text", "text": "plain"},
            {"type": "image", "data": ""},
            toy_block("the dog", [261, 264]),
            toy_block("the cat", [261, 264], "sha256:" + "0" * 64),
            toy_block("a", "not ids"),
            {"type": "text", "text": "a"},
            {"type": "_codec_meta", "map_id": TOY.map.digest, "ids": [97]},
        ]
    }
    found = [(v.text_index, v.verdict, v.reason) for v in verify_codec_meta(result, TOY)]
    assert found == [
        (0, "accept", None),
        (1, "absent", None),
        (3, "reject", "text-mismatch"),
        (4, "reject", "foreign-map"),
        (5, "absent", None),
        (6, "accept", None),
    ]


def test_levels() -> None:
    result = {"content": [toy_block("the", [116, 104, 101])]}
    assert [v.verdict for v in verify_codec_meta(result, TOY, level="decode")] == ["accept"]
    assert [v.reason for v in verify_codec_meta(result, TOY, level="canonical")] == ["non-canonical"]


def test_a_result_without_blocks() -> None:
    assert verify_codec_meta({}, TOY) == []


DIGEST = TOY.map.digest

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
payloads = st.fixed_dictionaries(
    {"map_id": st.sampled_from([DIGEST, DIGEST[7:].upper(), "sha256:" + "0" * 64, "junk"])},
    optional={"ids": st.lists(st.one_of(st.integers(-1, 310), st.none()), max_size=4), "more": json_values},
)
metas = st.dictionaries(st.sampled_from(["k", "other"]), json_values, min_size=1, max_size=2)
texts = st.one_of(st.sampled_from(["", "the cat", "a", "\ud800", "the"]), st.text(max_size=12))
text_blocks = st.builds(
    lambda content, meta, payload, extra: (
        {"type": "text", "text": content}
        | ({} if meta is None else {"_meta": meta | ({} if payload is None else {CODEC_META_KEY: payload})})
        | ({} if extra is None else {"annotations": extra})
    ),
    texts,
    st.none() | metas,
    st.none() | payloads,
    st.none() | json_values,
)
siblings = payloads.map(lambda payload: {"type": "_codec_meta", **payload})
other_blocks = st.sampled_from(
    [
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "text"},
        {"type": "resource", "resource": {"text": "the"}},
        None,
        5,
    ]
)
results = st.fixed_dictionaries(
    {"content": st.lists(st.one_of(text_blocks, text_blocks, siblings, other_blocks), max_size=5)},
    optional={"isError": st.booleans(), "structuredContent": json_values, "_meta": metas, "unknown": json_values},
)


@settings(max_examples=200, deadline=None)
@given(result=results, least=st.integers(0, 8))
def test_wrapping(result: dict[str, Any], least: int) -> None:
    before = copy.deepcopy(result)
    once = wrap_tool_call(result, TOY, min_text_length=least)
    assert result == before, "the input is left as it was"
    assert once is not result
    assert wrap_tool_call(once, TOY, min_text_length=least) == once, "twice is once"
    kept = {key: value for key, value in once.items() if key != "content"}
    assert kept == {key: value for key, value in before.items() if key != "content"}
    for verdict in verify_codec_meta(once, TOY, level="canonical"):
        content = once["content"][verdict.text_index]["text"]
        has_one = len(content) >= max(least, 1) and "\ud800" not in content
        assert verdict.verdict in (["accept"] if has_one else ["accept", "absent"] if content else ["absent"])


@settings(max_examples=200, deadline=None)
@given(result=results)
def test_strip_undoes_wrap(result: dict[str, Any]) -> None:
    assert strip_codec_meta(wrap_tool_call(result, TOY)) == strip_codec_meta(result)


def test_the_payload() -> None:
    assert build_meta_block("the cat", TOY) == {"map_id": DIGEST, "ids": [261, 264]}
    assert wrap_tool_call({"content": [toy_block("the cat")]}, TOY) == {"content": [toy_block("the cat", [261, 264])]}


@pytest.mark.parametrize("content", ["", "\ud800", "a\udfff"])
def test_texts_without_a_payload(content: str) -> None:
    assert build_meta_block(content, TOY) is None
    assert wrap_tool_call({"content": [toy_block(content, [1])]}, TOY) == {"content": [toy_block(content)]}


@pytest.mark.parametrize(
    ("ids", "map_id", "kept"),
    [
        ([261], DIGEST, True),
        ([116, 104, 101], DIGEST, False),
        ([97], DIGEST, False),
        ([261], "sha256:" + "0" * 64, False),
    ],
)
def test_a_short_text_keeps_a_right_payload(ids: list[int], map_id: str, kept: bool) -> None:
    found = wrap_tool_call({"content": [toy_block("the", ids, map_id)]}, TOY, min_text_length=4)
    assert take_ids(found) == [ids if kept else None]


def test_length_is_counted_in_code_points() -> None:
    result = {"content": [toy_block("😀" * 4)]}
    assert take_ids(wrap_tool_call(result, TOY, min_text_length=5)) == [None]
    assert take_ids(wrap_tool_call(result, TOY, min_text_length=4)) != [None]


@pytest.mark.parametrize(
    "result", [{}, {"content": None}, {"content": "the cat"}, {"content": 5}, {"structuredContent": {"a": 1}}]
)
def test_results_without_blocks_stay_as_they_are(result: dict[str, Any]) -> None:
    found = wrap_tool_call(result, TOY)
    assert found == result
    assert found is not result


def test_of_several_maps_the_call_chooses(toy: Encoder, qwen: Encoder) -> None:
    result = {"content": [{"type": "text", "text": "the cat"}]}

    def wrapped(**accept: object) -> object:
        meta = {"ai.codec/accept": accept} if accept else None
        block = wrap_tool_call(result, [toy, qwen], request_meta=meta)["content"][0]
        return block.get("_meta", {}).get(CODEC_META_KEY)

    assert wrapped() == {"map_id": toy.map.digest, "ids": toy.encode("the cat")}
    assert wrapped(maps=[qwen.map.digest], form="ids") == {"map_id": qwen.map.digest, "ids": qwen.encode("the cat")}
    assert wrapped(maps=[toy.map.digest], form="packed") == {"map_id": toy.map.digest, "ids": "BQEACAEA"}
    assert wrapped(maps=[toy.map.digest], form="none") is None


def test_a_tokenizer_that_fails_leaves_the_result_plain_and_what_is_none_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        map = TOY.map

        def encode(self, text: str) -> list[int]:
            raise RuntimeError("out of order")

    async def load() -> object:
        return TOY

    result = {"content": [{"type": "text", "text": "the cat"}]}
    assert wrap_tool_call(result, Broken()) == result  # type: ignore[arg-type]  # it has what is used
    assert "out of order" in caplog.text
    loading = load()
    with pytest.raises(TypeError, match="await"):
        wrap_tool_call(result, loading)  # type: ignore[arg-type]  # the mistake itself
    loading.close()
