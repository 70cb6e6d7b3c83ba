"""Repairs arguments that a model wrote as text. In: a tool's input schema, the arguments. Out: both, and every repair.

Touches nothing and changes nothing it is given. Five rules (spec 3.2); arguments that are valid stay as they are.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

RuleName = Literal["parse_stringified_object", "str_to_integer", "str_to_number", "str_to_boolean", "str_to_null"]

MAX_REPAIRS: Final = 256  # all of them are told; arguments that need more are left as they are, and refused
LONGEST_LITERAL: Final = 400
_BOM: Final = "\ufeff"
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Repair:
    """One value that was changed, and by which rule."""

    rule: RuleName
    pointer: str

    def as_json(self) -> dict[str, str]:
        return {"rule": self.rule, "pointer": self.pointer}


@dataclass(frozen=True)
class Repaired:
    """The arguments, and what was done to them. Without repairs, `args` is the very object that came in."""

    args: Any
    repairs: tuple[Repair, ...] = ()


def repair(schema: Mapping[str, Any], args: object) -> Repaired:
    """The arguments with every field that the five rules can mend mended."""
    done: list[Repair] = []
    opened = _parsed_object(args, done)
    mended = _mended(schema, opened, "", done)
    return Repaired(mended, tuple(done)) if 0 < len(done) <= MAX_REPAIRS else Repaired(args)


def _parsed_object(args: object, done: list[Repair]) -> object:
    if not isinstance(args, str):
        return args
    try:
        found = json.loads(args.strip().removeprefix(_BOM).strip(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return args
    if not isinstance(found, dict):
        return args
    done.append(Repair("parse_stringified_object", ""))
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _mended(schema: object, value: object, pointer: str, done: list[Repair]) -> Any:
    """Walks only where the schema makes an assertion about the value itself: properties, items and their type."""
    # In older dialects the neighbours of a $ref say nothing, so they cannot demand a type.
    if not isinstance(schema, Mapping) or "$ref" in schema:
        return value
    if isinstance(value, str):
        return _coerced(schema, value, pointer, done)
    if isinstance(value, Mapping):
        return _mended_object(schema, value, pointer, done)
    if isinstance(value, list):
        return _mended_array(schema, value, pointer, done)
    return value


def _mended_object(schema: Mapping[str, Any], value: Mapping[Any, Any], pointer: str, done: list[Repair]) -> Any:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return value
    return {
        key: _mended(properties[key], inner, f"{pointer}/{_escape(key)}", done)
        if isinstance(key, str) and key in properties
        else inner
        for key, inner in value.items()
    }


def _mended_array(schema: Mapping[str, Any], value: list[Any], pointer: str, done: list[Repair]) -> Any:
    items, prefix = schema.get("items"), schema.get("prefixItems")
    if not isinstance(items, Mapping):
        return value
    first = len(prefix) if isinstance(prefix, list) else 0
    return [
        inner if index < first else _mended(items, inner, f"{pointer}/{index}", done)
        for index, inner in enumerate(value)
    ]


def _coerced(schema: Mapping[str, Any], value: str, pointer: str, done: list[Repair]) -> Any:
    declared = schema.get("type")
    types = declared if isinstance(declared, list) else [declared]
    if "string" in types or len(value) > LONGEST_LITERAL:
        return value
    for kind, rule, read in _RULES:
        if kind in types:
            found = read(value)
            if found is not _NOTHING:
                done.append(Repair(rule, pointer))
                return found
    return value


_NOTHING: Final = object()


def _integer(text: str) -> object:
    return int(text) if _INTEGER.fullmatch(text) else _NOTHING


def _number(text: str) -> object:
    found = float(text) if _NUMBER.fullmatch(text) else math.inf
    return found if math.isfinite(found) else _NOTHING


def _boolean(text: str) -> object:
    return _BOOLEANS.get(text, _NOTHING)


def _null(text: str) -> object:
    return None if text == "null" else _NOTHING


_RULES: Final[tuple[tuple[str, RuleName, Callable[[str], object]], ...]] = (
    ("integer", "str_to_integer", _integer),
    ("number", "str_to_number", _number),
    ("boolean", "str_to_boolean", _boolean),
    ("null", "str_to_null", _null),
)


def _escape(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
