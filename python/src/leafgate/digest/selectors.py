"""Selectors: which part of an artifact a client wants to read.

There is one canonical form, an object with a `type`; common other spellings are accepted too. Numbers and texts have
limits, so that a page can repeat the selector that reads on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn

from leafgate.data import load_table
from leafgate.model.errors import GatewayError

MAX_NUMBER: Final = 1 << 53
MAX_TEXT: Final = 400
MAX_NAMES: Final = 50
MAX_CONTEXT: Final = 20

_TABLE: Final = load_table("selectors", {"schema": dict, "kinds": dict, "operators": dict})
SELECTOR_SCHEMA: Final[Mapping[str, Any]] = _TABLE["schema"]
KINDS: Final = tuple(_TABLE["kinds"])
OPERATORS: Final = tuple(_TABLE["operators"])
_KIND_WORDS: Final = {word: kind for kind, words in _TABLE["kinds"].items() for word in (kind, *words)}
_OPERATOR_WORDS: Final = {word: op for op, words in _TABLE["operators"].items() for word in (op, *words)}
_LINE_COUNT: Final = ("lines", "n", "count", "limit")
_RANGE: Final = re.compile(r"\s*(\d{1,15})\s*(?:-|:|,|\.\.|to)\s*(\d{1,15})\s*")
_STEP: Final = re.compile(r"\.?([^.\[\]]{1,200})|\[(\d{1,15})\]|\[['\"]([^'\"]{1,200})['\"]\]")


@dataclass(frozen=True)
class Condition:
    column: str
    op: str
    value: Any


@dataclass(frozen=True)
class Selector:
    """The canonical form. Fields that a type does not use are None."""

    type: str
    start: int | None = None
    end: int | None = None
    lines: int | None = None
    offset: int | None = None
    length: int | None = None
    pointer: str | None = None
    within: str | None = None
    keys: tuple[str, ...] | None = None
    depth: int | None = None
    columns: tuple[str, ...] | None = None
    where: tuple[Condition, ...] | None = None
    text: str | None = None
    regex: str | None = None
    context: int | None = None

    def as_json(self) -> dict[str, Any]:
        values = ((name, value) for name, value in asdict(self).items() if value is not None)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def view_failed(message: str) -> NoReturn:
    raise GatewayError("VIEW_FAILED", message)


def parse_selector(raw: object) -> Selector:
    """Return the canonical form of a selector as the client sent it, or raise VIEW_FAILED."""
    options = _as_object(raw)
    kind = options.get("type", options.get("kind"))
    if kind is None:
        options = _short_form(options)
        kind = options.get("type")
    kind = _KIND_WORDS.get(kind.strip().lower()) if isinstance(kind, str) else None
    if kind is None:
        view_failed(f'a selector is an object whose "type" is one of {", ".join(KINDS)}')
    return Selector(kind, **_fields(kind, options))


def _fields(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    match kind:
        case "head" | "tail":
            fields["lines"] = _number(options, _LINE_COUNT, 1)
        case "lines":
            if "start" not in options and "end" not in options and not isinstance(options.get("lines"), int | float):
                options = {**options, **_range(options.get("lines", options.get("range")), "lines")}
            window = _window({"count": options.get("lines"), **options} if "start" in options else options, 1)
            fields |= window | {"offset": _number(options, ("offset",), 0)}
        case "json":
            fields = _window(options, 0) | {
                "pointer": _pointer(_text(options, ("pointer", "path", "json")) or ""),
                "within": _text(options, ("within",)),
                "keys": _names(options, "keys"),
                "depth": _number(options, ("depth", "max_depth"), 0),
            }
        case "rows":
            fields = _window(options, 1) | {
                "pointer": None if (pointer := _text(options, ("pointer", "path"))) is None else _pointer(pointer),
                "offset": _number(options, ("offset",), 0),
                "columns": _names(options, "columns"),
                "where": _where(options.get("where")),
            }
        case "search":
            text, regex = _text(options, ("text", "query", "search")), _text(options, ("regex", "pattern"))
            if not text and not regex:
                view_failed('a search needs "text" or "regex"')
            context = min(_number(options, ("context",), 0) or 0, MAX_CONTEXT) or None
            start = _number(options, ("start",), 1)
            fields = {"start": start, "text": text or None, "regex": None if text else regex, "context": context}
        case "bytes":
            fields["offset"] = _number(options, ("offset", "start"), 0)
            fields["length"] = _number(options, ("length", "limit"), 1)
    return fields


def _as_object(raw: object) -> Mapping[str, Any]:
    if isinstance(raw, str) and len(raw) <= 4 * MAX_TEXT:
        if not raw.lstrip().startswith("{"):
            return {"type": raw}
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError):
            view_failed("this selector is not JSON")
    if raw is None:
        return {"type": "head"}
    if not isinstance(raw, Mapping):
        view_failed(f'a selector is an object whose "type" is one of {", ".join(KINDS)}')
    return raw


def _short_form(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Expand a short form: {"head": 20} means {"type": "head", "lines": 20}, and so on."""
    if not options:
        return {"type": "head"}
    name = next((name for name in (*KINDS, "pointer", "regex") if name in options), None)
    if name is None:
        return {}
    kind, value = _KIND_WORDS[name], options[name]
    short: Mapping[str, Any] = {}
    if isinstance(value, Mapping):
        short = value
    elif kind in ("head", "tail") and not isinstance(value, bool):
        short = {"lines": value}
    elif kind in ("json", "search") and isinstance(value, str):
        short = {{"search": "text", "regex": "regex"}.get(name, "pointer"): value}
    elif kind in ("lines", "rows", "bytes"):
        short = _range(value, kind)
    return {**{key: inner for key, inner in options.items() if key != name}, **short, "type": kind}


def _range(value: object, kind: str) -> dict[str, Any]:
    names = ("offset", "length") if kind == "bytes" else ("start", "end")
    if isinstance(value, str) and (match := _RANGE.fullmatch(value)):
        value = [int(match[1]), int(match[2])]
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) <= 2:
        return dict(zip(names, value, strict=False))
    if isinstance(value, int) and not isinstance(value, bool):
        return {"start": 1, "end": value} if kind != "bytes" else {"length": value}
    return {}


def _first(options: Mapping[str, Any], names: Sequence[str]) -> tuple[str, Any]:
    """Return the first of these options that the client sent, and its value."""
    return next(((name, options[name]) for name in names if options.get(name) is not None), ("", None))


def _number(options: Mapping[str, Any], names: Sequence[str], least: int) -> int | None:
    name, value = _first(options, names)
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,15}\s*", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_NUMBER:
        value = int(value)
    if value is not None and (type(value) is not int or not least <= value < MAX_NUMBER):
        view_failed(f'"{name}" is a whole number from {least}')
    return value


def _text(options: Mapping[str, Any], names: Sequence[str]) -> str | None:
    name, value = _first(options, names)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        view_failed(f'"{name}" is a text of at most {MAX_TEXT} characters')
    if not value.isascii() and value.encode("utf-8", "replace").decode() != value:
        view_failed(f'"{name}" holds half a character')
    return value


def _names(options: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = options.get(name)
    if value is None:
        return None
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, Sequence) or not all(
        isinstance(each, str) and len(each) <= MAX_TEXT for each in entries
    ):
        view_failed(f'"{name}" is a list of texts')
    return tuple(dict.fromkeys(entries[:MAX_NAMES])) or None


def _window(options: Mapping[str, Any], least: int) -> dict[str, int | None]:
    """Return the start and the end. A client may send a number of units in place of an end."""
    start = _number(options, ("start", "from"), least)
    end = _number(options, ("end", "to"), least)
    size = _number(options, ("count", "limit", "n"), 1)
    if end is None and size is not None:
        end = (start if start is not None else least) + size - least
    if end is not None and end < (start if start is not None else least):
        view_failed(f"{start} to {end}: the end is before the start")
    return {"start": start, "end": end}


def _pointer(text: str) -> str:
    """Return a JSON Pointer; `$.items[0].name` and `items.0.name` are accepted too."""
    if text in ("", "/", "$", "."):
        return ""
    if text.startswith("/"):
        return text
    steps = [match[1] or match[2] or match[3] for match in _STEP.finditer(text.removeprefix("$").removeprefix("#"))]
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def _where(raw: object) -> tuple[Condition, ...] | None:
    if raw is None:
        return None
    entries = [raw] if isinstance(raw, Mapping) else raw
    if not isinstance(entries, Sequence) or isinstance(entries, str) or len(entries) > 8:
        view_failed('"where" is {"column", "op", "value"}, or a list of at most 8 of them')
    return tuple(_condition(each) for each in entries) or None


def _condition(raw: object) -> Condition:
    if isinstance(raw, Mapping):
        column, op, value = raw.get("column"), raw.get("op", "="), raw.get("value")
        operator = _OPERATOR_WORDS.get(op.strip().lower()) if isinstance(op, str) else None
        short = isinstance(value, str) and len(value) <= MAX_TEXT
        plain = value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < MAX_NUMBER)
        if isinstance(column, str) and len(column) <= MAX_TEXT and operator is not None and (short or plain):
            return Condition(column, operator, value)
    view_failed(f'"where" is {{"column", "op", "value"}} with op one of {" ".join(OPERATORS)}')
