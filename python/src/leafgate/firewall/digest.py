"""What stands in the place of a withheld text. In: a text, its size, a number of tokens. Out: a Digest. Pure.

It says what the text is and how large, shows what its kind is best told by, and names the call that reads on. The same
text gives the same bytes; only the handle, for which room is reserved, differs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from leafgate.firewall.fit import Count, cut_line, head_of, tail_of
from leafgate.firewall.logs import Alarms, find_alarms
from leafgate.firewall.outline import largest_part, outline
from leafgate.firewall.shape import Shape, shape_of
from leafgate.firewall.size import Size
from leafgate.firewall.tables import TableSample, csv_line
from leafgate.model.envelope import HANDLE_CHARS

Clean = Callable[[str], str]
NotKept = Literal["too large to be kept", "not kept: the gateway's store fails"]

LONGEST_LINE: Final = 300
_LONGEST_CELL: Final = 48
_HANDLE: Final = "\x00"  # no clean text holds it
_SLACK: Final = 4  # tokens by which a joined text may exceed the sum of its parts
_HEAD_SHARE: Final = 0.6
_ALARM_SHARE: Final = 0.35


@dataclass(frozen=True)
class Digest:
    """A digest that lacks only the handle, and what kind of text it stands for."""

    template: str
    shape: Shape
    facts: tuple[str, ...] = ()

    def text(self, handle: str | None, why_not: NotKept = "too large to be kept") -> str:
        """The digest as the model reads it; without a handle where the text could not be kept, and why."""
        if handle is None:
            note, _, body = self.template.partition("\n")
            return f"{note.partition(' Read on:')[0]} It was {why_not}.]\n{body}"
        return self.template.replace(_HANDLE, handle, 1)


def digest(text: str, size: Size, count: Count, clean: Clean, room: int) -> Digest:
    """The digest of a text in at most so many tokens; the note alone where there is no room for more."""
    shape = shape_of(text)
    alarms = find_alarms(text, LONGEST_LINE) if shape.kind in ("log", "lines") else None
    subject = _Subject(text, size, shape, alarms, count, clean)
    share = room
    while True:
        note, body = subject.told(share - HANDLE_CHARS - _SLACK)
        template = f"{note}\n{clean(body)}" if body else note
        if share <= room // 3 or count(template) + HANDLE_CHARS <= room:
            break
        share = share * 4 // 5
    if count(template) + HANDLE_CHARS > room:
        template = f"[{size.tokens} tokens, shortened. Read on: {_call({'type': 'head'})}]"
    facts = tuple(clean(fact) for fact in _facts(shape, alarms))
    return Digest(template, shape, facts)


@dataclass(frozen=True)
class _Subject:
    """A text to be told, and what is known of it. What is shown decides where to read on, and so what the note says."""

    text: str
    size: Size
    shape: Shape
    alarms: Alarms | None
    count: Count
    clean: Clean

    def told(self, room: int) -> tuple[str, str]:
        """The note and what follows it."""
        room -= self.count(self._note({"type": "lines", "start": self.size.lines, "offset": self.size.bytes}))
        if self.shape.table is not None:
            body, shown = _table(self.shape.table, self.count, room)
            return self._note({"type": "rows", "start": shown + 1}), body
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
        """The first sentences and the last."""
        share = int(room * _HEAD_SHARE)
        head = head_of(self.text, self.count, share)
        tail = tail_of(self.text[len(head) :], self.count, room - share - 8)
        offset = len(head[head.rfind("\n") + 1 :].encode("utf-8", "replace"))
        go_on = {"type": "lines", "start": head.count("\n") + 1} | ({"offset": offset} if offset else {})
        return self._note(go_on), f"{head.rstrip()}\n[…]\n{tail.lstrip()}"

    def _lines(self, room: int) -> tuple[str, str]:
        """The first lines, lines that tell of trouble in between, the last lines."""
        told: list[str] = []
        trouble: list[str] = []
        if self.alarms is not None and self.alarms.errors:
            found = [f"{alarm.number}: {alarm.line}" for alarm in self.alarms.shown]
            trouble, cost = _take(found, self.count, int(room * _ALARM_SHARE))
            told = [f"[{self.alarms}]"]
            room -= cost + self.count(told[0]) + 4
        most = max(room, 1)
        first = _cut(self.text.split("\n", most)[:most])
        head, cost = _take(first, self.count, int(room * _HEAD_SHARE))
        behind = self.size.lines - len(head)
        last = self.text.removesuffix("\n").rsplit("\n", most)[-most:][-behind:] if behind > 0 else []
        tail, _ = _take(_cut(last[::-1]), self.count, room - cost - 16)
        left_out = f"[… lines {len(head) + 1} to {self.size.lines - len(tail)} …]"
        parts = [*told, *head, left_out, *trouble, *(["[…]"] if trouble else []), *tail[::-1]]
        return self._note({"type": "lines", "start": len(head) + 1}), "\n".join(parts)


def _call(selector: Mapping[str, Any]) -> str:
    written = json.dumps({"handle": "", "selector": selector}, ensure_ascii=False, separators=(",", ":"))
    return "tool_view " + written.replace('""', f'"{_HANDLE}"', 1)


def _cut(lines: Sequence[str]) -> Iterator[str]:
    return (cut_line(line.rstrip("\r"), LONGEST_LINE) for line in lines)


def _take(lines: Iterable[str], count: Count, room: int) -> tuple[list[str], int]:
    """Lines from the front while they fit, and what they cost."""
    taken: list[str] = []
    cost = 0
    for line in lines:
        price = count(line) + 1
        if cost + price > room:
            break
        taken.append(line)
        cost += price
    return taken, cost


def _table(table: TableSample, count: Count, room: int) -> tuple[str, int]:
    """The columns with their kinds, the first rows and the last; and how many of the first are shown."""
    columns = [
        f"{cut_line(_flat(name), _LONGEST_CELL)} {kind}" for name, kind in zip(table.columns, table.kinds, strict=True)
    ]
    described, cost = _take(columns, count, int(room * 0.5))
    more = len(columns) - len(described)
    told = "columns: " + ", ".join([*described, *([f"{more} more"] if more else [])])
    room -= cost + 12
    first, spent = _take([_row(row) for row in table.first], count, int(room * _HEAD_SHARE))
    known = table.last[-max(table.rows - len(first), 0) :] if table.rows > len(first) else ()
    last, _ = _take([_row(row) for row in known[::-1]], count, room - spent)
    left_out = f"[… rows {len(first) + 1} to {table.rows - len(last)} …]"
    return "\n".join([told, *first, left_out, *last[::-1]]), len(first)


def _row(row: Sequence[Any]) -> str:
    return cut_line(
        csv_line(cut_line(_flat(value), _LONGEST_CELL) if isinstance(value, str) else value for value in row),
        LONGEST_LINE,
    )


def _flat(text: str) -> str:
    return " ".join(text[: 4 * _LONGEST_CELL].split())


def _facts(shape: Shape, alarms: Alarms | None) -> tuple[str, ...]:
    table = shape.table
    if table is not None:
        return f"rows: {table.rows}", f"columns: {', '.join(_flat(name) for name in table.columns[:12])}"[:160]
    if alarms is not None and shape.kind == "log":
        return f"error lines: {alarms.errors}", f"warning lines: {alarms.warnings}"
    return ()
