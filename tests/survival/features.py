"""A feature of MCP that a connection can have: a name, and a small check. In: a connection. Out: nothing, or a Loss.

A check raises `Lost` where the feature is not there at all, and `Changed` where something else arrives. Expectations
are those of the reference server with `--rich`, from its own tables.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from connections import Connection, Era, Transport, text_of
from mcp.types import CallToolResult

BOTH: Final[tuple[Era, ...]] = ("2025-11-25", "2026-07-28")
MODERN: Final[tuple[Era, ...]] = ("2026-07-28",)
LEGACY: Final[tuple[Era, ...]] = ("2025-11-25",)
SHORT: Final = 100

Check = Callable[[Connection], Awaitable[None]]


class Loss(Exception):
    """A feature that did not come through as it was; the message says what was seen."""

    outcome = "lost"


class Lost(Loss):
    """It is not there."""


class Changed(Loss):
    """Something else is there."""

    outcome = "changed"


@dataclass(frozen=True)
class Feature:
    """A named check. `alone` marks those that change what the server lists: they run after the others."""

    group: str
    name: str
    check: Check
    eras: tuple[Era, ...] = BOTH
    transports: tuple[Transport, ...] = ("http", "stdio", "sse")
    alone: bool = False


def registrar(features: list[Feature]) -> Callable[..., Callable[[Check], Check]]:
    """A decorator that adds checks to this list: `@feature(group, name, **fields)`."""

    def feature(group: str, name: str, **fields: Any) -> Callable[[Check], Check]:
        def register(check: Check) -> Check:
            features.append(Feature(group, name, check, **fields))
            return check

        return register

    return feature


def expect(what: str, actual: Any, expected: Any) -> None:
    """Raise `Lost` where nothing is there, and `Changed` where it is something else."""
    if _as_json(actual) == _as_json(expected):
        return
    if actual in (None, "", [], {}, ()):
        raise Lost(f"{what}: nothing")
    raise Changed(f"{what}: {shorten(actual)}")


def expect_fields(what: str, actual: dict[str, Any], expected: dict[str, Any], *names: str) -> None:
    """The named fields are as expected; `_meta` may have more keys."""
    if not actual:
        raise Lost(f"{what}: not listed")
    missing = [name for name in names if name in expected and name not in actual]
    if missing:
        raise Lost(f"{what}: without {', '.join(missing)}")
    for name in names:
        value = actual.get(name)
        if name == "_meta":
            value = {key: each for key, each in (value or {}).items() if key in expected[name]}
        expect(f"{what}, {name}", value, expected.get(name))


def expect_success(result: CallToolResult) -> CallToolResult:
    if result.is_error:
        raise Lost(f"an error: {shorten(text_of(result))}")
    return result


def _as_json(value: Any) -> str:
    """True and 1, 1 and 1.0 differ in JSON."""
    return json.dumps(value, sort_keys=True, default=repr)


def shorten(value: Any) -> str:
    text = " ".join((value if isinstance(value, str) else _as_json(value)).split())
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
