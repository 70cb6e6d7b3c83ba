"""Facts: few, short, in order."""

from __future__ import annotations

from typing import Any

import pytest
from hostile_texts import json_values
from hypothesis import given, settings

from leafgate.firewall.facts import LONGEST_FACT, MAX_FACTS, facts_of


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
