"""What a client wants to see of an artifact. In: a selector as it was sent. Out: a Selector, or VIEW_FAILED. Pure.

There is one canonical form, an object with a `type`; common other spellings are understood too. Numbers are bounded and
texts are short, so a selector can be repeated in the answer that says how to go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NoReturn

from leafgate.model.errors import GatewayError

KINDS: Final = ("head", "tail", "lines", "json", "rows", "search", "bytes", "stats")
MAX_NUMBER: Final = 1 << 53
MAX_TEXT: Final = 400
MAX_NAMES: Final = 50
MAX_CONTEXT: Final = 20
OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=", "contains")

_INTEGER: Final = {"type": "integer"}
_STRING: Final = {"type": "string"}
_STRINGS: Final = {"type": "array", "items": {"type": "string"}}

SELECTOR_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "Which part. head, tail: lines. lines, rows: start, end (from 1). rows: columns, where "
    "{column, op, value}. json: pointer, start, end (from 0), keys, depth. search: text or regex, context. "
    "bytes: offset, length.",
    "properties": {
        "type": {"enum": list(KINDS)},
        "start": _INTEGER,
        "end": _INTEGER,
        "lines": _INTEGER,
        "pointer": _STRING,
        "keys": _STRINGS,
        "depth": _INTEGER,
        "columns": _STRINGS,
        "where": {"type": "object"},
        "text": _STRING,
        "regex": _STRING,
        "context": _INTEGER,
        "offset": _INTEGER,
        "length": _INTEGER,
    },
    "required": ["type"],
}


@dataclass(frozen=True)
class Condition:
    """What a row must fulfil."""

    column: str
    op: str
    value: Any

    def as_json(self) -> dict[str, Any]:
        return {"column": self.column, "op": self.op, "value": self.value}


@dataclass(frozen=True)
class Selector:
    """The canonical form. What a type does not use is None."""

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
        body: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None:
                continue
            if each.name == "where":
                value = [condition.as_json() for condition in value]
            body[each.name] = list(value) if isinstance(value, tuple) else value
        return body

    def at(self, **changed: Any) -> Selector:
        """The same, going on elsewhere."""
        return replace(self, **changed)


def view_failed(message: str) -> NoReturn:
    raise GatewayError("VIEW_FAILED", message)


def parse_selector(sent: object) -> Selector:
    """The selector that a client means."""
    found = _as_object(sent)
    kind = found.get("type", found.get("kind"))
    if kind is None:
        found = _short_form(found)
        kind = found.get("type")
    kind = _KIND_WORDS.get(kind.strip().lower()) if isinstance(kind, str) else None
    if kind is None:
        view_failed(f'a selector is an object whose "type" is one of {", ".join(KINDS)}')
    return _READERS[kind](found)


_KIND_WORDS: Final = {kind: kind for kind in KINDS} | {
    "line": "lines",
    "range": "lines",
    "pointer": "json",
    "jsonpath": "json",
    "path": "json",
    "row": "rows",
    "table": "rows",
    "grep": "search",
    "regex": "search",
    "find": "search",
    "image": "bytes",
    "raw": "bytes",
    "info": "stats",
}
_RANGE: Final = re.compile(r"\s*(\d{1,15})\s*(?:-|:|,|\.\.|to)\s*(\d{1,15})\s*")
_STEP: Final = re.compile(r"\.?([^.\[\]]{1,200})|\[(\d{1,15})\]|\[['\"]([^'\"]{1,200})['\"]\]")


def _as_object(sent: object) -> Mapping[str, Any]:
    if isinstance(sent, str) and len(sent) <= 4 * MAX_TEXT:
        if not sent.lstrip().startswith("{"):
            return {"type": sent}
        try:
            sent = json.loads(sent)
        except (ValueError, RecursionError):
            view_failed("this selector is no JSON")
    if sent is None:
        return {"type": "head"}
    if not isinstance(sent, Mapping):
        view_failed(f'a selector is an object whose "type" is one of {", ".join(KINDS)}')
    return sent


def _short_form(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """{"head": 20} for {"type": "head", "lines": 20}, and the like."""
    if not found:
        return {"type": "head"}
    name = next((name for name in (*KINDS, "pointer", "regex") if name in found), None)
    if name is None:
        return {}
    kind, value = _KIND_WORDS[name], found[name]
    short: Mapping[str, Any] = {}
    if isinstance(value, Mapping):
        short = value
    elif kind in ("head", "tail") and not isinstance(value, bool):
        short = {"lines": value}
    elif kind in ("json", "search") and isinstance(value, str):
        short = {{"search": "text", "regex": "regex"}.get(name, "pointer"): value}
    elif kind in ("lines", "rows", "bytes"):
        short = _range(value, kind)
    return {**{key: inner for key, inner in found.items() if key != name}, **short, "type": kind}


def _range(value: object, kind: str) -> dict[str, Any]:
    names = ("offset", "length") if kind == "bytes" else ("start", "end")
    if isinstance(value, str) and (match := _RANGE.fullmatch(value)):
        value = [int(match[1]), int(match[2])]
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) <= 2:
        return dict(zip(names, value, strict=False))
    if isinstance(value, int) and not isinstance(value, bool):
        return {"start": 1, "end": value} if kind != "bytes" else {"length": value}
    return {}


def _number(found: Mapping[str, Any], names: Sequence[str], least: int) -> int | None:
    for name in names:
        value = found.get(name)
        if value is None:
            continue
        if isinstance(value, str) and re.fullmatch(r"\s*\d{1,15}\s*", value):
            value = int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < MAX_NUMBER:
            value = int(value)
        if type(value) is not int or not least <= value < MAX_NUMBER:
            view_failed(f'"{name}" is a whole number from {least}')
        return value
    return None


def _text(found: Mapping[str, Any], names: Sequence[str]) -> str | None:
    for name in names:
        value = found.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            view_failed(f'"{name}" is a text of at most {MAX_TEXT} characters')
        if not value.isascii() and value.encode("utf-8", "replace").decode() != value:
            view_failed(f'"{name}" holds half a character')
        return value
    return None


def _names(found: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = found.get(name)
    if value is None:
        return None
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not all(isinstance(each, str) and len(each) <= MAX_TEXT for each in listed):
        view_failed(f'"{name}" is a list of texts')
    return tuple(dict.fromkeys(listed[:MAX_NAMES])) or None


def _window(found: Mapping[str, Any], least: int) -> tuple[int | None, int | None]:
    """The start and the end. A number of units may be given in place of an end."""
    start = _number(found, ("start", "from"), least)
    end = _number(found, ("end", "to"), least)
    size = _number(found, ("count", "limit", "n"), 1)
    if end is None and size is not None:
        end = (start if start is not None else least) + size - least
    if end is not None and end < (start if start is not None else least):
        view_failed(f"{start} to {end}: the end is before the start")
    return start, end


def _head(found: Mapping[str, Any]) -> Selector:
    return Selector("head", lines=_number(found, ("lines", "n", "count", "limit"), 1))


def _tail(found: Mapping[str, Any]) -> Selector:
    return Selector("tail", lines=_number(found, ("lines", "n", "count", "limit"), 1))


def _lines(found: Mapping[str, Any]) -> Selector:
    if "start" not in found and "end" not in found and not isinstance(found.get("lines"), int | float):
        found = {**found, **_range(found.get("lines", found.get("range")), "lines")}
    start, end = _window({"count": found.get("lines"), **found} if "start" in found else found, 1)
    return Selector("lines", start=start, end=end, offset=_number(found, ("offset",), 0))


def _json(found: Mapping[str, Any]) -> Selector:
    start, end = _window(found, 0)
    return Selector(
        "json",
        start=start,
        end=end,
        pointer=_pointer(_text(found, ("pointer", "path", "json")) or ""),
        within=_text(found, ("within",)),
        keys=_names(found, "keys"),
        depth=_number(found, ("depth", "max_depth"), 0),
    )


def _pointer(text: str) -> str:
    """A JSON Pointer; `$.items[0].name` and `items.0.name` are understood."""
    if text in ("", "/", "$", "."):
        return ""
    if text.startswith("/"):
        return text
    steps = [match[1] or match[2] or match[3] for match in _STEP.finditer(text.removeprefix("$").removeprefix("#"))]
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def _rows(found: Mapping[str, Any]) -> Selector:
    start, end = _window(found, 1)
    pointer = _text(found, ("pointer", "path"))
    return Selector(
        "rows",
        start=start,
        end=end,
        offset=_number(found, ("offset",), 0),
        pointer=None if pointer is None else _pointer(pointer),
        columns=_names(found, "columns"),
        where=_where(found.get("where")),
    )


_OPERATOR_WORDS: Final = {op: op for op in OPERATORS} | {
    "==": "=",
    "eq": "=",
    "is": "=",
    "ne": "!=",
    "<>": "!=",
    "lt": "<",
    "le": "<=",
    "lte": "<=",
    "gt": ">",
    "ge": ">=",
    "gte": ">=",
    "like": "contains",
    "in": "contains",
}


def _where(sent: object) -> tuple[Condition, ...] | None:
    if sent is None:
        return None
    listed = [sent] if isinstance(sent, Mapping) else sent
    if not isinstance(listed, Sequence) or isinstance(listed, str) or len(listed) > 8:
        view_failed('"where" is {"column", "op", "value"}, or a list of at most 8 of them')
    return tuple(_condition(each) for each in listed) or None


def _condition(sent: object) -> Condition:
    if isinstance(sent, Mapping):
        column, op, value = sent.get("column"), sent.get("op", "="), sent.get("value")
        known = _OPERATOR_WORDS.get(op.strip().lower()) if isinstance(op, str) else None
        short = isinstance(value, str) and len(value) <= MAX_TEXT
        plain = value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < MAX_NUMBER)
        if isinstance(column, str) and len(column) <= MAX_TEXT and known is not None and (short or plain):
            return Condition(column, known, value)
    view_failed(f'"where" is {{"column", "op", "value"}} with op one of {" ".join(OPERATORS)}')


def _search(found: Mapping[str, Any]) -> Selector:
    text, regex = _text(found, ("text", "query", "search")), _text(found, ("regex", "pattern"))
    if not text and not regex:
        view_failed('a search needs "text" or "regex"')
    context = _number(found, ("context",), 0)
    return Selector(
        "search",
        start=_number(found, ("start",), 1),
        text=text or None,
        regex=None if text else regex,
        context=min(context, MAX_CONTEXT) if context else None,
    )


def _bytes(found: Mapping[str, Any]) -> Selector:
    return Selector(
        "bytes", offset=_number(found, ("offset", "start"), 0), length=_number(found, ("length", "limit"), 1)
    )


def _stats(found: Mapping[str, Any]) -> Selector:
    return Selector("stats")


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Selector]]] = {
    "head": _head,
    "tail": _tail,
    "lines": _lines,
    "json": _json,
    "rows": _rows,
    "search": _search,
    "bytes": _bytes,
    "stats": _stats,
}
