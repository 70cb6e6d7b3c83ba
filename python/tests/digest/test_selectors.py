"""Which spellings of a selector are understood, and that no other does harm."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.digest.selectors import KINDS, SELECTOR_SCHEMA, Selector, parse_selector
from leafgate.model.errors import GatewayError


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (None, {"type": "head"}),
        ({}, {"type": "head"}),
        ("head", {"type": "head"}),
        ("stats", {"type": "stats"}),
        ('{"type":"tail","lines":5}', {"type": "tail", "lines": 5}),
        ({"head": 20}, {"type": "head", "lines": 20}),
        ({"tail": 3}, {"type": "tail", "lines": 3}),
        ({"lines": [10, 20]}, {"type": "lines", "start": 10, "end": 20}),
        ({"lines": "10-20"}, {"type": "lines", "start": 10, "end": 20}),
        ({"type": "lines", "start": "10", "end": 12.0}, {"type": "lines", "start": 10, "end": 12}),
        ({"type": "lines", "start": 10, "lines": 3}, {"type": "lines", "start": 10, "end": 12}),
        ({"type": "lines", "start": 10, "limit": 3}, {"type": "lines", "start": 10, "end": 12}),
        ({"type": "lines"}, {"type": "lines"}),
        ({"pointer": "/items/0"}, {"type": "json", "pointer": "/items/0"}),
        ({"json": "$.items[0].name"}, {"type": "json", "pointer": "/items/0/name"}),
        ({"type": "json", "path": "items.0"}, {"type": "json", "pointer": "/items/0"}),
        (
            {"type": "json", "pointer": "/", "start": 0, "limit": 5},
            {"type": "json", "pointer": "", "start": 0, "end": 5},
        ),
        ({"type": "json", "keys": "id"}, {"type": "json", "pointer": "", "keys": ["id"]}),
        ({"rows": [1, 5]}, {"type": "rows", "start": 1, "end": 5}),
        (
            {"type": "rows", "where": {"column": "a", "op": "==", "value": 5}, "columns": ["a"]},
            {"type": "rows", "columns": ["a"], "where": [{"column": "a", "op": "=", "value": 5}]},
        ),
        ({"search": "error"}, {"type": "search", "text": "error"}),
        ({"regex": "^a"}, {"type": "search", "regex": "^a"}),
        ({"type": "grep", "pattern": "^a", "context": 2}, {"type": "search", "regex": "^a", "context": 2}),
        ({"bytes": [0, 100]}, {"type": "bytes", "offset": 0, "length": 100}),
        ({"type": "bytes"}, {"type": "bytes"}),
    ],
)
def test_common_spellings_mean_what_they_seem_to(sent: object, meant: dict[str, Any]) -> None:
    found = parse_selector(sent).as_json()
    assert found == meant
    assert parse_selector(found).as_json() == meant


@pytest.mark.parametrize(
    "sent",
    [
        5,
        [],
        True,
        "everything",
        "{no json",
        {"type": "everything"},
        {"type": ["head"]},
        {"what": 1},
        {"type": "lines", "start": 0},
        {"type": "lines", "start": -1, "end": 2},
        {"type": "lines", "start": 5, "end": 4},
        {"type": "lines", "start": True, "end": 2},
        {"type": "lines", "start": 1 << 60},
        {"type": "head", "lines": 1.5},
        {"type": "head", "lines": float("nan")},
        {"type": "json", "pointer": 5},
        {"type": "json", "start": -1},
        {"type": "json", "keys": [5]},
        {"type": "rows", "columns": 5},
        {"type": "rows", "where": "a = 5"},
        {"type": "rows", "where": {"column": "a", "op": "~", "value": 5}},
        {"type": "rows", "where": {"column": "a", "value": {"$gt": 5}}},
        {"type": "rows", "where": [{"column": "a", "value": 5}] * 9},
        {"type": "search"},
        {"type": "search", "text": ""},
        {"type": "search", "text": "x" * 1000},
        {"type": "search", "text": "\ud800"},
        {"type": "search", "text": "x", "context": -1},
        {"type": "bytes", "length": 0},
    ],
)
def test_whatever_else_is_sent_the_answer_is_typed(sent: object) -> None:
    with pytest.raises(GatewayError) as raised:
        parse_selector(sent)
    assert raised.value.code == "VIEW_FAILED"
    assert "\n" not in raised.value.body.message


def test_the_schema_names_every_kind_and_is_cheap(count: Callable[[str], int]) -> None:
    assert SELECTOR_SCHEMA["properties"]["type"]["enum"] == list(KINDS)
    assert count(json.dumps(SELECTOR_SCHEMA, separators=(",", ":"))) <= 230


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from([*SELECTOR_SCHEMA["properties"], *KINDS, "limit", "path", "within", "pattern"])


@settings(max_examples=400, deadline=None)
@given(json_values | st.dictionaries(names, json_values | st.sampled_from(KINDS), max_size=6))
def test_no_selector_crashes_and_its_canonical_form_is_stable(sent: object) -> None:
    found: Selector | None
    refused = ""
    try:
        found = parse_selector(sent)
    except GatewayError as error:
        found = None
        refused = error.code
    assert refused == "VIEW_FAILED" if found is None else parse_selector(found.as_json()) == found
