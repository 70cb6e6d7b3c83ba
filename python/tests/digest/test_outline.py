"""The outline of a JSON value: counts, kinds, order, and that it fits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hostile_texts import HOSTILE, NESTED, json_values
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.digest.outline import (
    NOT_JSON,
    SampledArray,
    SampledObject,
    elements,
    largest_part,
    members,
    outline,
    sample_json,
)


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


def holds(sampled: Any, whole: Any) -> bool:
    """Whether a sample says of the whole only what is true."""
    if isinstance(sampled, SampledArray):
        return len(whole) == sampled.length and all(
            holds(item, whole[place]) for item, place in zip(sampled.items, sampled.places, strict=True)
        )
    if isinstance(sampled, SampledObject):
        return all(key in whole and holds(item, whole[key]) for key, item in sampled.members.items())
    return repr(sampled) == repr(whole)


@settings(max_examples=120, deadline=None)
@given(st.lists(json_values, min_size=3, max_size=9), st.sampled_from([None, 1]))
def test_a_sample_of_a_large_array_is_true(values: list[Any], indent: int | None) -> None:
    whole = values * (20_000 // max(len(json.dumps(values)), 1) + 2)
    sampled = sample_json(json.dumps(whole, indent=indent, ensure_ascii=False))
    found = elements(sampled)
    assert found is not None
    assert found[0] == len(whole)
    assert holds(sampled, whole)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=12), json_values, min_size=1, max_size=9))
def test_a_sample_of_a_large_object_is_true(value: dict[str, Any]) -> None:
    whole = {**value, "long": ["x" * 50] * 900}
    sampled = sample_json(json.dumps(whole))
    found = members(sampled)
    assert found is not None
    assert found[0] == len(whole)
    assert holds(sampled, whole)


def test_quotes_brackets_and_backslashes_in_strings_do_not_mislead() -> None:
    whole = [{"a": '}],"\\', "b": "\\\\", 'c"': "[{"}] * 2000
    sampled = sample_json(json.dumps(whole))
    assert isinstance(sampled, SampledArray)
    assert sampled.length == 2000
    assert sampled.items[0] == whole[0]


@pytest.mark.parametrize("name", ["unbalanced", "closed too early", "no JSON inside", "backslashes", "deep objects"])
def test_what_is_no_json_is_not_taken_for_it(name: str) -> None:
    found = sample_json(HOSTILE[name])
    assert found is NOT_JSON or name == "deep objects"
