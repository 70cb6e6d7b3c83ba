"""Reads a JSON text of any size by samples. In: a text. Out: its value with long parts sampled, or None. Pure.

A small text is parsed. Of a large one the brackets, commas and quotes are found, all at once; so lengths are exact, a
few elements are parsed, and neither size nor depth of a hostile text costs more than one pass over its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

PARSED_WHOLE: Final = 16_384  # bytes
LARGEST: Final = 16 * 1024 * 1024  # characters; beyond, a text is told by its ends
MAX_MARKS: Final = 6_000_000  # brackets, commas and quotes; likewise
FIRST, SPREAD, LAST = 24, 12, 4  # elements that are looked at
FIRST_KEYS: Final = 60
MAX_DEPTH: Final = 8
MAX_PARSED: Final = 131_072  # bytes that are parsed in all


@dataclass(frozen=True)
class SampledArray:
    """A long array: its length, and some of its elements with their places."""

    length: int
    items: tuple[Any, ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class SampledObject:
    """An object with many or large members: how many there are, and the first of them."""

    length: int
    members: Mapping[str, Any]


@dataclass(frozen=True)
class Unread:
    """A part that was not looked at."""

    kind: str


class NotJson(Exception):
    """The text is something else. Does not leave this file."""


def sample_json(text: str) -> Any:
    """The value of an array or object, sampled; NOT_JSON for any other text."""
    start = text[:64].lstrip()[:1]
    if start not in ("{", "[") or text[-64:].rstrip()[-1:] not in ("}", "]") or len(text) > LARGEST:
        return NOT_JSON
    try:
        if len(text) <= PARSED_WHOLE:
            return json.loads(text)
        return _Structure.of(text.encode("utf-8", "replace")).sample()
    except (ValueError, RecursionError, NotJson):
        return NOT_JSON


NOT_JSON: Final = object()


def elements(value: Any) -> tuple[int, Sequence[Any]] | None:
    """The length of an array and the elements that are known, or None for anything else."""
    if isinstance(value, list):
        return len(value), value
    return (value.length, value.items) if isinstance(value, SampledArray) else None


def members(value: Any) -> tuple[int, Mapping[str, Any]] | None:
    """The number of members of an object and those that are known, or None for anything else."""
    if isinstance(value, dict):
        return len(value), value
    return (value.length, value.members) if isinstance(value, SampledObject) else None


_OPEN, _CLOSE, _COMMA, _QUOTE = 1, 2, 3, 4
_KIND_OF: Final = {"{": _OPEN, "[": _OPEN, "}": _CLOSE, "]": _CLOSE, ",": _COMMA, '"': _QUOTE}
_KINDS: Final = bytes(_KIND_OF.get(chr(byte), 0) for byte in range(256))
_STEP: Final = np.array([0, 1, -1, 0], np.int32)


@dataclass
class _Structure:
    """Where the brackets and commas of a JSON text stand, and how deep."""

    data: bytes
    places: npt.NDArray[np.intp]
    kinds: npt.NDArray[np.uint8]
    depths: npt.NDArray[np.int32]  # inside a bracket of depth d, commas have d; an opening bracket d, its closing d - 1
    parsed: int = field(default=0)

    @staticmethod
    def of(data: bytes) -> _Structure:
        marks = np.frombuffer(data.translate(_KINDS), np.uint8)  # far quicker than looking up in an array
        places = np.flatnonzero(marks.view(np.bool_))
        if len(places) > MAX_MARKS:
            raise NotJson
        kinds = marks[places]
        if b'\\"' in data:
            unescaped = ~_escaped(np.frombuffer(data, np.uint8))[places]
            places, kinds = places[unescaped], kinds[unescaped]
        quotes = kinds == _QUOTE
        inside = np.cumsum(quotes, dtype=np.uint8) & 1  # overflow keeps what is odd
        structural = np.flatnonzero((inside == 0) & ~quotes)
        places, kinds = places[structural], kinds[structural]
        depths = np.cumsum(np.take(_STEP, kinds), dtype=np.int32)
        if not places.size or depths[-1] != 0 or np.count_nonzero(depths <= 0) != 1:
            raise NotJson
        return _Structure(data, places, kinds, depths)

    def sample(self) -> Any:
        return self._value(0, len(self.places) - 1, 0)

    def _value(self, first: int, last: int, depth: int) -> Any:
        """The value between these two brackets."""
        start, end = int(self.places[first]), int(self.places[last]) + 1
        if end - start <= PARSED_WHOLE // 8 and self.parsed < MAX_PARSED:
            return self._parse(start, end)
        is_array = self.data[start] == ord("[")
        if depth >= MAX_DEPTH or self.parsed >= MAX_PARSED:
            return Unread("array" if is_array else "object")
        inner = self.kinds[first + 1 : last]
        commas = np.flatnonzero((inner == _COMMA) & (self.depths[first + 1 : last] == self.depths[first])) + first + 1
        length = len(commas) + 1 if len(commas) or self.data[start + 1 : end - 1].strip() else 0
        borders = (first, commas, last)
        if is_array:
            places = tuple(_looked_at(length))
            items = tuple(self._member(borders, place, depth) for place in places)
            return SampledArray(length, items, places)
        found: dict[str, Any] = {}
        for place in range(min(length, FIRST_KEYS)):
            key, value = self._keyed(borders, place, depth)
            found[key] = value
        return SampledObject(length, found)

    def _span(self, borders: tuple[int, npt.NDArray[np.intp], int], place: int) -> tuple[int, int]:
        """The structural marks before and behind the element at this place."""
        first, commas, last = borders
        before = first if place == 0 else int(commas[place - 1])
        behind = last if place == len(commas) else int(commas[place])
        return before, behind

    def _member(self, borders: tuple[int, npt.NDArray[np.intp], int], place: int, depth: int) -> Any:
        before, behind = self._span(borders, place)
        if behind - before > 1:  # there are brackets in it: an array or an object
            if self.data[int(self.places[before]) + 1 : int(self.places[before + 1])].strip():
                raise NotJson
            return self._value(before + 1, behind - 1, depth + 1)
        return self._parse(int(self.places[before]) + 1, int(self.places[behind]))

    def _keyed(self, borders: tuple[int, npt.NDArray[np.intp], int], place: int, depth: int) -> tuple[str, Any]:
        before, behind = self._span(borders, place)
        start, end = int(self.places[before]) + 1, int(self.places[behind])
        if behind - before == 1:
            ((key, value),) = self._parse_member(self.data[start:end])
            return key, value
        opening = int(self.places[before + 1])
        ((key, _),) = self._parse_member(self.data[start:opening] + b"0")
        return key, self._value(before + 1, behind - 1, depth + 1)

    def _parse_member(self, data: bytes) -> Iterator[tuple[str, Any]]:
        self.parsed += len(data)
        found = json.loads(b"{" + data + b"}")
        if len(found) != 1:
            raise NotJson
        return iter(found.items())

    def _parse(self, start: int, end: int) -> Any:
        self.parsed += end - start
        return json.loads(self.data[start:end])


def _escaped(flat: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which bytes stand behind an odd number of backslashes."""
    slashes = np.flatnonzero(flat == ord("\\"))
    begins = np.concatenate([[True], np.diff(slashes) != 1])
    run_starts = np.flatnonzero(begins)
    runs = np.diff(np.append(run_starts, len(slashes)))
    odd = runs % 2 == 1
    behind = slashes[run_starts[odd]] + runs[odd]
    marked = np.zeros(len(flat), np.bool_)
    marked[behind[behind < len(flat)]] = True
    return marked


def _looked_at(length: int) -> list[int]:
    """The places of an array that are looked at: its beginning, some spread over it, its end."""
    if length <= FIRST + SPREAD + LAST:
        return list(range(length))
    middle = range(FIRST, length - LAST)
    spread = [middle[at * len(middle) // SPREAD] for at in range(SPREAD)]
    return sorted({*range(FIRST), *spread, *range(length - LAST, length)})
