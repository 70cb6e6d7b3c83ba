"""Invisible and smuggling characters. In: a string without controls. Out: the string without them, and counts. Pure.

A run of invisible characters is judged by the visible characters round it, which no rule here removes: what is kept
once is therefore kept again. Joiners, selectors and marks stay exactly where their script or emoji gives them meaning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from leafgate.firewall import codepoints as cp

SURROGATE: Final = "surrogate"
_REPLACEMENT: Final = "\ufffd"

# kind -> its characters; the kinds are what `removed` lists
_KINDS: Final[dict[str, cp.Ranges]] = {
    "tag": ((0xE0000, 0xE007F),),
    "variation-selector": ((0x180B, 0x180D), (0x180F, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF)),
    "zero-width": ((0x180E, 0x180E), (0x200B, 0x200D), (0x2060, 0x2060), (0xFEFF, 0xFEFF)),
    "bidi": ((0x061C, 0x061C), (0x200E, 0x200F), (0x202A, 0x202E), (0x2066, 0x2069)),
    "filler": ((0x115F, 0x1160), (0x17B4, 0x17B5), (0x3164, 0x3164), (0xFFA0, 0xFFA0)),
    "soft-hyphen": ((0x00AD, 0x00AD),),
    "noncharacter": cp.NONCHARACTERS,
    "invisible": (
        (0x034F, 0x034F),
        (0x2061, 0x2065),
        (0x206A, 0x206F),
        (0xFFF0, 0xFFFB),
        (0x1BCA0, 0x1BCA3),
        (0x1D173, 0x1D17A),
        (0xE0080, 0xE00FF),
        (0xE01F0, 0xE0FFF),
    ),
}
INVISIBLE: Final[cp.Ranges] = tuple(item for group in _KINDS.values() for item in group)

_KIND_OF: Final[dict[str, str]] = {
    chr(point): kind for kind, group in _KINDS.items() for low, high in group for point in range(low, high + 1)
}
_RUN: Final = re.compile(f"([{cp.char_class(INVISIBLE)}]+)")
# Between ASCII characters, or at an end, nothing has meaning but a mark of direction, and VS1 on a zero. A shortcut:
# the rules below would say the same of each such run, only more slowly.
_DIRECTION: Final = frozenset("\u061c\u200e\u200f")
_PLAIN_CLASS: Final = cp.char_class(cp.without(INVISIBLE, {0xFE00, *map(ord, _DIRECTION)}))
_PLAIN: Final = re.compile(f"(?<![^\\x00-\\x7f])[{_PLAIN_CLASS}]+(?![^\\x00-\\x7f])")
_PLAIN_LEFT_TO_RIGHT: Final = re.compile(
    f"(?<![^\\x00-\\x7f])[{_PLAIN_CLASS}{''.join(sorted(_DIRECTION))}]+(?![^\\x00-\\x7f])"
)
_RIGHT_TO_LEFT: Final = re.compile(f"[{cp.char_class(cp.RIGHT_TO_LEFT)}]")
_LONE: Final = re.compile("[\ud800-\udfff]")
# The flags that exist (England, Scotland, Wales, ...): a free choice of letters would be a channel of its own.
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
_REACH: Final = 32  # visible characters looked at, each way, for a letter that has a direction
_LINE_REACH: Final = 400


def _matcher(*groups: cp.Ranges) -> Callable[[str], bool]:
    pattern = re.compile(f"[{cp.char_class(*groups)}]")
    return lambda char: pattern.match(char) is not None


_joins = _matcher(cp.JOINING)
_unspaced = _matcher(cp.UNSPACED)
_right_to_left = _matcher(cp.RIGHT_TO_LEFT)
_pictograph = _matcher(cp.PICTOGRAPHS)
_presentable = _matcher(cp.PRESENTABLE)
_ideograph = _matcher(cp.IDEOGRAPHS)
_has_variants = _matcher(cp.STANDARD_VARIANTS)
_mongolian = _matcher(cp.MONGOLIAN)
_khmer = _matcher(cp.KHMER)
_leading = _matcher(cp.HANGUL_LEADING)
_vowel = _matcher(cp.HANGUL_VOWEL)
_combining = _matcher(cp.COMBINING)
_shorthand = _matcher(cp.SHORTHAND)
_musical = _matcher(cp.MUSICAL)


def strip_invisibles(text: str) -> tuple[str, dict[str, int]]:
    """The text without invisible characters that mean nothing where they stand; lone surrogates become U+FFFD."""
    if not _RUN.search(text) and not _LONE.search(text):
        return text, {}
    text, surrogates = _LONE.subn(_REPLACEMENT, text)
    counts: Counter[str] = Counter({SURROGATE: surrogates} if surrogates else {})
    counts.update(kinds_of(text, plain := _PLAIN if _RIGHT_TO_LEFT.search(text) else _PLAIN_LEFT_TO_RIGHT))
    text = plain.sub("", text)
    parts = _RUN.split(text)
    for place in range(1, len(parts), 2):
        run = parts[place]
        kept = _meaningful(parts, place)
        if kept != run:
            counts.update(_KIND_OF[char] for char in run)
            counts.subtract(_KIND_OF[char] for char in kept)
            parts[place] = kept
    return "".join(parts), {kind: count for kind, count in counts.items() if count}


def kinds_of(text: str, pattern: re.Pattern[str]) -> Counter[str]:
    """How many characters of each kind the pattern finds."""
    kinds: Counter[str] = Counter()
    for char, count in Counter("".join(pattern.findall(text))).items():
        kinds[_KIND_OF[char]] += count
    return kinds


def _meaningful(parts: list[str], place: int) -> str:
    """The part of one run that stays. Each kept character stays by a rule that does not see the dropped ones."""
    before, run, after = parts[place - 1][-1:], parts[place], parts[place + 1][:1]
    flag = _FLAG_TAGS.match(run) if before == _BLACK_FLAG else None
    start = flag.end() if flag else 0
    kept = [flag[0]] if flag else []
    for char in dict.fromkeys(run[start:]):  # a mark said twice in one place says nothing more
        selects = char == run[0] and _selects(char, before, after)
        if selects or _shapes(char, before, after) or (char in _DIRECTION and _directs(parts, place)):
            kept.append(char)
    return "".join(kept)


def _selects(char: str, before: str, after: str) -> bool:
    """Is this a variation selector that the character before it takes?"""
    point = ord(char)
    if char in "\ufe0e\ufe0f":
        return _presentable(before) or (before in tuple("0123456789#*") and after == _KEYCAP)
    if 0xFE00 <= point <= 0xFE06:
        return _has_variants(before) or (before == "0" and point == 0xFE00)
    if 0xE0100 <= point <= 0xE011F:  # registered ideographic variants reach no higher; ASCII smuggling starts above
        return _ideograph(before)
    return point in (0x180B, 0x180C, 0x180D, 0x180F) and _mongolian(before)


def _shapes(char: str, before: str, after: str) -> bool:
    """Does this joiner, filler or format character shape the letters next to it?"""
    rule = _SHAPING.get(char)
    return rule is not None and rule(before, after)


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
    """Has a direction mark work to do here: is the nearest letter on a side, or the line it opens or ends, RTL?"""
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
    """The visible characters from a run outward."""
    at = place + step
    while 0 <= at < len(parts):
        segment = parts[at]
        yield from reversed(segment) if step < 0 else segment
        at += 2 * step
