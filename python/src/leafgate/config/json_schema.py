"""The JSON Schema of a configuration, for editors. In: the table of keys. Out: a schema (2020-12). Touches nothing."""

from __future__ import annotations

import json
from typing import Any, Final

from leafgate.config.keys import TOP
from leafgate.config.kinds import (
    SECURE_URL,
    FilePath,
    Key,
    Kind,
    ListOf,
    MapOf,
    Number,
    Section,
    Switch,
    Text,
    Whole,
    Written,
)
from leafgate.config.variables import VARIABLE

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE_REF: Final = {"$ref": "#/$defs/variable"}


def config_schema() -> dict[str, Any]:
    """The schema of a whole file."""
    named: dict[str, Any] = {
        "variable": {
            "type": "string",
            "pattern": VARIABLE,
            "description": "A text with ${NAME}, filled in at the start.",
        }
    }
    top = _section(TOP, named)
    return {"$schema": DIALECT, "title": "leafgate configuration", **top, "$defs": named}


def schema_text() -> str:
    """The schema as the repository keeps it."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def _of(kind: Kind, named: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case Section():
            return _shared(kind, named) if kind.name else _section(kind, named)
        case MapOf():
            return _map(kind, named)
        case ListOf():
            return _list(kind, named)
        case Written():
            return {"type": ["string", "number", "boolean"]}
        case Text(pattern="", choices=()) | FilePath(or_url=False):
            least = kind.least if isinstance(kind, Text) else 1
            return {"type": "string", **({"minLength": least} if least else {})}
        case _:
            return {"anyOf": [_exact(kind), _VARIABLE_REF]}


def _list(kind: ListOf, named: dict[str, Any]) -> dict[str, Any]:
    entry = _of(kind.entry, named)
    listed = {"type": "array", "items": entry, **({"minItems": kind.least} if kind.least else {})}
    return {"anyOf": [entry, listed]} if kind.or_one else listed


def _exact(kind: Kind) -> dict[str, Any]:
    """A value that stands there itself; each of these may also be a variable."""
    match kind:
        case Switch():
            return {"type": "boolean"}
        case Whole():
            return {"type": "integer", "minimum": kind.least} | ({} if kind.most is None else {"maximum": kind.most})
        case Number():
            return {"type": "number", "exclusiveMinimum" if kind.above else "minimum": kind.least, "maximum": kind.most}
        case Text() if kind.choices:
            return {"enum": [*kind.choices]}
        case Text():
            return {"type": "string", "pattern": f"^({kind.pattern})$", "description": kind.hint}
        case _:
            assert isinstance(kind, FilePath)
            return {"type": "string", "pattern": f"^({SECURE_URL.pattern}|((?!://).)+)$", "description": kind.hint}


def _shared(kind: Section, named: dict[str, Any]) -> dict[str, Any]:
    if kind.name not in named:
        named[kind.name] = {}  # its place, in the order in which names come up
        named[kind.name] = _section(kind, named)
    return {"$ref": f"#/$defs/{kind.name}"}


def _section(kind: Section, named: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {key.name: _property(key, named) for key in kind.keys},
        "additionalProperties": False,
    }
    required = [key.name for key in kind.keys if key.required]
    if required:
        schema["required"] = required
    if kind.exactly_one:
        schema["oneOf"] = [_not_null(name) for name in kind.exactly_one]
    if kind.any_of:
        schema["anyOf"] = [_not_empty(name) for name in kind.any_of]
    return schema


def _not_null(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


def _not_empty(name: str) -> dict[str, Any]:
    filled = {"minProperties": 1, "minItems": 1, "minLength": 1}
    return {"required": [name], "properties": {name: filled}}


def _property(key: Key, named: dict[str, Any]) -> dict[str, Any]:
    schema = _of(key.kind, named)
    if key.nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    told: dict[str, Any] = {"description": key.doc}
    if key.default is not None and not isinstance(key.default, dict):
        told["default"] = key.default
    return {**schema, **told}


def _map(kind: MapOf, named: dict[str, Any]) -> dict[str, Any]:
    value = _of(kind.value, named)
    if kind.drop_null:
        value = {"anyOf": [value, {"type": "null"}]}
    if kind.switched_off:
        off = {"required": [kind.switched_off], "properties": {kind.switched_off: {"const": True}}}
        value = {"if": {"type": "object", **off}, "else": value}
    return {"type": "object", "propertyNames": {"minLength": 1}, "additionalProperties": value}
