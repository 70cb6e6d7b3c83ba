"""Repair of arguments that a model wrote as text, and validation of values against foreign schemas (spec 3).

No reference is ever fetched, and patterns run in an engine whose time is linear in the input. A check that could exceed
its budget is refused before it begins. Repair applies five rules (spec 3.2): valid arguments do not change, and the
input is never modified.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

import jsonschema_rs
from cachetools import LRUCache

from leafgate.admission.schema_cost import SchemaCost, cost_of_checking, cost_of_reporting, has_choices
from leafgate.model.errors import GatewayError

MAX_VIOLATIONS: Final = 50
MESSAGE_LENGTH: Final = 300
MAX_NODES: Final = 100_000
MAX_DEPTH: Final = 100
# Evaluations of one schema at one place. The engine does ten million of them per second, but only 60,000 errors.
CHECK_BUDGET: Final = 500_000
REPORT_BUDGET: Final = 3_000
# Only for patterns that a linear engine cannot express (look-around): these get a limit instead.
_BOUNDED = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000)
_LINEAR = jsonschema_rs.RegexOptions()

RuleName = Literal["parse_stringified_object", "str_to_integer", "str_to_number", "str_to_boolean", "str_to_null"]

MAX_REPAIRS: Final = 256  # all repairs are reported; arguments that need more are not repaired, and so refused
LONGEST_LITERAL: Final = 400
_BOM: Final = "\ufeff"
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOTHING: Final = object()


@dataclass(frozen=True)
class Violation:
    pointer: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"pointer": self.pointer, "message": self.message}


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Return a validator, or raise SCHEMA_INVALID: then the fault is the upstream's, not the caller's."""
    last = ""
    for options in (_LINEAR, _BOUNDED):
        try:
            return jsonschema_rs.validator_for(dict(schema), retriever=_never, pattern_options=options)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            last = str(error).splitlines()[0][:MESSAGE_LENGTH]
    raise GatewayError("SCHEMA_INVALID", f"the tool's schema cannot be used: {last}")


def violations(validator: jsonschema_rs.Validator, value: Any) -> list[Violation]:
    """Return all violations, sorted by JSON Pointer and message."""
    unique = {
        _violation(error) for error in validator.iter_errors(dict(value) if isinstance(value, Mapping) else value)
    }
    return sorted(unique, key=lambda violation: (violation.pointer, violation.message))[:MAX_VIOLATIONS]


def _violation(error: jsonschema_rs.ValidationError) -> Violation:
    return Violation("".join(f"/{_escape(step)}" for step in error.instance_path), error.message[:MESSAGE_LENGTH])


@dataclass(frozen=True)
class JsonSize:
    """The number of values in a JSON value, and its depth."""

    nodes: int
    depth: int


class NotJsonError(ValueError):
    """The value is not JSON, or exceeds the limits. The message says which, and quotes nothing."""


class TooCostlyError(Exception):
    """Checking this value with this schema could take too long; nothing was checked."""


@dataclass(frozen=True)
class PreparedSchema:
    """A compiled schema, and the maximum cost of checking with it."""

    schema: Mapping[str, Any]
    validator: jsonschema_rs.Validator
    cost: SchemaCost

    def violations(self, value: Any) -> list[Violation]:
        """Return all violations, or one if the value is too large to find them all.

        Raises NotJsonError and TooCostlyError.
        """
        size = measure_json(value)
        if self.cost.bound(size.nodes, size.depth) > CHECK_BUDGET:
            raise TooCostlyError
        if self.validator.is_valid(value):
            return []
        if cost_of_reporting(self.schema).bound(size.nodes, size.depth) <= REPORT_BUDGET:
            return violations(self.validator, value)
        return [
            Violation("", "breaks the schema; too large to say where") if has_choices(self.schema) else self._one(value)
        ]

    def _one(self, value: Any) -> Violation:
        try:
            self.validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return _violation(error)
        raise AssertionError("a value cannot become valid")


class SchemaShelf:
    """A cache of prepared schemas, by the identity of the schema."""

    def __init__(self, capacity: int = 4_096) -> None:
        # An entry holds its schema, so no other object can have the same identity while the entry exists.
        self._schemas: LRUCache[int, PreparedSchema] = LRUCache(capacity)

    def prepare(self, schema: Mapping[str, Any]) -> PreparedSchema:
        """Return the prepared schema, or raise SCHEMA_INVALID if it cannot be used."""
        prepared = self._schemas.get(id(schema))
        if prepared is None:
            prepared = PreparedSchema(schema, compile_schema(schema), cost_of_checking(schema))
            self._schemas[id(schema)] = prepared
        return prepared


def measure_json(value: object) -> JsonSize:
    """Return the size of a JSON value, or raise NotJsonError if it is not JSON or exceeds the limits."""
    nodes = depth = 0
    level: list[object] = [value]
    while level:
        nodes += len(level)
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            raise NotJsonError(f"more than {MAX_NODES} values, or nested deeper than {MAX_DEPTH}")
        below: list[object] = []
        for inner in level:
            if inner is None or type(inner) is int:
                continue
            if isinstance(inner, str):
                _check_text(inner)
            elif isinstance(inner, Mapping):
                for name in inner:
                    if not isinstance(name, str):
                        raise NotJsonError("the name of a member is not a text")
                    _check_text(name)
                below += inner.values()
            elif isinstance(inner, list | tuple):
                below += inner
            elif not isinstance(inner, int) and not (isinstance(inner, float) and math.isfinite(inner)):
                raise NotJsonError("a value is not JSON")
        level = below
        depth += 1
    return JsonSize(nodes, depth - 1)


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotJsonError("a text holds half of a surrogate pair") from None


def _escape(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _never(uri: str) -> NoReturn:
    raise ValueError(f"references are not fetched: {uri}")


# Repair


@dataclass(frozen=True)
class Repair:
    """One value that was changed, and by which rule."""

    rule: RuleName
    pointer: str

    def as_json(self) -> dict[str, str]:
        return {"rule": self.rule, "pointer": self.pointer}


@dataclass(frozen=True)
class RepairResult:
    """The arguments and their repairs. Without repairs, `args` is the same object as the input."""

    args: Any
    repairs: tuple[Repair, ...] = ()


def repair(schema: Mapping[str, Any], args: object) -> RepairResult:
    """Repair every field that the five rules apply to."""
    done: list[Repair] = []
    result = _repair_value(schema, _parse_object(args, done), "", done)
    return RepairResult(result, tuple(done)) if 0 < len(done) <= MAX_REPAIRS else RepairResult(args)


def _parse_object(args: object, done: list[Repair]) -> object:
    if not isinstance(args, str):
        return args
    try:
        value = json.loads(args.strip().removeprefix(_BOM).strip(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return args
    if not isinstance(value, dict):
        return args
    done.append(Repair("parse_stringified_object", ""))
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _repair_value(schema: object, value: object, pointer: str, done: list[Repair]) -> Any:
    """Repair where the schema makes an assertion about the value itself: properties, items and their type."""
    # In older dialects the neighbours of a $ref are ignored, so they cannot require a type.
    if not isinstance(schema, Mapping) or "$ref" in schema:
        return value
    if isinstance(value, str):
        return _coerce(schema, value, pointer, done)
    if isinstance(value, Mapping):
        return _repair_object(schema, value, pointer, done)
    if isinstance(value, list):
        return _repair_array(schema, value, pointer, done)
    return value


def _repair_object(schema: Mapping[str, Any], value: Mapping[Any, Any], pointer: str, done: list[Repair]) -> Any:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return value
    return {
        key: _repair_value(properties[key], inner, f"{pointer}/{_escape(key)}", done)
        if isinstance(key, str) and key in properties
        else inner
        for key, inner in value.items()
    }


def _repair_array(schema: Mapping[str, Any], value: list[Any], pointer: str, done: list[Repair]) -> Any:
    items, prefix = schema.get("items"), schema.get("prefixItems")
    if not isinstance(items, Mapping):
        return value
    first = len(prefix) if isinstance(prefix, list) else 0
    return [
        inner if index < first else _repair_value(items, inner, f"{pointer}/{index}", done)
        for index, inner in enumerate(value)
    ]


def _coerce(schema: Mapping[str, Any], value: str, pointer: str, done: list[Repair]) -> Any:
    declared = schema.get("type")
    types = declared if isinstance(declared, list) else [declared]
    if "string" in types or len(value) > LONGEST_LITERAL:
        return value
    for kind, rule, read in _RULES:
        if kind in types:
            result = read(value)
            if result is not _NOTHING:
                done.append(Repair(rule, pointer))
                return result
    return value


def _number(text: str) -> object:
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else _NOTHING


_RULES: Final[tuple[tuple[str, RuleName, Callable[[str], object]], ...]] = (
    ("integer", "str_to_integer", lambda text: int(text) if _INTEGER.fullmatch(text) else _NOTHING),
    ("number", "str_to_number", _number),
    ("boolean", "str_to_boolean", lambda text: {"true": True, "false": False}.get(text, _NOTHING)),
    ("null", "str_to_null", lambda text: None if text == "null" else _NOTHING),
)
