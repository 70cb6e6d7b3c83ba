"""A smaller value of the same schema: valid, within its room, and made of what was there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hostile_texts import json_values
from hypothesis import given, settings

from leafgate.admission.validate import SchemaShelf
from leafgate.digest.instance import NOTE_KEY, FindViolations, Shortened, shorten, write_json
from leafgate.maps.files import MapFiles

CL100K = MapFiles().load("openai/cl100k_base")
ROW = {"id": 1, "name": "Ada Lovelace", "tags": ["a", "b"], "note": "a long note about a person " * 20}
ROWS = {"rows": [{**ROW, "id": number} for number in range(2_000)], "next": None}


def count(text: str) -> int:
    return len(CL100K.encode(text))


def checker(schema: Mapping[str, Any]) -> FindViolations:
    prepared = SchemaShelf().prepare(schema)
    return lambda value: [violation.pointer for violation in prepared.violations(value)]


def shortened(value: Any, schema: Mapping[str, Any] | None = None, room: int = 400) -> Shortened | None:
    return shorten(value, checker(schema or {}), count, room)


def test_rows_are_cut_to_the_first_ones() -> None:
    smaller = shortened(ROWS)
    assert smaller is not None
    assert smaller.value["next"] is None
    assert smaller.value["rows"][0]["id"] == 0
    assert smaller.value["rows"][0]["note"].startswith("a long note")
    assert count(write_json(smaller.with_note("6ac3d4e3ded086d5f669fe9b"))) <= 400


@pytest.mark.parametrize(
    "value",
    [["x" * 50] * 3_000, "a sentence of some words. " * 5_000, {f"key {n}": n for n in range(9_000)}, [[["x"] * 999]]],
)
def test_any_json_is_cut(value: Any) -> None:
    smaller = shortened(value)
    assert smaller is not None
    assert type(smaller.value) is type(value)
    assert 0 < len(smaller.value) < len(value) or smaller.value[0] != value[0]


HEX = "0123456789abcdef" * 20
STRICT: dict[str, Any] = {
    "type": "object",
    "required": ["rows", "digest", "state"],
    "additionalProperties": False,
    "properties": {
        "rows": {"type": "array", "minItems": 3, "items": {"type": "object", "required": ["id", "note"]}},
        "digest": {"type": "string", "pattern": "^[0-9a-f]{320}$"},
        "state": {"enum": ["a state with a name that is rather long for an enumeration, but is one of two"]},
    },
}


def test_what_the_schema_does_not_allow_to_be_cut_stays() -> None:
    value = {"rows": ROWS["rows"], "digest": HEX, "state": STRICT["properties"]["state"]["enum"][0]}
    smaller = shortened(value, STRICT, room=700)
    assert smaller is not None
    assert not checker(STRICT)(smaller.value)
    assert smaller.value["digest"] == HEX
    assert 3 <= len(smaller.value["rows"]) < 2_000
    assert smaller.with_note("h") == smaller.value, "the schema allows no further member"


def test_required_members_behind_many_others_stay() -> None:
    names = [f"member {number:03}" for number in range(60)]
    schema = {"type": "object", "required": names, "additionalProperties": {"type": "string"}}
    smaller = shortened(dict.fromkeys(names, "a long text that may be cut " * 30), schema, room=900)
    assert smaller is not None
    assert [*smaller.value] == names
    assert NOTE_KEY in smaller.with_note("h")


@pytest.mark.parametrize("schema", [{"minItems": 5_000}, {"items": {"minLength": 4_000}, "minItems": 1}, {"not": {}}])
def test_a_schema_that_allows_nothing_smaller_gives_nothing(schema: Mapping[str, Any]) -> None:
    assert shortened(["x" * 4_000] * 5_000, schema) is None


def test_members_with_slashes_and_tildes_are_put_back() -> None:
    schema = {"properties": {"a/b~c": {"type": "string", "minLength": 500}}, "required": ["a/b~c"]}
    smaller = shortened({"x": "y" * 9_000, "a/b~c": "ab " * 200}, schema)
    assert smaller is not None
    assert smaller.value["a/b~c"] == "ab " * 200


def test_the_note_names_the_handle_where_there_is_one() -> None:
    smaller = shortened(ROWS)
    assert smaller is not None
    assert "6ac3" in json.dumps(smaller.with_note("6ac3"))
    assert NOTE_KEY not in smaller.with_note(None)


@settings(max_examples=60)
@given(json_values)
def test_no_value_crashes(value: Any) -> None:
    smaller = shorten(value, lambda _: (), count, 60)
    assert smaller is None or count(write_json(smaller.value)) <= 60
