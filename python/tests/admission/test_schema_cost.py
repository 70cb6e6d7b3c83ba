"""Schemas that ask for more than they look like, and the bound that is known before the engine runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leafgate.admission.schema_cost import HOPELESS, cost_of_checking, cost_of_reporting
from leafgate.admission.validate import (
    CHECK_BUDGET,
    MAX_DEPTH,
    MAX_NODES,
    NotJsonError,
    SchemaShelf,
    TooCostlyError,
    measure_json,
)
from leafgate.model.errors import GatewayError

CATALOG = Path(__file__).parents[1] / "data" / "routing" / "dev_catalog.json"


def doubling(levels: int) -> dict[str, Any]:
    """2^levels evaluations of one small value."""
    defs: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)
    }
    return {"$defs": {**defs, f"d{levels}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def branching(keyword: str = "anyOf") -> dict[str, Any]:
    """Twice as many evaluations with every level of the value."""
    branch = {"properties": {"c": {"$ref": "#/$defs/n"}}, "required": ["x"]}
    return {"$defs": {"n": {keyword: [branch, dict(branch)]}}, "$ref": "#/$defs/n"}


def unevaluated(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        inner = {"allOf": [inner], "unevaluatedProperties": False}
    return inner


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"c": value}
    return value


TREE = {
    "$defs": {"n": {"properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}},
    "$ref": "#/$defs/n",
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling(30), {}),
        (branching(), nested(40)),
        (branching("oneOf"), nested(40)),
        (branching("allOf"), nested(40)),
        (unevaluated(30), {}),
        (
            {
                "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(999)} | {"d999": {}},
                "$ref": "#/$defs/d0",
            },
            {},
        ),
    ],
)
def test_what_could_keep_the_loop_busy_is_refused_before_it_runs(schema: dict[str, Any], value: Any) -> None:
    with pytest.raises(TooCostlyError):
        SchemaShelf().prepare(schema).violations(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling(5), {}),
        (branching(), {"x": 1, "c": {"x": 1}}),
        ({"$ref": "#"}, {}),
        ({"allOf": [{"$ref": "#"}]}, {}),
        (TREE, {"kids": [{"kids": [{}]}] * 100}),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(500)}}, {"p1": "x"}),
        ({"$defs": {"a": {"$anchor": "here", "type": "object"}}, "$ref": "#here"}, {}),
        ({"properties": {"$id": {"type": "string"}, "id": {"type": "string"}}}, {"$id": "x"}),
        ({"items": [{"type": "integer"}], "$schema": "http://json-schema.org/draft-07/schema#"}, {}),
        ({"properties": {"x": True, "y": False}}, {"x": 1}),
        ({"$id": "https://example.org/root", "$defs": {"a": {}}, "$ref": "#/$defs/a"}, {}),
    ],
)
def test_honest_schemas_are_used(schema: dict[str, Any], value: Any) -> None:
    assert SchemaShelf().prepare(schema).violations(value) == []


def test_recursion_in_one_place_costs_the_same_at_any_depth() -> None:
    cost = cost_of_checking(TREE)
    assert cost.closed
    assert cost.bound(1000, 90) < 10_000


def test_choices_cost_more_to_tell_than_to_check() -> None:
    schema = branching()
    assert cost_of_reporting(schema).bound(1, 8) > 10 * cost_of_checking(schema).bound(1, 8)


def test_schemas_of_real_servers_are_far_from_the_bound() -> None:
    for entry in json.loads(CATALOG.read_text(encoding="utf-8")):
        cost = cost_of_checking(entry["tool"]["inputSchema"])
        assert cost.closed
        assert cost.bound(1_000, 10) < CHECK_BUDGET


def test_an_embedded_document_is_not_guessed_at() -> None:
    schema = {"$defs": {"a": {"$id": "https://example.org/a", "$ref": "#/$defs/b", "$defs": {"b": {}}}}}
    assert cost_of_checking({**schema, "$ref": "#/$defs/a"}).by_depth[-1] >= HOPELESS


def test_a_large_value_is_checked_but_its_faults_are_not_all_told() -> None:
    rows = {"properties": {"rows": {"items": {"type": "integer"}}}}
    checked = SchemaShelf().prepare(rows)
    assert checked.violations({"rows": [1] * 50_000}) == []
    (found,) = checked.violations({"rows": [1] * 50_000 + ["x"]})
    assert found.pointer == "/rows/50000"
    choosy = {"properties": {"rows": {"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}}
    (vague,) = SchemaShelf().prepare(choosy).violations({"rows": ["x"] * 50_000})
    assert "too large" in vague.message


@pytest.mark.parametrize(
    "odd",
    [
        {"a": float("nan")},
        {"a": float("inf")},
        {1: "a"},
        {"a": {1, 2}},
        {"a": b"x"},
        {"a": "\ud800"},
        {"\udfff": 1},
        {"a": object()},
        nested(MAX_DEPTH + 1),
        {"a": [0] * MAX_NODES},
    ],
)
def test_what_json_cannot_carry_is_not_checked(odd: Any) -> None:
    with pytest.raises(NotJsonError):
        measure_json(odd)


def test_a_schema_is_made_ready_once_and_the_shelf_is_bounded() -> None:
    shelf = SchemaShelf(capacity=2)
    schemas: list[dict[str, Any]] = [{"type": "object"}, {"type": "object"}, {"type": "object"}]
    first = shelf.prepare(schemas[0])
    assert shelf.prepare(schemas[0]) is first
    for schema in schemas[1:]:
        shelf.prepare(schema)
    assert shelf.prepare(schemas[0]) is not first


def test_an_unusable_schema_stays_one() -> None:
    shelf = SchemaShelf()
    for _ in range(2):
        with pytest.raises(GatewayError):
            shelf.prepare({"type": "no-such-type"})
