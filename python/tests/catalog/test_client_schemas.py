"""Schemas and patterns that the validator of the TypeScript SDK compiles, and those that it does not."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import pytest

from leafgate.catalog.client_schemas import find_obstacle, is_script_pattern

PIECES = [
    "a", "\\d", "\\w", "\\p{L}", "\\p{Lx}", "[", "]", "[a-z]", "[z-a]", "[\\d-z]", "[^]", "[]", "(", "(?:",
    "(?=", "(?<=", "(?<n>", "(?P<n>", "(?i)", ")", "|", "*", "+", "?", "{2}", "{2,1}", "{,3}", "{3,", "}", "{",
    "^", "$", "\\b", "\\-", "\\_", "\\1", "\\0", "\\01", "\\x4", "\\x41", "\\u00e9", "\\u{41}", "\\u{110000}",
    "\\u{10ffff}", "\\cA", "\\c1", "\\", "[\\-a]", "[a-\\-]", "[+-\\d]", "[\\b]", "[\\B]", "-", "/", "é", "😀",
    "[😀-😎]", "[\\u{1F600}-😎]", "\\/", "\n", "[a\\]]", "(?#c)", "??", "++", "[[a]]", "[\\x00-\\x1f]",
    "[A-Za-z0-9_.-]", "\\Z", "\\A", "(?!a)*", "(?<!a)+", "[\\0-\\t]", "{0}",
]  # fmt: skip
COMPILE = """
const patterns = JSON.parse(require("fs").readFileSync(0));
const compiles = (text) => { try { new RegExp(text, "u"); return true } catch { return false } };
console.log(JSON.stringify(patterns.map(compiles)));
"""


def object_with(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string"}}, **more}


def with_pattern(pattern: str) -> dict[str, Any]:
    return object_with(properties={"a": {"type": "string", "pattern": pattern}})


USABLE = [
    {"type": "object"},
    object_with(required=["a"], additionalProperties=False),
    with_pattern(r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"),
    with_pattern(r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"),
    with_pattern(r"^([\w.+-]+)@(\p{L}|[\u{41}-\u{5A}])+$"),
    object_with(**{"$ref": "#/$defs/x", "$defs": {"x": {"type": "object", "$ref": "#"}}}),
    object_with(**{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/x"}),
    object_with(**{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}, {}]}),
    object_with(properties={"id": {"type": "string"}, "$id": {"const": {"id": 5}}, "default": {"default": {"id": 7}}}),
    object_with(oneOf=[{"required": ["a"]}, {"minProperties": 2}], dependentRequired={"a": ["b"]}),
]
UNUSABLE = [
    object_with(properties={"a": {"type": "banana"}}),
    with_pattern("(?i)abc"),
    with_pattern("(?P<year>[0-9]+)"),
    with_pattern("a++"),
    object_with(patternProperties={r"\Aa\Z": {}}),
    object_with(**{"$ref": "#/$defs/none"}),
    object_with(**{"$ref": "#/unknown", "unknown": {"type": "banana"}}),
    object_with(**{"$ref": "http://127.0.0.1:1/x.json"}),
    object_with(**{"$ref": "#/$defs/a%zz"}),
    object_with(**{"$defs": {"x": {"$id": "http://other.example/schema"}}}),
    object_with(**{"$defs": {"x": {"$anchor": "x"}, "y": {"$anchor": "x"}}}),
    object_with(unknown={"$id": "http://other.example/schema"}),
    object_with(**{"$async": True}),
    object_with(id="http://x"),
    object_with(properties={"a": {"nullable": True}}),
    object_with(properties={"a": {"enum": []}}),
    object_with(properties={"a": {"format": "date", "formatMinimum": 5}}),
    object_with(**{
        "$schema": "http://json-schema.org/draft-04/schema#",
        "definitions": {"a": {"minimum": 1, "exclusiveMinimum": True}},
    }),
    object_with(**{"$defs": {"a": {"items": [{}]}}, "properties": {"a": {"additionalItems": 5}}}),
]  # fmt: skip


@pytest.mark.parametrize("schema", USABLE)
def test_a_schema_that_clients_compile(schema: dict[str, Any]) -> None:
    assert find_obstacle(schema) == ""


@pytest.mark.parametrize("schema", UNUSABLE)
def test_a_schema_that_clients_may_fail_to_compile(schema: dict[str, Any]) -> None:
    assert find_obstacle(schema)


def test_no_pattern_is_accepted_that_javascript_refuses() -> None:
    chance = random.Random(5)
    patterns = [*PIECES, *("".join(chance.choices(PIECES, k=chance.randint(1, 5))) for _ in range(20_000))]
    node = subprocess.run(
        ["node", "-e", COMPILE], input=json.dumps(patterns), capture_output=True, text=True, check=True
    )
    compiled = {pattern for pattern, works in zip(patterns, json.loads(node.stdout), strict=True) if works}
    accepted = {pattern for pattern in patterns if is_script_pattern(pattern)}
    assert accepted - compiled == set()
    # Refused although they compile: references to groups, which few schemas have.
    assert all("\\1" in pattern for pattern in compiled - accepted)


def test_a_long_pattern_is_refused_and_read_in_linear_time() -> None:
    assert not is_script_pattern("a" * 5_000)
    assert not is_script_pattern("[" * 4_000)
    assert is_script_pattern("(" * 1_000 + ")" * 1_000)
