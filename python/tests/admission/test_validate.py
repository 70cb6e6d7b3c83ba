import pytest

from leafgate.admission.validate import compile_schema, violations
from leafgate.model.errors import GatewayError

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b/c": {"type": "string", "pattern": "^(x+)+$"}},
    "required": ["a", "d"],
    "additionalProperties": False,
}


def test_all_violations_are_told_with_pointers_and_sorted() -> None:
    found = violations(compile_schema(SCHEMA), {"a": "1", "b/c": 5, "z": 0})
    assert [violation.pointer for violation in found] == ["", "", "/a", "/b~1c"]
    assert any('"d" is a required property' in violation.message for violation in found)


def test_good_arguments_have_none() -> None:
    assert violations(compile_schema({"type": "object"}), {"anything": [1]}) == []


def test_a_pattern_that_explodes_elsewhere_is_linear_here() -> None:
    text = "x" * 50_000 + "!"
    found = violations(compile_schema(SCHEMA), {"a": 1, "d": 1, "b/c": text})
    assert "/b~1c" in [violation.pointer for violation in found]


def test_look_around_is_still_understood() -> None:
    schema = {"properties": {"p": {"type": "string", "pattern": "^(?!/)"}}}
    assert violations(compile_schema(schema), {"p": "/etc"})
    assert not violations(compile_schema(schema), {"p": "etc"})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"type": "no-such-type"},
        {"properties": {"a": {"pattern": "("}}},
    ],
)
def test_an_unusable_schema_is_the_upstreams_fault(schema: dict) -> None:
    with pytest.raises(GatewayError) as raised:
        compile_schema(schema)
    assert raised.value.code == "SCHEMA_INVALID"
