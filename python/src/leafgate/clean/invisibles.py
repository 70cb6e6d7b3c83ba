"""Invisible characters, which can smuggle text past a reader: remove those that mean nothing where they stand.

A run of invisible characters is judged by the visible characters on both sides, which no rule here removes, so a second
pass changes nothing. Joiners, selectors and marks stay exactly where their script or emoji gives them meaning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from leafgate.clean.sieve import without_ascii
from leafgate.data import load_table

Ranges = tuple[tuple[int, int], ...]


def _read_ranges(text: str) -> Ranges:
    """Read ranges such as `0590-08FF 203C`."""
    pairs = (item.partition("-") for item in text.split())
    return tuple((int(low, 16), int(high or low, 16)) for low, _, high in pairs)


_TABLE: Final = load_table("characters", {"invisible": dict, "groups": dict})
# kind -> its characters; the kinds are what `removed` lists
_KINDS: Final = {kind: _read_ranges(text) for kind, text in _TABLE["invisible"].items()}
_GROUPS: Final = {name: _read_ranges(text) for name, text in _TABLE["groups"].items()}
CONTROLS, SURROGATES, COMBINING = (_GROUPS[name] for name in ("controls", "surrogates", "combining"))


def without(ranges: Ranges, points: set[int]) -> Ranges:
    """Return the ranges without some of their points."""
    rest: list[tuple[int, int]] = []
    for low, high in ranges:
        start = low
        for point in sorted(point for point in points if low <= point <= high):
            if start < point:
                rest.append((start, point - 1))
            start = point + 1
        if start <= high:
            rest.append((start, high))
    return tuple(rest)


def char_class(*groups: Ranges) -> str:
    """Return the inside of a regular expression's [...] for these ranges."""
    return "".join(
        f"\\U{low:08x}" if low == high else f"\\U{low:08x}-\\U{high:08x}" for group in groups for low, high in group
    )


# The invisible characters, and patterns for runs of them

SURROGATE: Final = "surrogate"
_REPLACEMENT: Final = "\ufffd"

INVISIBLE: Final[Ranges] = tuple(item for group in _KINDS.values() for item in group)

_KIND_OF: Final[dict[str, str]] = {
    chr(point): kind for kind, group in _KINDS.items() for low, high in group for point in range(low, high + 1)
}
_RUN: Final = re.compile(f"([{char_class(INVISIBLE)}]+)")
# Between ASCII characters, or at an end, only a mark of direction and VS1 on a zero have a meaning. This is a shortcut:
# the rules below give the same result for each such run, only more slowly.
_DIRECTION: Final = frozenset("\u061c\u200e\u200f")
_PLAIN_CLASS: Final = char_class(without(INVISIBLE, {0xFE00, *map(ord, _DIRECTION)}))
_PLAIN: Final = re.compile(f"(?<![^\\x00-\\x7f])[{_PLAIN_CLASS}]+(?![^\\x00-\\x7f])")
_PLAIN_LEFT_TO_RIGHT: Final = re.compile(
    f"(?<![^\\x00-\\x7f])[{_PLAIN_CLASS}{''.join(sorted(_DIRECTION))}]+(?![^\\x00-\\x7f])"
)
_RIGHT_TO_LEFT: Final = re.compile(f"[{char_class(_GROUPS['right_to_left'])}]")
_LONE: Final = re.compile("[\ud800-\udfff]")
# The flags that exist (England, Scotland, Wales, ...): a free choice of letters would be a channel for hidden text.
_FLAG_TAGS: Final = re.compile(
    "(?:"
    + "|".join(
        "".join(chr(0xE0000 + ord(letter)) for letter in code)
        for code in ("gbeng", "gbsct", "gbwls", "gbnir", "ustx", "usca")
    )
    + ")\U000e007f"
)
_BLACK_FLAG: Final = "\U0001f3f4"
_KEYCAP: Final = "\u20e3"
_REACH: Final = 32  # visible characters examined on each side for a letter that has a direction
_LINE_REACH: Final = 400


def _matcher(*names: str) -> Callable[[str], bool]:
    pattern = re.compile(f"[{char_class(*(_GROUPS[name] for name in names))}]")
    return lambda char: pattern.match(char) is not None


_joins = _matcher("joining")
_unspaced = _matcher("unspaced")
_right_to_left = _matcher("right_to_left")
_pictograph = _matcher("pictographs")
_presentable = _matcher("pictographs", "presentable")
_ideograph = _matcher("ideographs")
_has_variants = _matcher("ideographs", "standard_variants")
_mongolian = _matcher("mongolian")
_khmer = _matcher("khmer")
_leading = _matcher("hangul_leading")
_vowel = _matcher("hangul_vowel")
_combining = _matcher("combining")
_shorthand = _matcher("shorthand")
_musical = _matcher("musical")


def strip_invisibles(text: str) -> tuple[str, dict[str, int]]:
    """Remove invisible characters that mean nothing where they stand; lone surrogates become U+FFFD."""
    others = without_ascii(text)
    if not _RUN.search(others) and not _LONE.search(others):
        return text, {}
    text, surrogates = _LONE.subn(_REPLACEMENT, text)
    counts: Counter[str] = Counter({SURROGATE: surrogates} if surrogates else {})
    counts.update(kinds_of(text, plain := _PLAIN if _RIGHT_TO_LEFT.search(others) else _PLAIN_LEFT_TO_RIGHT))
    text = plain.sub("", text)
    parts = _RUN.split(text)
    judged: dict[tuple[str, str, str], str] = {}  # a run is judged once for the same neighbours, unless it may direct
    for place in range(1, len(parts), 2):
        run = parts[place]
        around = parts[place - 1][-1:], run, parts[place + 1][:1]
        rest = judged.get(around)
        if rest is None:
            rest = _keep_meaningful(parts, place)
            if _DIRECTION.isdisjoint(run) or _right_to_left(around[0]):
                judged[around] = rest
        if rest != run:
            counts.update(_KIND_OF[char] for char in run)
            counts.subtract(_KIND_OF[char] for char in rest)
            parts[place] = rest
    return "".join(parts), {kind: count for kind, count in counts.items() if count}


def kinds_of(text: str, pattern: re.Pattern[str]) -> Counter[str]:
    """Count the characters of each kind that the pattern matches."""
    kinds: Counter[str] = Counter()
    for char, count in Counter("".join(pattern.findall(text))).items():
        kinds[_KIND_OF[char]] += count
    return kinds


def _keep_meaningful(parts: list[str], place: int) -> str:
    """Return the part of one run that stays. The rule for each character does not depend on the removed ones."""
    before, run, after = parts[place - 1][-1:], parts[place], parts[place + 1][:1]
    flag = _FLAG_TAGS.match(run) if before == _BLACK_FLAG else None
    start = flag.end() if flag else 0
    chars = [flag[0]] if flag else []
    for char in dict.fromkeys(run[start:]):  # a mark that is repeated in one place adds no meaning
        selects = char == run[0] and _selects(char, before, after)
        shapes = char in _SHAPING and _SHAPING[char](before, after)
        if selects or shapes or (char in _DIRECTION and _directs(parts, place)):
            chars.append(char)
    return "".join(chars)


def _selects(char: str, before: str, after: str) -> bool:
    """Is this a variation selector that belongs to the character before it?"""
    point = ord(char)
    if char in "\ufe0e\ufe0f":
        return _presentable(before) or (before in tuple("0123456789#*") and after == _KEYCAP)
    if 0xFE00 <= point <= 0xFE06:
        return _has_variants(before) or (before == "0" and point == 0xFE00)
    if 0xE0100 <= point <= 0xE011F:  # registered ideographic variants reach no higher; ASCII smuggling starts above
        return _ideograph(before)
    return point in (0x180B, 0x180C, 0x180D, 0x180F) and _mongolian(before)


# Does this joiner, filler or format character shape the letters next to it?
_SHAPING: Final[dict[str, Callable[[str, str], bool]]] = {
    "\u200d": lambda a, b: (_pictograph(a) and _pictograph(b)) or _joins(a) or _joins(b),
    "\u200c": lambda a, b: _joins(a) or _joins(b),
    "\u200b": lambda a, b: _unspaced(a) or _unspaced(b),
    "\u180e": lambda a, b: _mongolian(a) and _mongolian(b),
    "\u034f": lambda a, b: _combining(b) and (_combining(a) or _right_to_left(a)),
    "\u115f": lambda a, b: _vowel(b),
    "\u1160": lambda a, b: _leading(a),
    **dict.fromkeys("\u17b4\u17b5", lambda a, b: _khmer(a)),
    **dict.fromkeys(map(chr, range(0x1BCA0, 0x1BCA4)), lambda a, b: _shorthand(a) and _shorthand(b)),
    **dict.fromkeys(map(chr, range(0x1D173, 0x1D17B)), lambda a, b: _musical(a) or _musical(b)),
}


def _directs(parts: list[str], place: int) -> bool:
    """Does a direction mark have an effect here: is the nearest letter on a side, or the line it opens or ends, RTL?"""
    for step in (-1, 1):
        for char in islice(_walk(parts, place, step), _REACH):
            if _right_to_left(char):
                return True
            if char.isalpha() or char == "\n":
                break
    before, after = parts[place - 1][-1:], parts[place + 1][:1]
    return (before in ("", "\n") and _line_is_right_to_left(parts, place, 1)) or (
        after in ("", "\n", "\r") and _line_is_right_to_left(parts, place, -1)
    )


def _line_is_right_to_left(parts: list[str], place: int, step: int) -> bool:
    for char in islice(_walk(parts, place, step), _LINE_REACH):
        if char == "\n":
            return False
        if _right_to_left(char):
            return True
    return False


def _walk(parts: list[str], place: int, step: int) -> Iterator[str]:
    """Yield the visible characters from a run outward."""
    at = place + step
    while 0 <= at < len(parts):
        segment = parts[at]
        yield from reversed(segment) if step < 0 else segment
        at += 2 * step


# Lone surrogates in the bytes of JSON, before a reader that would refuse the whole message for one of them

_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
# An escape that more bytes may complete, or make a pair.
_OPEN_ESCAPE: Final = re.compile(rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
_LONGEST_ESCAPE: Final = 12


class SurrogateFilter:
    """Writes lone surrogates as U+FFFD in JSON that comes in chunks. All other bytes stay as they are."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that are complete; an escape at the end waits for its other bytes."""
        if not self._rest and b"\\" not in chunk:
            return chunk
        data = self._rest + chunk
        self._rest = b""
        if b"\\" in data[-_LONGEST_ESCAPE:]:
            data, self._rest = self._split(data)
        return replace_surrogates(data)

    def flush(self) -> bytes:
        """Return what still waits, at the end of the JSON."""
        rest, self._rest = self._rest, b""
        return replace_surrogates(rest)

    @staticmethod
    def _split(data: bytes) -> tuple[bytes, bytes]:
        """Split before an open escape at the end. Of the backslashes in a row, each second one is not an escape's."""
        start = data.index(b"\\", max(len(data) - _LONGEST_ESCAPE, 0))
        start -= len(data[:start]) - len(data[:start].rstrip(b"\\"))
        for match in _ESCAPE.finditer(data, start):
            if _OPEN_ESCAPE.match(data, match.start()):
                break
            start = match.end()
        open_escape = _OPEN_ESCAPE.search(data, start)
        end = len(data) if open_escape is None else open_escape.start()
        return data[:end], data[end:]


def replace_surrogates(data: bytes) -> bytes:
    """Return a whole JSON text with its lone surrogates as U+FFFD."""
    if not _ESCAPED_SURROGATE.search(data):
        return data
    return _ESCAPE.sub(lambda match: match[0] if match[1] is None else rb"\ufffd", data)
