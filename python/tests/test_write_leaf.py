"""Putting leaves on results: idempotent, without a mark on the input, and everything that is not ours survives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.codec.read_leaf import strip_codec_meta, take_ids
from leafgate.codec.verify_leaf import verify_codec_meta
from leafgate.codec.write_leaf import build_meta_block, wrap_tool_call
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.storage.map_files import MapFiles

TOY = MapFiles().load("toy")
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
    lambda text, meta, payload, extra: (
        {"type": "text", "text": text}
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
        text = once["content"][verdict.text_index]["text"]
        has_one = len(text) >= max(least, 1) and "\ud800" not in text
        assert verdict.verdict in (["accept"] if has_one else ["accept", "absent"] if text else ["absent"])


@settings(max_examples=200, deadline=None)
@given(result=results)
def test_strip_undoes_wrap(result: dict[str, Any]) -> None:
    assert strip_codec_meta(wrap_tool_call(result, TOY)) == strip_codec_meta(result)


def text(content: str, ids: list[int] | None = None, map_id: str = DIGEST) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": content}
    return block if ids is None else {**block, "_meta": {CODEC_META_KEY: {"map_id": map_id, "ids": ids}}}


def test_the_payload() -> None:
    assert build_meta_block("the cat", TOY) == {"map_id": DIGEST, "ids": [261, 264]}
    assert wrap_tool_call({"content": [text("the cat")]}, TOY) == {"content": [text("the cat", [261, 264])]}


@pytest.mark.parametrize("content", ["", "\ud800", "a\udfff"])
def test_texts_without_a_payload(content: str) -> None:
    assert build_meta_block(content, TOY) is None
    assert wrap_tool_call({"content": [text(content, [1])]}, TOY) == {"content": [text(content)]}


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
    found = wrap_tool_call({"content": [text("the", ids, map_id)]}, TOY, min_text_length=4)
    assert take_ids(found) == [ids if kept else None]


def test_length_is_counted_in_code_points() -> None:
    result = {"content": [text("😀" * 4)]}
    assert take_ids(wrap_tool_call(result, TOY, min_text_length=5)) == [None]
    assert take_ids(wrap_tool_call(result, TOY, min_text_length=4)) != [None]


@pytest.mark.parametrize(
    "result", [{}, {"content": None}, {"content": "the cat"}, {"content": 5}, {"structuredContent": {"a": 1}}]
)
def test_results_without_blocks_stay_as_they_are(result: dict[str, Any]) -> None:
    found = wrap_tool_call(result, TOY)
    assert found == result
    assert found is not result
