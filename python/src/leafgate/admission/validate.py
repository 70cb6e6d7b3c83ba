"""Checks values against foreign schemas. In: a schema, arguments or a result. Out: all violations, sorted (spec 3).

Touches nothing: no reference is ever fetched, and patterns run in an engine whose time is linear in the input. Owns the
bound on that time: a check that could take longer than the budget is refused before it begins.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import jsonschema_rs

from leafgate.admission.schema_cost import SchemaCost, cost_of_checking, cost_of_telling, has_choices
from leafgate.model.errors import GatewayError

MAX_VIOLATIONS: Final = 50
MESSAGE_LENGTH: Final = 300
MAX_NODES: Final = 100_000
MAX_DEPTH: Final = 100
# Evaluations of one schema at one place. The engine does some ten million a second, but makes sixty thousand errors.
CHECK_BUDGET: Final = 500_000
TELL_BUDGET: Final = 3_000
# Only for patterns that a linear engine cannot express (look-around): bounded instead.
_BOUNDED = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000)
_LINEAR = jsonschema_rs.RegexOptions()


@dataclass(frozen=True)
class Violation:
    """One way in which the arguments break the schema."""

    pointer: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"pointer": self.pointer, "message": self.message}


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """A validator, or SCHEMA_INVALID: then the fault is the upstream's, not the caller's."""
    last = ""
    for options in (_LINEAR, _BOUNDED):
        try:
            return jsonschema_rs.validator_for(dict(schema), retriever=_never, pattern_options=options)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            last = str(error).splitlines()[0][:MESSAGE_LENGTH]
    raise GatewayError("SCHEMA_INVALID", f"the tool's schema cannot be used: {last}")


def violations(validator: jsonschema_rs.Validator, value: Any) -> list[Violation]:
    """Every violation, sorted by JSON Pointer and message."""
    found = {_violation(error) for error in validator.iter_errors(dict(value) if isinstance(value, Mapping) else value)}
    return sorted(found, key=lambda violation: (violation.pointer, violation.message))[:MAX_VIOLATIONS]


def _violation(error: jsonschema_rs.ValidationError) -> Violation:
    return Violation("".join(f"/{_escape(step)}" for step in error.instance_path), error.message[:MESSAGE_LENGTH])


@dataclass(frozen=True)
class Shape:
    """How many values a JSON value holds, and how deep."""

    nodes: int
    depth: int


class NotJsonError(ValueError):
    """A value that JSON cannot carry, or that is beyond the bounds. The message says which, and quotes nothing."""


class TooCostlyError(Exception):
    """The schema and the value together could keep the loop busy; nothing was checked."""


@dataclass(frozen=True)
class CheckedSchema:
    """A schema made ready, and what checking with it can cost."""

    schema: Mapping[str, Any]
    validator: jsonschema_rs.Validator
    cost: SchemaCost

    def violations(self, value: Any) -> list[Violation]:
        """All violations; of a value too large to find them all, one. Raises NotJsonError and TooCostlyError."""
        shape = shape_of(value)
        if self.cost.of(shape.nodes, shape.depth) > CHECK_BUDGET:
            raise TooCostlyError
        if self.validator.is_valid(value):
            return []
        if cost_of_telling(self.schema).of(shape.nodes, shape.depth) <= TELL_BUDGET:
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
    """Checked schemas, each made ready once. Bounded; a schema is known by being the same object."""

    def __init__(self, capacity: int = 4_096) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[int, tuple[Mapping[str, Any], CheckedSchema]] = OrderedDict()

    def checked(self, schema: Mapping[str, Any]) -> CheckedSchema:
        """SCHEMA_INVALID if it cannot be used."""
        # The entry holds the schema, so its identity cannot pass to another object while the entry is there.
        found = self._kept.get(id(schema))
        if found is None:
            found = (schema, CheckedSchema(schema, compile_schema(schema), cost_of_checking(schema)))
            self._kept[id(schema)] = found
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        self._kept.move_to_end(id(schema))
        return found[1]


def shape_of(value: object) -> Shape:
    """The shape of a JSON value; NotJsonError if it is none, or beyond the bounds."""
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
                _check_names(inner)
                below += inner.values()
            elif isinstance(inner, list | tuple):
                below += inner
            elif not _is_number(inner):
                raise NotJsonError("a value is not JSON")
        level = below
        depth += 1
    return Shape(nodes, depth - 1)


def _check_names(members: Mapping[Any, Any]) -> None:
    for name in members:
        if not isinstance(name, str):
            raise NotJsonError("the name of a member is not a text")
        _check_text(name)


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotJsonError("a text holds half of a surrogate pair") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _escape(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _never(uri: str) -> NoReturn:
    raise ValueError(f"references are not fetched: {uri}")
