"""The outline of a JSON value: counts, kinds, order, and that it fits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hostile_texts import NESTED, json_values
from hypothesis import given, settings

from leafgate.firewall.json_sample import sample_json
from leafgate.firewall.outline import largest_part, outline


def words(text: str) -> int:
    return len(text.split())


def test_elements_of_an_array_are_told_together() -> None:
    value = [{"id": 1, "tag": "a"}, {"id": 2.5}, {"id": None, "tag": "b", "more": {"x": [True]}}]
    assert outline(value, words, 100).split("\n") == [
        "array [3] of object",
        "  id: integer 1 to 2.5 or number 1 to 2.5 or null",
        '  tag?: string "a", "b"',
        "  more?: object, 1 keys",
        "    x: array [1] of boolean",
    ]


def test_members_keep_their_order() -> None:
    lines = outline({"z": 1, "a": {"y": [], "b": "x"}, "m": None}, words, 100).split("\n")
    assert [line.strip().split(":")[0] for line in lines[1:]] == ["z", "a", "y", "b", "m"]


@pytest.mark.parametrize("room", [5, 20, 60, 200])
def test_less_room_gives_less_detail(room: int) -> None:
    assert words(outline(json.loads(NESTED), words, room)) <= room


def test_a_sample_tells_what_the_whole_tells() -> None:
    whole, sampled = outline(json.loads(NESTED), words, 1000), outline(sample_json(NESTED), words, 1000)
    assert "items: array [900] of object" in whole
    assert [line.split(":")[0] for line in whole.split("\n")] == [line.split(":")[0] for line in sampled.split("\n")]


def test_the_part_to_read_first() -> None:
    assert largest_part(json.loads(NESTED)) == "/items"
    assert largest_part({"a/b": [1, 2], "c": 1}) == "/a~1b"
    assert largest_part([1, 2]) == largest_part({"a": 1}) == ""


@settings(max_examples=200, deadline=None)
@given(json_values)
def test_any_value_has_an_outline_and_always_the_same(value: Any) -> None:
    assert words(outline(value, words, 30)) <= 30
    assert outline(value, words, 300) == outline(value, words, 300)
