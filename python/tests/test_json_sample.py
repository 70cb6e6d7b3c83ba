"""Reading JSON by samples: exact lengths, real elements, and nothing that is no JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hostile_texts import HOSTILE, json_values
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.firewall.json_sample import NOT_JSON, SampledArray, SampledObject, elements, members, sample_json


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
