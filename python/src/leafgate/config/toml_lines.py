"""Where the keys of a TOML text stand. In: a text. Out: the line of each key path, and keys given twice.

Touches nothing. The standard library's reader gives no positions; this one gives nothing else: it trusts that the text
is TOML, and ends early and quietly where it is not.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from leafgate.config.parsed import MAX_DEPTH
from leafgate.config.problem import KeyPath

_BLANK: Final = re.compile(r"[ \t]*")
_BLANK_LINES: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")
_STRING: Final = re.compile(
    r"\"\"\"(?:[^\\]|\\[\s\S])*?\"\"\"\"{0,2}|'''[\s\S]*?''''{0,2}|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"
)
_PLAIN: Final = re.compile(r"[^\s,#\]}]+(?: [0-9][^\s,#\]}]*)?")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_ESCAPES: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


@dataclass(frozen=True)
class Repeat:
    """A key that is given twice, and the lines of both."""

    path: KeyPath
    first: int
    second: int


@dataclass(frozen=True)
class TomlLines:
    lines: dict[KeyPath, int]
    repeats: tuple[Repeat, ...]


class _Lost(Exception):
    """The text is not TOML here."""


def toml_lines(text: str) -> TomlLines:
    """The line of each key and table."""
    walk = _Walk(text)
    with suppress(_Lost):
        walk.statements()
    return TomlLines(walk.lines, tuple(walk.repeats))


class _Walk:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {(): 1}
        self.repeats: list[Repeat] = []
        self._given: dict[KeyPath, int] = {}  # keys and tables that a repetition of is refused
        self._counts: dict[KeyPath, int] = {}  # the tables of each [[array]] so far

    def statements(self) -> None:
        table: KeyPath = ()
        while self._skip(_BLANK_LINES) < len(self.text):
            if self.text.startswith("[[", self.place):
                table = self._array_table()
            elif self.text.startswith("[", self.place):
                self.place += 1
                line, keys = self._line(), self._keys()
                self._expect("]")
                table = self._resolved(keys)
                self._note(table, line, given=True)
            else:
                self._pair(table, 0)

    def _array_table(self) -> KeyPath:
        self.place += 2
        line, keys = self._line(), self._keys()
        self._expect("]")
        self._expect("]")
        array = self._resolved(keys[:-1]) + keys[-1:]
        index = self._counts.get(array, 0)
        self._counts[array] = index + 1
        self._note(array, line)
        self._note((*array, index), line)
        return (*array, index)

    def _resolved(self, keys: KeyPath) -> KeyPath:
        """A header's keys, with the last table of an array for each that names one."""
        path: KeyPath = ()
        for key in keys:
            path = (*path, key)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _pair(self, table: KeyPath, depth: int) -> None:
        line, keys = self._line(), self._keys()
        self._expect("=")
        for length in range(1, len(keys)):
            self._note(table + keys[:length], line)
        path = table + keys
        self._note(path, line, given=True)
        self._value(path, depth)

    def _value(self, path: KeyPath, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _Lost
        self._skip(_BLANK)
        if self.text.startswith("[", self.place):
            for index in self._entries("]"):
                self._note((*path, index), self._line())
                self._value((*path, index), depth + 1)
        elif self.text.startswith("{", self.place):
            for _ in self._entries("}"):
                self._pair(path, depth + 1)
        elif (found := _STRING.match(self.text, self.place) or _PLAIN.match(self.text, self.place)) is not None:
            self.place = found.end()
        else:
            raise _Lost

    def _entries(self, end: str) -> Iterator[int]:
        """Stops before each entry of an array or inline table, and behind its end."""
        self.place += 1
        index = 0
        while self._skip(_BLANK_LINES) < len(self.text) and self.text[self.place] != end:
            before = self.place
            yield index
            index += 1
            self._skip(_BLANK_LINES)
            if self.text.startswith(",", self.place):
                self.place += 1
            elif self.place == before:
                raise _Lost
        self._expect(end)

    def _keys(self) -> KeyPath:
        keys: list[Any] = []
        while True:
            self._skip(_BLANK)
            found = _KEY.match(self.text, self.place)
            if found is None:
                raise _Lost
            keys.append(_unquoted(found[0]))
            self.place = found.end()
            self._skip(_BLANK)
            if not self.text.startswith(".", self.place):
                return tuple(keys)
            self.place += 1

    def _note(self, path: KeyPath, line: int, *, given: bool = False) -> None:
        self.lines.setdefault(path, line)
        if given:
            if path in self._given:
                self.repeats.append(Repeat(path, self._given[path], line))
            self._given.setdefault(path, line)

    def _line(self) -> int:
        self._skip(_BLANK)
        return bisect_right(self.newlines, self.place - 1) + 1

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self.text, self.place)
        assert found is not None  # both blanks match nothing, too
        self.place = found.end()
        return self.place

    def _expect(self, sign: str) -> None:
        self._skip(_BLANK)
        if not self.text.startswith(sign, self.place):
            raise _Lost
        self.place += len(sign)


def _unquoted(key: str) -> str:
    if key[0] == "'":
        return key[1:-1]
    if key[0] != '"':
        return key
    return _ESCAPE.sub(_meant, key[1:-1])


def _meant(escape: re.Match[str]) -> str:
    point = escape[1] or escape[2]
    if point is None:
        return _ESCAPES.get(escape[3], escape[3])
    if int(point, 16) > 0x10FFFF:
        raise _Lost
    return chr(int(point, 16))
