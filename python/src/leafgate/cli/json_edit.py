"""Changes one member of a JSON text, as people keep it: with comments and trailing commas. In: a text. Out: a text.

Touches nothing. Only the bytes of that member change, so comments, the order of keys and line ends survive. The text
has been read before (config/json_text): what is no JSON does not get here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.model.errors import ConfigError

_STRING: Final = r'"(?:[^"\\\n]|\\.)*+"'
_COMMENT: Final = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_INDENT: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?://[^\r\n]*)?\r?\n")
_BOM: Final = "\ufeff"


def with_value(text: str, path: Sequence[str], value: Any) -> str:
    """The text in which the member at this path has this value; objects on the way are made where they are missing."""
    document = _Document(text)
    at = document.start
    for depth, key in enumerate(path):
        members = document.members(at, path[:depth])
        found = next((member for member in members if member.key == key), None)
        if found is None:
            rest: Any = value
            for missing in reversed(path[depth + 1 :]):
                rest = {missing: rest}
            return document.inserted(at, members, key, rest)
        at = found.start
    return document.replaced(at, value)


def without_member(text: str, path: Sequence[str]) -> str:
    """The text without the member at this path; the same text if there is none."""
    document = _Document(text)
    at = document.start
    for depth, key in enumerate(path):
        members = document.members(at, path[:depth])
        place = next((index for index, member in enumerate(members) if member.key == key), None)
        if place is None:
            return text
        if depth == len(path) - 1:
            return document.removed(members, place)
        at = members[place].start
    return text


@dataclass(frozen=True)
class _Member:
    """Where one member of an object stands: its key, and the value from `start` to `end`."""

    key: str
    key_start: int
    start: int
    end: int


class _Document:
    """A text and two copies of the same length: without its comments, and without its trailing commas too."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare = _COMMENT.sub(_blank, text.replace(_BOM, " ", 1) if text.startswith(_BOM) else text)
        self.strict = _TRAILING_COMMA.sub(_blank, self.bare)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        found = _INDENT.search(self.bare, self.bare.find("\n") + 1)
        self.unit = "  " if found is None or "\n" not in self.bare else found[1]
        self.start = self._space(0)

    def members(self, at: int, path: Sequence[str]) -> list[_Member]:
        """The members of the object that begins here."""
        where = ".".join(path) or "the file"
        if self.strict[at] != "{":
            raise ConfigError(f"{where}: an object is needed here")
        decoder = json.JSONDecoder()
        found: list[_Member] = []
        position = self._space(at + 1)
        while self.strict[position] != "}":
            key, key_end = decoder.raw_decode(self.strict, position)
            start = self._space(self._space(key_end) + 1)
            _, end = decoder.raw_decode(self.strict, start)
            found.append(_Member(key, position, start, end))
            position = self._space(end)
            if self.strict[position] == ",":
                position = self._space(position + 1)
        return found

    def replaced(self, at: int, value: Any) -> str:
        _, end = json.JSONDecoder().raw_decode(self.strict, at)
        return self.text[:at] + self._written(value, self._indent_at(at)) + self.text[end:]

    def inserted(self, at: int, members: Sequence[_Member], key: str, value: Any) -> str:
        """Behind the last member, on a line of its own; a comma behind the last one is kept up."""
        _, end = json.JSONDecoder().raw_decode(self.strict, at)
        close = end - 1
        outer = self._indent_at(at)
        inner = self._indent_at(members[-1].key_start) if members else outer
        inner = outer + self.unit if inner == outer else inner  # an empty object, or one on a single line
        head = self.text[:close].rstrip()
        space = self.text[len(head) : close]
        has_comma = bool(members) and "," in self.bare[members[-1].end : close]
        if members and not has_comma:
            head = f"{head[: members[-1].end]},{head[members[-1].end :]}"
        tail = space if "\n" in space else self.newline + outer
        member = f"{json.dumps(key, ensure_ascii=False)}: {self._written(value, inner)}{',' if has_comma else ''}"
        return f"{head}{self.newline}{inner}{member}{tail}{self.text[close:]}"

    def removed(self, members: Sequence[_Member], place: int) -> str:
        """With the comma that it no longer needs, and with its line if nothing else stands on it."""
        gone = members[place]
        comma_after = self._space(gone.end, self.bare)
        has_comma_after = self.bare[comma_after] == ","
        start, end = self._whole_line(gone.key_start, comma_after + 1 if has_comma_after else gone.end)
        head = self.text[:start]
        if place > 0 and not has_comma_after:
            comma_before = self.bare.index(",", members[place - 1].end)
            head = head[:comma_before] + head[comma_before + 1 :]
        return head + self.text[end:]

    def _whole_line(self, start: int, end: int) -> tuple[int, int]:
        line = self.text.rfind("\n", 0, start) + 1
        rest = _REST_OF_LINE.match(self.text, end)
        return (line, rest.end()) if rest and not self.text[line:start].strip() else (start, end)

    def _written(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self.unit, ensure_ascii=False).split("\n")
        return f"{self.newline}{indent}".join(lines)

    def _indent_at(self, position: int) -> str:
        before = self.text[self.text.rfind("\n", 0, position) + 1 : position].lstrip(_BOM)
        return before[: len(before) - len(before.lstrip(" \t"))]

    def _space(self, position: int, text: str | None = None) -> int:
        found = _SPACE.match(self.strict if text is None else text, position)
        return position if found is None else found.end()


def _blank(match: re.Match[str]) -> str:
    piece = match[0]
    open_comment = piece.startswith("/*") and (len(piece) < 4 or not piece.endswith("*/"))
    if piece.startswith('"') or open_comment:
        return piece
    return re.sub(r"[^\r\n]", " ", piece)
