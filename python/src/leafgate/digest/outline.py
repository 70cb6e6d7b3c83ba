"""The outline of a JSON text of any size: read a sample of its value, and describe its structure in a few lines.

A small text is parsed. For a large one, all brackets, commas and quotes are located at once: lengths are then exact,
only a few elements are parsed, and neither size nor depth of a hostile text costs more than one pass over its bytes.
The elements of an array are described together: their kinds, their members, and a few short values.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from leafgate.digest.size import Count, cut_line

PARSED_WHOLE: Final = 16_384  # bytes
LARGEST: Final = 16 * 1024 * 1024  # characters; a longer text is not read as JSON
MAX_MARKS: Final = 6_000_000  # brackets, commas and quotes; likewise
FIRST, SPREAD, LAST = 24, 12, 4  # elements of an array that are sampled
FIRST_KEYS: Final = 60
MAX_DEPTH: Final = 8
MAX_PARSED: Final = 131_072  # bytes that are parsed in all
NOT_JSON: Final = object()

_OPEN, _CLOSE, _COMMA, _QUOTE = 1, 2, 3, 4
_KIND_OF: Final = {"{": _OPEN, "[": _OPEN, "}": _CLOSE, "]": _CLOSE, ",": _COMMA, '"': _QUOTE}
_VALUE_KINDS: Final = bytes(_KIND_OF.get(chr(byte), 0) for byte in range(256))
_STEP: Final = np.array([0, 1, -1, 0], np.int32)

_MAX_ELEMENTS: Final = 60  # elements of an array that are described
_MAX_KEYS: Final = 60
_MAX_DEPTH: Final = 6
_LONGEST_KEY: Final = 60
_LONGEST_VALUE: Final = 32
_MAX_SAMPLES: Final = 3
_KINDS: Final = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}


# Sampling


@dataclass(frozen=True)
class SampledArray:
    """A long array: its length, and some of its elements with their places."""

    length: int
    items: tuple[Any, ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class SampledObject:
    """An object with many or large members: the number of members, and the first of them."""

    length: int
    members: Mapping[str, Any]


@dataclass(frozen=True)
class Unread:
    kind: str


def sample_json(text: str) -> Any:
    """Return a sample of the array or object in the text, or NOT_JSON for any other text."""
    start = text[:64].lstrip()[:1]
    if start not in ("{", "[") or text[-64:].rstrip()[-1:] not in ("}", "]") or len(text) > LARGEST:
        return NOT_JSON
    try:
        if len(text) <= PARSED_WHOLE:
            return json.loads(text)
        structure = _Structure.locate(text.encode("utf-8", "replace"))
        return structure.sample(0, len(structure.places) - 1)
    except (ValueError, RecursionError):
        return NOT_JSON


def elements(value: Any) -> tuple[int, Sequence[Any]] | None:
    """Return the length of an array and its sampled elements, or None for any other value."""
    if isinstance(value, list):
        return len(value), value
    return (value.length, value.items) if isinstance(value, SampledArray) else None


def members(value: Any) -> tuple[int, Mapping[str, Any]] | None:
    """Return the number of members of an object and its sampled members, or None for any other value."""
    if isinstance(value, dict):
        return len(value), value
    return (value.length, value.members) if isinstance(value, SampledObject) else None


@dataclass
class _Structure:
    """The places and depths of the brackets and commas of a JSON text."""

    data: bytes
    places: npt.NDArray[np.intp]
    kinds: npt.NDArray[np.uint8]
    depths: npt.NDArray[np.int32]  # inside a bracket of depth d, commas have d; an opening bracket d, its closing d - 1
    parsed: int = field(default=0)

    @staticmethod
    def locate(data: bytes) -> _Structure:
        """Find the structure of a text, or raise ValueError."""
        marks = np.frombuffer(data.translate(_VALUE_KINDS), np.uint8)  # far faster than a lookup in an array
        places = np.flatnonzero(marks.view(np.bool_))
        if len(places) > MAX_MARKS:
            raise ValueError("this is not JSON")
        kinds = marks[places]
        if b'\\"' in data:
            unescaped = ~_escaped(np.frombuffer(data, np.uint8))[places]
            places, kinds = places[unescaped], kinds[unescaped]
        quotes = kinds == _QUOTE
        inside = np.cumsum(quotes, dtype=np.uint8) & 1  # an overflow does not change the parity
        structural = np.flatnonzero((inside == 0) & ~quotes)
        places, kinds = places[structural], kinds[structural]
        depths = np.cumsum(np.take(_STEP, kinds), dtype=np.int32)
        if not places.size or depths[-1] != 0 or np.count_nonzero(depths <= 0) != 1:
            raise ValueError("this is not JSON")
        return _Structure(data, places, kinds, depths)

    def sample(self, first: int, last: int, depth: int = 0) -> Any:
        """Return the value between two brackets, sampled if it is large."""
        start, end = int(self.places[first]), int(self.places[last]) + 1
        if end - start <= PARSED_WHOLE // 8 and self.parsed < MAX_PARSED:
            return self._parse(start, end)
        is_array = self.data[start] == ord("[")
        if depth >= MAX_DEPTH or self.parsed >= MAX_PARSED:
            return Unread("array" if is_array else "object")
        inner = self.kinds[first + 1 : last]
        commas = np.flatnonzero((inner == _COMMA) & (self.depths[first + 1 : last] == self.depths[first])) + first + 1
        length = len(commas) + 1 if len(commas) or self.data[start + 1 : end - 1].strip() else 0
        places = tuple(_sample_places(length) if is_array else range(min(length, FIRST_KEYS)))
        # the structural marks before and behind each element
        borders = [
            (int(commas[at - 1]) if at else first, int(commas[at]) if at < len(commas) else last) for at in places
        ]
        if is_array:
            return SampledArray(length, tuple(self._element(*border, depth) for border in borders), places)
        return SampledObject(length, dict(self._member(*border, depth) for border in borders))

    def _element(self, before: int, behind: int, depth: int) -> Any:
        if behind - before > 1:  # there are brackets in it: an array or an object
            if self.data[int(self.places[before]) + 1 : int(self.places[before + 1])].strip():
                raise ValueError("this is not JSON")
            return self.sample(before + 1, behind - 1, depth + 1)
        return self._parse(int(self.places[before]) + 1, int(self.places[behind]))

    def _member(self, before: int, behind: int, depth: int) -> tuple[str, Any]:
        is_nested = behind - before > 1
        data = self.data[int(self.places[before]) + 1 : int(self.places[before + 1])] + (b"0" if is_nested else b"")
        self.parsed += len(data)
        pair = json.loads(b"{" + data + b"}")
        if len(pair) != 1:
            raise ValueError("this is not JSON")
        ((key, value),) = pair.items()
        return key, self.sample(before + 1, behind - 1, depth + 1) if is_nested else value

    def _parse(self, start: int, end: int) -> Any:
        self.parsed += end - start
        return json.loads(self.data[start:end])


def _escaped(flat: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return for each byte whether it stands behind an odd number of backslashes."""
    slashes = np.flatnonzero(flat == ord("\\"))
    begins = np.concatenate([[True], np.diff(slashes) != 1])
    run_starts = np.flatnonzero(begins)
    runs = np.diff(np.append(run_starts, len(slashes)))
    odd = runs % 2 == 1
    behind = slashes[run_starts[odd]] + runs[odd]
    escaped = np.zeros(len(flat), np.bool_)
    escaped[behind[behind < len(flat)]] = True
    return escaped


def _sample_places(length: int) -> list[int]:
    """Return the places of an array that are sampled: its beginning, some spread over it, its end."""
    if length <= FIRST + SPREAD + LAST:
        return list(range(length))
    middle = range(FIRST, length - LAST)
    spread = [middle[at * len(middle) // SPREAD] for at in range(SPREAD)]
    return sorted({*range(FIRST), *spread, *range(length - LAST, length)})


# The outline. Members keep the order of the document.


class Detail(NamedTuple):
    """How much an outline shows: levels, members per object, values per member."""

    depth: int
    keys: int
    samples: int


_STEPS: Final = ((6, 60, 3), (5, 40, 2), (4, 24, 2), (3, 16, 1), (2, 12, 1), (2, 8, 0), (1, 8, 0))
LADDER: Final = tuple(Detail(*step) for step in _STEPS)


@dataclass
class _Summary:
    """What stands in one place of a document, merged over all elements of an array."""

    kinds: Counter[str] = field(default_factory=Counter)
    samples: list[str] = field(default_factory=list)
    low: float = math.inf
    high: float = -math.inf
    shortest: int = -1
    longest: int = -1
    inside: _Summary | None = None
    keys: dict[str, _Summary] = field(default_factory=dict)
    most_keys: int = 0

    def add(self, value: Any, depth: int = 0) -> None:
        array, item = elements(value), members(value)
        large = value.kind if isinstance(value, Unread) else "array" if array is not None else "object"
        kind = _KINDS.get(type(value), large)
        self.kinds[kind] += 1
        if array is not None:
            length, items = array
            self.shortest = length if self.shortest < 0 else min(self.shortest, length)
            self.longest = max(self.longest, length)
            if items and depth < _MAX_DEPTH:
                self.inside = self.inside or _Summary()
                for element in items[:_MAX_ELEMENTS]:
                    self.inside.add(element, depth + 1)
        elif item is not None:
            self.most_keys = max(self.most_keys, item[0])
            if depth < _MAX_DEPTH:
                for key, inner in item[1].items():
                    if key in self.keys or len(self.keys) < _MAX_KEYS:
                        self.keys.setdefault(key, _Summary()).add(inner, depth + 1)
        elif kind in ("integer", "number", "string"):
            if kind != "string":
                self.low, self.high = min(self.low, value), max(self.high, value)
            if len(self.samples) < _MAX_SAMPLES and (sample := _short(value)) not in self.samples:
                self.samples.append(sample)


def outline(value: Any, count: Count, room: int) -> str:
    """Describe a value, whole or sampled, in the most detail that fits the room."""
    summary = _Summary()
    summary.add(value)
    text = ""
    for detail in LADDER:
        text = "\n".join((_describe(summary, detail), *_below(summary, detail, 0)))
        if count(text) <= room:
            return text
    lines = text.split("\n")
    while lines and count("\n".join([*lines, "…"])) > room:
        lines = lines[: len(lines) * 3 // 4]
    return "\n".join([*lines, "…"]) if lines else ""


def largest_part(value: Any) -> str:
    """Return the JSON Pointer of the longest array or object of the first level, the best part to read first."""
    sample = members(value)
    if sample is None:
        return ""
    parts = ((key, elements(inner) or members(inner) or (0,)) for key, inner in sample[1].items())
    sizes = [(part[0], -place, key) for place, (key, part) in enumerate(parts)]
    length, _, key = max(sizes, default=(0, 0, ""))
    return pointer_to((key,)) if length > 1 and len(key) <= _LONGEST_KEY else ""


def pointer_to(path: tuple[str | int, ...]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _below(summary: _Summary, detail: Detail, level: int) -> Iterator[str]:
    """Yield a line for each member of an object, or of the objects in an array."""
    holder = summary
    while not holder.keys and holder.inside is not None:
        holder = holder.inside
    if not holder.keys or level >= detail.depth:
        return
    for key, inner in list(holder.keys.items())[: detail.keys]:
        name = cut_line(" ".join(key[:200].split()) or json.dumps(key), _LONGEST_KEY)
        optional = "?" if sum(inner.kinds.values()) < holder.kinds["object"] else ""
        yield f"{'  ' * (level + 1)}{name}{optional}: {_describe(inner, detail)}"
        yield from _below(inner, detail, level + 1)
    more = max(holder.most_keys, len(holder.keys)) - detail.keys
    if more > 0:
        yield f"{'  ' * (level + 1)}… {more} more keys"


def _describe(summary: _Summary, detail: Detail) -> str:
    parts = [_one_kind(summary, kind, detail) for kind, _ in summary.kinds.most_common()]
    return " or ".join(parts) if parts else "nothing"


def _one_kind(summary: _Summary, kind: str, detail: Detail) -> str:
    if kind == "array" and summary.longest >= 0:
        spread = "" if summary.shortest == summary.longest else f"{summary.shortest} to "
        inside = "" if summary.inside is None else f" of {_plural(summary.inside, detail)}"
        return f"array [{spread}{summary.longest}]{inside}"
    if kind == "object" and summary.most_keys:
        return f"object, {summary.most_keys} keys"
    if kind in ("integer", "number") and summary.low < summary.high and detail.samples:
        return f"{kind} {_short(summary.low)} to {_short(summary.high)}"
    if kind in ("integer", "number", "string") and detail.samples and summary.samples:
        return f"{kind} {', '.join(summary.samples[: detail.samples])}"
    return kind


def _plural(summary: _Summary, detail: Detail) -> str:
    kinds = [kind for kind, _ in summary.kinds.most_common()]
    has_details = len(kinds) == 1 and kinds[0] in ("array", "integer", "number", "string")
    return _describe(summary, detail) if has_details else " or ".join(kinds)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return cut_line(str(value), _LONGEST_VALUE) if value.bit_length() < 4096 else "a huge number"
    return json.dumps(cut_line(" ".join(value[:200].split()), _LONGEST_VALUE), ensure_ascii=False)
