"""Digests: the short text that replaces a withheld one.

A digest says what the text is and how large, shows the parts that describe its kind best, and names the call that reads
on. The same text gives the same bytes; only the handle differs, for which room is reserved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from leafgate.digest.outline import largest_part, outline
from leafgate.digest.shapes import Alarms, TextShape, detect_shape, find_alarms
from leafgate.digest.size import Count, Size, cut_line, head_of, tail_of
from leafgate.digest.tables import TableSample, csv_line
from leafgate.model.envelope import HANDLE_CHARS

Clean = Callable[[str], str]
NotKept = Literal["too large to be kept", "not kept: the gateway's store fails"]

LONGEST_LINE: Final = 300
_LONGEST_CELL: Final = 48
_HANDLE: Final = "\x00"  # stands for the handle; no clean text contains it
_SLACK: Final = 4  # tokens by which a joined text may exceed the sum of its parts
_HEAD_SHARE: Final = 0.6
_ALARM_SHARE: Final = 0.35


@dataclass(frozen=True)
class Digest:
    """A digest that lacks only the handle, and the shape of the text that it replaces."""

    template: str
    shape: TextShape
    facts: tuple[str, ...] = ()

    def text(self, handle: str | None, why_not: NotKept = "too large to be kept") -> str:
        """Return the digest as the model reads it. Without a handle, it says why the text was not stored."""
        if handle is None:
            note, _, body = self.template.partition("\n")
            return f"{note.partition(' Read on:')[0]} It was {why_not}.]\n{body}"
        return self.template.replace(_HANDLE, handle, 1)


def digest(text: str, size: Size, count: Count, clean: Clean, room: int) -> Digest:
    """Make the digest of a text in at most `room` tokens; the note alone if there is no room for more."""
    shape = detect_shape(text)
    alarms = find_alarms(text, LONGEST_LINE) if shape.kind in ("log", "lines") else None
    subject = _Subject(text, size, shape, alarms, count, clean)
    share = room
    while True:
        note, body = subject.describe(share - HANDLE_CHARS - _SLACK)
        template = f"{note}\n{clean(body)}" if body else note
        if share <= room // 3 or count(template) + HANDLE_CHARS <= room:
            break
        share = share * 4 // 5
    if count(template) + HANDLE_CHARS > room:
        template = f"[{size.tokens} tokens, shortened. Read on: {_call({'type': 'head'})}]"
    return Digest(template, shape, tuple(map(clean, _facts(shape, alarms))))


@dataclass(frozen=True)
class _Subject:
    """A text and what was detected in it. The parts that the body shows decide where the note says to read on."""

    text: str
    size: Size
    shape: TextShape
    alarms: Alarms | None
    count: Count
    clean: Clean

    def describe(self, room: int) -> tuple[str, str]:
        room -= self.count(self._note({"type": "lines", "start": self.size.lines, "offset": self.size.bytes}))
        if self.shape.table is not None:
            body, rows = _table(self.shape.table, self.count, room)
            return self._note({"type": "rows", "start": rows + 1}), body
        if self.shape.kind == "json":
            pointer = self.clean(largest_part(self.shape.value))
            body = outline(self.shape.value, self.count, room - self.count(pointer))
            return self._note({"type": "json", "pointer": pointer}), body
        return self._prose(room) if self.shape.kind == "prose" else self._lines(room)

    def _note(self, selector: Mapping[str, Any]) -> str:
        table, what = self.shape.table, self.shape.name
        if table is not None:
            about = "" if table.exact else "about "
            what = f"{what}, {about}{table.rows} rows, {len(table.columns)} columns"
        return f"[{what}, {self.size}, shortened. Read on: {_call(selector)}]"

    def _prose(self, room: int) -> tuple[str, str]:
        """Show the first sentences and the last."""
        share = int(room * _HEAD_SHARE)
        head = head_of(self.text, self.count, share)
        tail = tail_of(self.text[len(head) :], self.count, room - share - 8)
        offset = len(head[head.rfind("\n") + 1 :].encode("utf-8", "replace"))
        go_on = {"type": "lines", "start": head.count("\n") + 1} | ({"offset": offset} if offset else {})
        return self._note(go_on), f"{head.rstrip()}\n[…]\n{tail.lstrip()}"

    def _lines(self, room: int) -> tuple[str, str]:
        """Show the first lines, lines that report errors in between, the last lines."""
        summary: list[str] = []
        errors: list[str] = []
        if self.alarms is not None and self.alarms.errors:
            samples = [f"{number}: {line}" for number, line in self.alarms.samples]
            errors, cost = _take(samples, self.count, int(room * _ALARM_SHARE))
            summary = [f"[{self.alarms}]"]
            room -= cost + self.count(summary[0]) + 4
        most = max(room, 1)
        first = _cut(self.text.split("\n", most)[:most])
        head, cost = _take(first, self.count, int(room * _HEAD_SHARE))
        behind = self.size.lines - len(head)
        last = self.text.removesuffix("\n").rsplit("\n", most)[-most:][-behind:] if behind > 0 else []
        tail, _ = _take(_cut(last[::-1]), self.count, room - cost - 16)
        gap = f"[… lines {len(head) + 1} to {self.size.lines - len(tail)} …]"
        parts = [*summary, *head, gap, *errors, *(["[…]"] if errors else []), *tail[::-1]]
        return self._note({"type": "lines", "start": len(head) + 1}), "\n".join(parts)


def _call(selector: Mapping[str, Any]) -> str:
    arguments = json.dumps({"handle": "", "selector": selector}, ensure_ascii=False, separators=(",", ":"))
    return "tool_view " + arguments.replace('""', f'"{_HANDLE}"', 1)


def _cut(lines: Sequence[str]) -> Iterator[str]:
    return (cut_line(line.rstrip("\r"), LONGEST_LINE) for line in lines)


def _take(lines: Iterable[str], count: Count, room: int) -> tuple[list[str], int]:
    """Return the first lines, as many as fit, and their cost in tokens."""
    head: list[str] = []
    cost = 0
    for line in lines:
        price = count(line) + 1
        if cost + price > room:
            break
        head.append(line)
        cost += price
    return head, cost


def _table(table: TableSample, count: Count, room: int) -> tuple[str, int]:
    """Show the columns with their kinds, the first rows and the last. Return the text and the number of first rows."""
    columns = [
        f"{cut_line(_flat(name), _LONGEST_CELL)} {kind}" for name, kind in zip(table.columns, table.kinds, strict=True)
    ]
    names, cost = _take(columns, count, int(room * 0.5))
    more = len(columns) - len(names)
    header = "columns: " + ", ".join([*names, *([f"{more} more"] if more else [])])
    room -= cost + 12
    first, spent = _take([_row(row) for row in table.first], count, int(room * _HEAD_SHARE))
    rest = table.last[-max(table.rows - len(first), 0) :] if table.rows > len(first) else ()
    last, _ = _take([_row(row) for row in rest[::-1]], count, room - spent)
    gap = f"[… rows {len(first) + 1} to {table.rows - len(last)} …]"
    return "\n".join([header, *first, gap, *last[::-1]]), len(first)


def _row(row: Sequence[Any]) -> str:
    cells = (cut_line(_flat(value), _LONGEST_CELL) if isinstance(value, str) else value for value in row)
    return cut_line(csv_line(cells), LONGEST_LINE)


def _flat(text: str) -> str:
    return " ".join(text[: 4 * _LONGEST_CELL].split())


def _facts(shape: TextShape, alarms: Alarms | None) -> tuple[str, ...]:
    table = shape.table
    if table is not None:
        return f"rows: {table.rows}", f"columns: {', '.join(_flat(name) for name in table.columns[:12])}"[:160]
    if alarms is not None and shape.kind == "log":
        return f"error lines: {alarms.errors}", f"warning lines: {alarms.warnings}"
    return ()
