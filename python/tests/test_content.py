"""The text of content blocks, and the leaves on them."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.context.content import read_content
from leafgate.model.context import LeafSpan
from leafgate.model.leaf import CODEC_META_KEY, Payload

DIGEST = "sha256:" + "ab" * 32


def block(text: str, ids: Any = None, map_id: Any = DIGEST, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": text, "_meta": {CODEC_META_KEY: {"map_id": map_id, "ids": ids}}}


def test_texts_are_joined_by_lines_and_leaves_stay_with_them() -> None:
    read = read_content(
        [block("one", [1, 2]), {"type": "text", "text": "two"}, block("three", [3], DIGEST.upper()[7:])]
    )
    assert read.text == "one\ntwo\nthree"
    assert read.leaves == (LeafSpan(0, 3, Payload(DIGEST, [1, 2])), LeafSpan(8, 13, Payload(DIGEST, [3])))
    assert [read.text[span.start : span.end] for span in read.leaves] == ["one", "three"]


@pytest.mark.parametrize(
    "wrong",
    [
        block("x", None),
        block("x", "1"),
        block("x", {"0": 1}),
        block("x", [1], "sha256:short"),
        block("x", [1], None),
        block("", [1]),
        block("x", [1], kind="image"),
        {"type": "text", "text": "x", "_meta": None},
        {"type": "text", "text": "x", "_meta": {CODEC_META_KEY: [1]}},
    ],
)
def test_what_is_no_leaf_is_none(wrong: dict[str, Any]) -> None:
    assert read_content([wrong]).leaves == ()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("plain", "plain"),
        ({"type": "image", "mimeType": "image/png", "data": "AAAA"}, "[image image/png]"),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}, "inside"),
        ({"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}}, "[resource file:///a]"),
        ({"type": "resource", "resource": {"blob": "", "mimeType": "a/b"}}, "[resource a/b]"),
        ({"type": "resource_link", "uri": "file:///a", "name": "A\nfile"}, "[resource_link A file file:///a]"),
        ({"uri": "file:///a", "text": "a resource's own contents"}, "a resource's own contents"),
        (5, "[int]"),
        (None, "[NoneType]"),
        ({}, "[None]"),
    ],
)
def test_other_blocks_are_told_in_a_few_words(given: Any, text: str) -> None:
    assert read_content([given]).text == text
