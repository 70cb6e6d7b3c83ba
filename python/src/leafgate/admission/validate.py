"""Checks arguments before a call. In: a tool's input schema and the arguments. Out: all violations, sorted (spec 3).

Touches nothing: no reference is ever fetched, and patterns run in an engine whose time is linear in the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import jsonschema_rs

from leafgate.model.errors import GatewayError

MAX_VIOLATIONS: Final = 50
MESSAGE_LENGTH: Final = 300
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
    raise GatewayError("SCHEMA_INVALID", f"the tool's input schema cannot be used: {last}")


def violations(validator: jsonschema_rs.Validator, args: Mapping[str, Any]) -> list[Violation]:
    """Every violation, sorted by JSON Pointer and message."""
    found = {
        Violation("".join(f"/{_escape(step)}" for step in error.instance_path), error.message[:MESSAGE_LENGTH])
        for error in validator.iter_errors(dict(args))
    }
    return sorted(found, key=lambda violation: (violation.pointer, violation.message))[:MAX_VIOLATIONS]


def _escape(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _never(uri: str) -> NoReturn:
    raise ValueError(f"references are not fetched: {uri}")
