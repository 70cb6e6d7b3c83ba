"""Reads parts of a kept text. In: a selector as the client sent it, and the text. Out: the part, and how to go on.

Touches nothing. A selector is foreign input: whatever it is, the answer is a part or VIEW_FAILED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.model.errors import GatewayError

KINDS: Final = ("head", "tail", "lines", "search", "stats")
DEFAULT_LINES: Final = 40
MAX_CONTEXT: Final = 20


@dataclass(frozen=True)
class View:
    """A part of a text: what is shown, what it is a part of, and the selector for what comes next."""

    text: str
    shown: str
    next: Mapping[str, Any] | None


def apply_selector(selector: object, text: str, count: Callable[[str], int], budget: int) -> View:
    """The selected part, at most `budget` tokens of it."""
    if not isinstance(selector, Mapping) or selector.get("type") not in KINDS:
        raise GatewayError("VIEW_FAILED", f'a selector is an object whose "type" is one of {", ".join(KINDS)}')
    lines = text.splitlines()
    kind = selector["type"]
    if kind == "stats":
        return View(f"{len(lines)} lines, {len(text.encode())} bytes, {count(text)} tokens", "stats", None)
    if kind == "search":
        return _search(selector, lines, count, budget)
    if kind == "tail":
        start, end = max(1, len(lines) - _number(selector, "lines", DEFAULT_LINES) + 1), len(lines)
    elif kind == "head":
        start, end = 1, _number(selector, "lines", DEFAULT_LINES)
    else:
        start = _number(selector, "start", 1)
        end = _number(selector, "end", start + DEFAULT_LINES - 1)
        if end < start:
            raise GatewayError("VIEW_FAILED", f"lines {start} to {end}: the end is before the start")
    return _lines(lines, start, end, count, budget)


def _number(selector: Mapping[str, Any], name: str, default: int) -> int:
    value = selector.get(name, default)
    if type(value) is not int or value < 1:
        raise GatewayError("VIEW_FAILED", f'"{name}" is a whole number from 1')
    return value


def _lines(lines: Sequence[str], start: int, end: int, count: Callable[[str], int], budget: int) -> View:
    if start > max(len(lines), 1):
        raise GatewayError("VIEW_FAILED", f"the text has {len(lines)} lines, line {start} is beyond them")
    wanted = lines[start - 1 : end]
    taken = _fitting(wanted, count, budget)
    last = start + len(taken) - 1
    go_on = None
    if last < len(lines):
        go_on = {"type": "lines", "start": last + 1, "end": min(last + max(len(wanted), 1), len(lines))}
    return View("\n".join(taken), f"lines {start} to {last} of {len(lines)}", go_on)


def _fitting(lines: Sequence[str], count: Callable[[str], int], budget: int) -> list[str]:
    """As many lines as fit; of a first line that is itself too long, as much as fits."""
    taken: list[str] = []
    room = budget
    for line in lines:
        cost = count(line) + 1
        if cost > room:
            break
        taken.append(line)
        room -= cost
    if lines and not taken:
        cut = lines[0][: budget * 4]
        while cut and count(cut) > budget - 2:
            cut = cut[: len(cut) * 3 // 4]
        return [cut + "…"]
    return taken


def _search(selector: Mapping[str, Any], lines: Sequence[str], count: Callable[[str], int], budget: int) -> View:
    needle = selector.get("text")
    if not isinstance(needle, str) or not needle:
        raise GatewayError("VIEW_FAILED", 'a search needs "text"')
    context = min(_number(selector, "context", 1), MAX_CONTEXT) if "context" in selector else 0
    first = _number(selector, "start", 1)
    hits = [n for n, line in enumerate(lines, 1) if n >= first and needle.casefold() in line.casefold()]
    shown: list[str] = []
    room = budget
    for position, hit in enumerate(hits):
        around = range(max(1, hit - context), min(len(lines), hit + context) + 1)
        part = [f"{n}: {lines[n - 1]}" for n in around]
        cost = sum(count(line) + 1 for line in part)
        if cost > room and shown:
            go_on = {**selector, "start": hit}
            return View("\n".join(shown), f"{position} of {len(hits)} hits in {len(lines)} lines", go_on)
        shown += _fitting(part, count, max(room, 60))
        room -= cost
    return View("\n".join(shown), f"{len(hits)} hits in {len(lines)} lines", None)
