"""Reads JSON, also with comments and trailing commas, as editors keep it. In: a text. Out: Parsed. Touches nothing.

Bounded in depth. Repeated keys are told with both lines, where most readers would silently take the last.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

from leafgate.config.parsed import MAX_DEPTH, Malformed, Parsed, repeated
from leafgate.config.problem import KeyPath, Problem

_BLANK: Final = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*[\s\S]*?\*/)*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_STRINGS: Final = JSONDecoder()
_WORDS: Final = {"true": True, "false": False, "null": None}
_LONGEST_NUMBER: Final = 400


def parse_json(text: str) -> Parsed:
    """The value in the text."""
    return _Reading(text).parsed()


class _Reading:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {}
        self.literals: dict[KeyPath, str] = {}
        self.problems: list[Problem] = []

    def parsed(self) -> Parsed:
        self._skip()
        value = self._value(())
        self._skip()
        if self.place < len(self.text):
            raise self._malformed("there is more after the end of the value")
        return Parsed(value, self.lines, self.literals, tuple(self.problems))

    def _line(self, place: int) -> int:
        return bisect_right(self.newlines, place - 1) + 1

    def _malformed(self, what: str) -> Malformed:
        return Malformed(what, self._line(self.place))

    def _skip(self) -> None:
        found = _BLANK.match(self.text, self.place)
        assert found is not None  # it matches nothing, too
        self.place = found.end()
        if self.text.startswith("/*", self.place):
            raise self._malformed("a comment begins here and does not end; close it with */")

    def _peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def _value(self, path: KeyPath) -> Any:
        if len(path) > MAX_DEPTH:
            raise self._malformed("nested too deeply")
        self.lines.setdefault(path, self._line(self.place))
        match self._peek():
            case "{":
                return self._object(path)
            case "[":
                return self._array(path)
            case '"':
                return self._string()
            case "":
                raise self._malformed("the text ends where a value is needed")
            case _:
                return self._scalar(path)

    def _object(self, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.place += 1
        self._skip()
        while self._peek() != "}":
            if self._peek() != '"':
                raise self._malformed("a key in double quotes, or }, is needed here")
            line = self._line(self.place)
            key = self._string()
            here = (*path, key)
            if key in found:
                self.problems.append(repeated(here, self.lines[here], line))
            self.lines.setdefault(here, line)
            self._skip()
            if self._peek() != ":":
                raise self._malformed("a colon is needed after the key")
            self.place += 1
            self._skip()
            found[key] = self._value(here)
            self._comma("}")
        self.place += 1
        return found

    def _array(self, path: KeyPath) -> list[Any]:
        found: list[Any] = []
        self.place += 1
        self._skip()
        while self._peek() != "]":
            found.append(self._value((*path, len(found))))
            self._comma("]")
        self.place += 1
        return found

    def _comma(self, end: str) -> None:
        self._skip()
        if self._peek() == ",":
            self.place += 1
            self._skip()
        elif self._peek() != end:
            raise self._malformed(f"a comma or {end} is needed here")

    def _string(self) -> str:
        try:
            found, self.place = _STRINGS.raw_decode(self.text, self.place)
        except JSONDecodeError as error:
            self.place = min(error.pos, len(self.text))
            raise self._malformed(f"a text is broken: {error.msg}") from None
        return str(found)

    def _scalar(self, path: KeyPath) -> Any:
        for word, meaning in _WORDS.items():
            if self.text.startswith(word, self.place):
                self.place += len(word)
                self.literals[path] = word
                return meaning
        found = _NUMBER.match(self.text, self.place)
        if found is None:
            raise self._malformed("a value is needed here; texts stand in double quotes")
        if len(found[0]) > _LONGEST_NUMBER:
            raise self._malformed("a number is too long")
        self.place = found.end()
        self.literals[path] = found[0]
        return float(found[0]) if found[1] or found[2] else int(found[0])
