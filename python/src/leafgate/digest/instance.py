"""Shortens structured content to a smaller value of the same shape, which its tool's output schema still allows.

Arrays, objects and texts are cut to their beginning, in each attempt further, until the value fits. What the schema
does not allow to be cut (a least number of elements, a required member, a pattern) is put back where a check finds it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from leafgate.digest.outline import pointer_to
from leafgate.digest.size import Count

# Reports where a value breaks its schema, as JSON Pointers; nothing where it does not, or where that cannot be checked.
FindViolations = Callable[[Any], Sequence[str]]

# Elements of an array, members of an object and characters of a text that each attempt leaves.
ATTEMPTS: Final = ((40, 40, 400), (20, 30, 200), (10, 24, 120), (5, 16, 80), (2, 12, 40), (1, 8, 20), (0, 0, 0))
MAX_CHECKS: Final = 12  # of one attempt
NOTE_KEY: Final = "_shortened"
NOTE_TOKENS: Final = 40
ELLIPSIS: Final = "…"


class _TooLargeError(Exception):
    """The value does not fit, wherever it is cut."""


@dataclass
class _Cut:
    """One attempt. `whole` has the pointers of values that stay as they are; `long` those whose elements or members
    all stay, while each of them may be cut."""

    elements: int
    members: int
    characters: int
    most: int  # values altogether: each takes at least a token
    long: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)

    def apply(self, value: Any) -> Any:
        self._values = 0
        return self._apply(value, "")

    def _apply(self, value: Any, pointer: str) -> Any:
        self._values += 1
        if self._values > self.most:
            raise _TooLargeError
        if pointer in self.whole:
            return value
        if isinstance(value, str):
            return value if len(value) <= self.characters or pointer in self.long else self._cut_text(value)
        if isinstance(value, Mapping):
            most = None if pointer in self.long else self.members
            return {key: self._apply(each, pointer + pointer_to((key,))) for key, each in islice(value.items(), most)}
        if isinstance(value, list):
            most = None if pointer in self.long else self.elements
            return [self._apply(each, pointer + pointer_to((at,))) for at, each in enumerate(islice(value, most))]
        return value

    def _cut_text(self, text: str) -> str:
        return f"{text[: self.characters]}{ELLIPSIS}" if self.characters else ""

    def put_back(self, pointers: Sequence[str]) -> bool:
        """Cut less at these places: first all elements or members stay, then the whole value. False if that was done
        already."""
        before = len(self.long), len(self.whole)
        self.whole.update(self.long.intersection(pointers))
        self.long.update(pointers)
        return (len(self.long), len(self.whole)) != before


@dataclass(frozen=True)
class Shortened:
    """The smaller value. `takes_note`: the schema also allows a member that says how to read the rest."""

    value: Any
    takes_note: bool = False

    def with_note(self, handle: str | None) -> Any:
        """The value, with the note where there is a handle and a place for it."""
        return {**self.value, NOTE_KEY: _note(handle)} if self.takes_note and handle is not None else self.value


def _note(handle: str) -> str:
    return f'tool_view {{"handle":"{handle}"}} reads the rest'


def shorten(value: Any, find_violations: FindViolations, count: Count, room: int) -> Shortened | None:
    """The largest of the attempts that takes at most `room` tokens as JSON and breaks no schema; None if none does."""
    for elements, members, characters in ATTEMPTS:
        cut = _Cut(elements, members, characters, most=room)
        smaller = _fit_schema(value, cut, find_violations)
        if smaller is None or _tokens(smaller.value, count, room) > room:
            continue
        takes_note = isinstance(smaller.value, dict) and not find_violations({**smaller.value, NOTE_KEY: _note("")})
        return Shortened(smaller.value, takes_note)
    return None


def _fit_schema(value: Any, cut: _Cut, find_violations: FindViolations) -> Shortened | None:
    for _ in range(MAX_CHECKS):
        try:
            smaller = cut.apply(value)
        except _TooLargeError:
            return None
        pointers = find_violations(smaller)
        if not pointers:
            return Shortened(smaller)
        if not cut.put_back(pointers):
            return None
    return None


def _tokens(value: Any, count: Count, room: int) -> int:
    text = write_json(value)
    return room + 1 if len(text) > 128 * room else count(text) + NOTE_TOKENS


def write_json(value: Any) -> str:
    """The compact JSON of a clean value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
