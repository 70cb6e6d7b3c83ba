"""What a person types to call a tool. In: words of a command line, and the tool's schema. Out: JSON arguments.

Touches nothing. `key=value` becomes what the schema says it is; `key:=value` is JSON in any case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from leafgate.firewall.selectors import parse_selector
from leafgate.model.errors import GatewayError


def needs_schema(words: Sequence[str]) -> bool:
    """Whether these words mean something only beside the tool's schema."""
    return any("=" in word and ":=" not in word for word in words if not word.lstrip().startswith("{"))


def arguments_of(words: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call: one JSON object, or pairs."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _object(words[0])
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    made: dict[str, Any] = {}
    for word in words:
        key, value = _pair(word, known)
        made[key] = value
    return made


def selector_of(word: str) -> dict[str, Any]:
    """`lines:5-10`, `head:20`, `search:word`, `json:/a/b`, `stats`, or the JSON of spec 4."""
    kind, colon, value = word.partition(":")
    sent: Any = word if word.lstrip().startswith("{") or not colon else {kind: int(value) if value.isdigit() else value}
    try:
        return parse_selector(sent).as_json()
    except GatewayError as error:
        raise click.BadParameter(error.body.message, param_hint="--selector") from None


def _pair(word: str, known: Mapping[str, Any]) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{word!r} is neither key=value nor a JSON object", param_hint="ARGS")
    if key.endswith(":"):
        return key[:-1], _json(value, word)
    return key, _typed(value, known.get(key))


def _typed(value: str, schema: object) -> Any:
    """A text where the schema wants or allows one; else JSON if it is any. The gateway checks the rest."""
    wanted = schema.get("type") if isinstance(schema, Mapping) else None
    if wanted == "string" or (isinstance(wanted, list) and "string" in wanted):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _json(value: str, word: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise click.BadParameter(f"what follows := in {word!r} is no JSON", param_hint="ARGS") from None


def _object(word: str) -> dict[str, Any]:
    made = _json(word, word)
    if not isinstance(made, dict):
        raise click.BadParameter("the arguments are no JSON object", param_hint="ARGS")
    return made
