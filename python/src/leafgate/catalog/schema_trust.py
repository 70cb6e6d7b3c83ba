"""Checks of foreign schemas: limits, meta-validation, references that leave the document (spec 2.2).

No reference and no `$schema` is ever fetched, and the limits bound the cost for any size, depth and shape of a schema.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import jsonschema_rs

FindingCode = Literal[
    "not-an-object", "too-large", "too-deep", "too-many-properties", "not-json", "remote-ref", "invalid"
]

# Keywords whose objects have names as keys and schemas as values.
NAME_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})

# Created once: a union of types in a call is created again by every call, and a catalog has millions of values.
OBJECTS: Final = (dict, Mapping)
ARRAYS: Final = (list, tuple)
LEAVES: Final = frozenset((str, int, bool, type(None)))
_MAX_FINDINGS: Final = 16

# The dialects whose meta-schemas come with the validator. It would fetch any other `$schema`, so those are refused.
_DIALECTS: Final = frozenset(
    (
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-04/schema#",
    )
)
_DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class SchemaLimits:
    """Generous limits: the largest honest schemas reach a tenth of them."""

    max_bytes: int = 262_144
    max_depth: int = 32
    max_properties: int = 2_000


@dataclass(frozen=True)
class SchemaFinding:
    """One reason to distrust a schema. `where` is a JSON pointer, cut if it is long."""

    code: FindingCode
    message: str
    where: str = ""

    @property
    def blocks(self) -> bool:
        """Does it prevent the validation of arguments against this schema?"""
        return self.code != "remote-ref"


def check_schema(schema: object, limits: SchemaLimits = SchemaLimits()) -> list[SchemaFinding]:  # noqa: B008  frozen
    """Return all problems of a schema in a fixed order; an empty list means that it can be compiled and used."""
    if not isinstance(schema, Mapping):
        return [SchemaFinding("not-an-object", f"a schema is an object, this is {_type_name(schema)}")]
    findings = _walk(schema, limits)
    if not any(finding.blocks for finding in findings):
        findings += _meta_validate(schema)
    return findings


# A value in the walk: itself, the steps to it (a chain from the last to the first), its depth, and whether it is an
# object whose keys are names that the server chose, not keywords. A plain tuple: catalogs have millions of them.
_Steps = tuple["_Steps", object] | None
_Node = tuple[Any, _Steps, int, bool]


def _walk(schema: Mapping[str, Any], limits: SchemaLimits) -> list[SchemaFinding]:
    """Check the whole tree in one pass, which ends at the first limit that is exceeded."""
    findings: list[SchemaFinding] = []
    size = properties = 0
    stack: list[_Node] = [(schema, None, 1, False)]
    while stack:
        node = stack.pop()
        value, _, depth, is_names = node
        size += _own_size(value)
        is_object = _is_object(value)
        properties += len(value) if is_names and is_object else 0
        excess = _check_limits(node, size, properties, limits)
        if excess is not None:
            return [*findings, excess]
        if is_object and not is_names and len(findings) < _MAX_FINDINGS:
            findings += _remote_refs(node)
        if is_object or isinstance(value, ARRAYS):
            inside = value.values() if is_object else value
            if depth < limits.max_depth and LEAVES.issuperset(map(type, inside)):
                size += sum(map(_own_size, inside))  # most values have only leaves inside
            else:
                stack += _children(node)
    return findings if size <= limits.max_bytes else [*findings, _too_large(limits)]


def _is_object(value: object) -> bool:
    return type(value) is dict or (type(value) not in LEAVES and isinstance(value, Mapping))


def _check_limits(node: _Node, size: int, properties: int, limits: SchemaLimits) -> SchemaFinding | None:
    value, steps, depth, _ = node
    if depth > limits.max_depth:
        return SchemaFinding("too-deep", f"nested deeper than {limits.max_depth}", _pointer(steps))
    if size > limits.max_bytes:
        return _too_large(limits)
    if properties > limits.max_properties:
        return SchemaFinding("too-many-properties", f"more than {limits.max_properties} properties")
    if _is_object(value):
        odd = next((key for key in value if not isinstance(key, str)), None)
        return None if odd is None else SchemaFinding("not-json", f"a key is {_type_name(odd)}", _pointer(steps))
    if not _is_json_scalar(value) and not isinstance(value, ARRAYS):
        return SchemaFinding("not-json", f"a value is {_type_name(value)}", _pointer(steps))
    return None


def _too_large(limits: SchemaLimits) -> SchemaFinding:
    return SchemaFinding("too-large", f"larger than {limits.max_bytes} bytes")


def _remote_refs(node: _Node) -> list[SchemaFinding]:
    value, steps, _, _ = node
    return [
        SchemaFinding("remote-ref", f"{key} leaves the schema and is never followed", _pointer((steps, key)))
        for key in ("$ref", "$dynamicRef", "$recursiveRef")
        if isinstance(value.get(key), str) and not value[key].startswith("#")
    ]


def _children(node: _Node) -> list[_Node]:
    value, steps, depth, is_names = node
    if isinstance(value, ARRAYS):
        return [(child, (steps, index), depth + 1, False) for index, child in enumerate(value)]
    return [(child, (steps, key), depth + 1, not is_names and key in NAME_MAPS) for key, child in value.items()]


def _pointer(steps: _Steps) -> str:
    parts: list[str] = []
    while steps is not None:
        steps, step = steps
        parts.append(f"/{step}")
    return _short("".join(reversed(parts)))


def _meta_validate(schema: Mapping[str, Any]) -> list[SchemaFinding]:
    declared = _DEFAULT_DIALECT if schema.get("$schema") is None else schema["$schema"]
    if not isinstance(declared, str):
        return [SchemaFinding("invalid", "$schema is not a string", "/$schema")]
    spellings = (declared, declared.rstrip("#"), f"{declared}#")
    dialect = next((spelling for spelling in spellings if spelling in _DIALECTS), None)
    if dialect is None:
        return [SchemaFinding("invalid", f"unknown dialect {_short(declared)!r}", "/$schema")]
    try:
        jsonschema_rs.meta.validate({**schema, "$schema": dialect})
    except jsonschema_rs.ValidationError as error:
        pointer = "".join(f"/{step}" for step in error.instance_path)
        return [SchemaFinding("invalid", _short(error.message, 200), _short(pointer))]
    except (jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        return [SchemaFinding("invalid", _short(str(error), 200))]
    return []


def _own_size(value: object) -> int:
    """Estimate the bytes of a value as JSON, without its children."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, ARRAYS):
        return 2 + len(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return max(1, value.bit_length() // 3)
    if isinstance(value, OBJECTS):
        return 2 + sum(len(key) + 4 for key in value if isinstance(key, str))
    return 4


def _is_json_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)


def _type_name(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _short(text: str, limit: int = 120) -> str:
    """Return a foreign text that is safe to log: one printable line, cut."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 2 * limit]).split())
    return line if len(line) <= limit and len(text) <= 2 * limit else f"{line[: limit - 1]}…"
