"""Five rules, each with where it applies and where it must not; and what holds for all arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.admission.validate import MAX_REPAIRS, compile_schema, repair, violations


def field(kind: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"type": kind}}}


@pytest.mark.parametrize(
    ("kind", "text", "value", "rule"),
    [
        ("integer", "5", 5, "str_to_integer"),
        ("integer", "-12", -12, "str_to_integer"),
        ("integer", "123456789012345678901234567890", 123456789012345678901234567890, "str_to_integer"),
        ("number", "5", 5.0, "str_to_number"),
        ("number", "-1.5e3", -1500.0, "str_to_number"),
        ("boolean", "true", True, "str_to_boolean"),
        ("boolean", "false", False, "str_to_boolean"),
        ("null", "null", None, "str_to_null"),
        (["integer", "null"], "null", None, "str_to_null"),
        (["integer", "number"], "7", 7, "str_to_integer"),
        (["number", "null"], "0.5", 0.5, "str_to_number"),
    ],
)
def test_a_text_becomes_what_the_schema_demands(kind: Any, text: str, value: Any, rule: str) -> None:
    done = repair(field(kind), {"x": text, "y": text})
    assert done.args == {"x": value, "y": text}
    assert type(done.args["x"]) is type(value)
    assert [each.as_json() for each in done.repairs] == [{"rule": rule, "pointer": "/x"}]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "5.0"),
        ("integer", " 5"),
        ("integer", "+5"),
        ("integer", "05"),
        ("integer", "1_000"),
        ("integer", "0x10"),
        ("integer", "٣"),
        ("integer", ""),
        ("integer", "9" * 5000),
        ("number", "nan"),
        ("number", "Infinity"),
        ("number", "1e999"),
        ("number", ".5"),
        ("number", "5."),
        ("number", "5\n"),
        ("boolean", "True"),
        ("boolean", "yes"),
        ("boolean", "1"),
        ("null", "None"),
        ("null", ""),
        ("string", "5"),
        (["string", "integer"], "5"),
        (["null", "string"], "null"),
        ("object", "{}"),
        ("array", "[]"),
        (None, "5"),
        (7, "5"),
    ],
)
def test_nothing_is_guessed(kind: Any, text: str) -> None:
    args = {"x": text}
    done = repair(field(kind), args)
    assert done.args is args
    assert done.repairs == ()


@pytest.mark.parametrize("text", ['{"x": "5"}', '\ufeff{"x": "5"}', ' \n{"x": "5"}\t', '\n\ufeff {"x": "5"} '])
def test_a_whole_object_as_text_is_read_and_its_fields_with_it(text: str) -> None:
    done = repair(field("integer"), text)
    assert done.args == {"x": 5}
    assert [each.rule for each in done.repairs] == ["parse_stringified_object", "str_to_integer"]


@pytest.mark.parametrize("text", ["", "[]", "5", '"{}"', "{'a': 1}", '{"a": NaN}', '{"a": 1', "[" * 100_000, "{} {}"])
def test_a_text_that_is_no_object_stays_a_text(text: str) -> None:
    assert repair(field("integer"), text).args is text


def test_nested_objects_and_arrays_are_followed_by_their_schemas() -> None:
    row = {"type": "object", "properties": {"a/b": {"type": "integer"}, "t": {"type": "string"}}}
    schema = {"properties": {"rows": {"type": "array", "items": row}}}
    done = repair(schema, {"rows": [{"a/b": "1", "t": "1"}, {"a/b": 2}, {"a/b": "x"}]})
    assert done.args == {"rows": [{"a/b": 1, "t": "1"}, {"a/b": 2}, {"a/b": "x"}]}
    assert [each.pointer for each in done.repairs] == ["/rows/0/a~1b"]


def test_elements_of_a_tuple_are_not_judged_by_the_schema_of_the_rest() -> None:
    schema = {"properties": {"x": {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}}}
    assert repair(schema, {"x": ["1", "2"]}).args == {"x": ["1", 2]}


def test_neighbours_of_a_reference_demand_nothing() -> None:
    schema = {"properties": {"x": {"$ref": "#/$defs/t", "type": "integer"}}, "$defs": {"t": {}}}
    assert repair(schema, {"x": "5"}).repairs == ()


def test_what_needs_more_repairs_than_can_be_told_is_left_alone() -> None:
    schema = {"properties": {"x": {"type": "array", "items": {"type": "integer"}}}}
    args = {"x": ["1"] * (MAX_REPAIRS + 1)}
    assert repair(schema, args).args is args
    assert len(repair(schema, {"x": ["1"] * MAX_REPAIRS}).repairs) == MAX_REPAIRS


def test_nothing_given_is_changed() -> None:
    args = {"x": "5", "deep": {"y": ["5"]}}
    before = json.dumps(args)
    repair({"properties": {"x": {"type": "integer"}}}, args)
    assert json.dumps(args) == before


KINDS = st.sampled_from(["integer", "number", "boolean", "null", "string", "object", "array"])
LEAVES = st.fixed_dictionaries({"type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True)})
SCHEMAS = st.recursive(
    LEAVES | st.just({}),
    lambda inner: (
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)})
        | st.fixed_dictionaries({"items": inner})
    ),
    max_leaves=6,
)
TEXTS = st.sampled_from(["5", "-1", "1.5", "1e2", "true", "false", "null", "", "x", "{}", "[1]", "1e999"])
VALUES = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def exact(value: Any) -> str:
    return json.dumps(value)


@settings(max_examples=300)
@given(SCHEMAS, ARGS)
def test_valid_arguments_are_never_changed(schema: dict[str, Any], args: dict[str, Any]) -> None:
    if not violations(compile_schema(schema), args):
        assert repair(schema, args).repairs == ()


@settings(max_examples=300)
@given(SCHEMAS, ARGS | ARGS.map(json.dumps))
def test_repairing_twice_is_repairing_once(schema: dict[str, Any], args: Any) -> None:
    once = repair(schema, args)
    twice = repair(schema, once.args)
    assert twice.repairs == ()
    assert exact(twice.args) == exact(once.args)


@settings(max_examples=300)
@given(SCHEMAS, ARGS)
def test_a_repair_touches_only_what_it_tells_of(schema: dict[str, Any], args: dict[str, Any]) -> None:
    done = repair(schema, args)
    told = {each.pointer for each in done.repairs}
    assert {pointer for pointer, text in flat(args) if dict(flat(done.args))[pointer] != text} == told


def flat(value: Any, pointer: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in flat(inner, f"{pointer}/{key}")]
    if isinstance(value, list):
        return [pair for index, inner in enumerate(value) for pair in flat(inner, f"{pointer}/{index}")]
    return [(pointer, exact(value))]
