"""Cuts texts to tokens. In: a text, a counter, a number of tokens. Out: as much as fits, at a border if one is near.

Touches nothing. Every answer was counted: no estimate decides what fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from leafgate.model.errors import TextError

Count = Callable[[str], int]

# No token of a map in use spells more bytes than this: a text of n bytes has at least n / LONGEST_TOKEN tokens.
LONGEST_TOKEN: Final = 128
_CHARS_PER_TOKEN: Final = 6  # characters looked at per token of room; prose has about four
_BORDER_SHARE: Final = 0.6  # of what fits, a nicer border may cost the rest
_SENTENCE_END: Final = re.compile(r"[.!?][\"')\]]*(?=\s)|[。！？]|\n")
_SPACE: Final = re.compile(r"\s")


def total(count: Count) -> Count:
    """The counter, for any text: one that has no tokenization counts as its bytes, which is never too few."""

    def counted(text: str) -> int:
        try:
            return count(text)
        except TextError:
            return len(text.encode("utf-8", "replace"))

    return counted


def most(fits: Callable[[int], bool], upper: int, first: int = 1) -> int:
    """The largest n up to `upper` that fits, found by doubling and halving; 0 if 1 does not."""
    low, high = 0, upper + 1
    step = max(1, min(first, upper))
    while low + 1 < high:
        if fits(step):
            low = step
            step = min(step * 2, (low + high) // 2) if high <= upper else min(step * 2, upper)
        else:
            high = step
            step = (low + high) // 2
        if step <= low:
            step = low + 1
    return low


def head_of(text: str, count: Count, room: int) -> str:
    """The beginning of a text, ended at a sentence, a line or a word."""
    if room <= 0:
        return ""
    window = text[: room * _CHARS_PER_TOKEN]
    size = most(lambda n: count(window[:n]) <= room, len(window), room * 3)
    if size == len(text):
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(window, int(size * _BORDER_SHARE), size)]
    if not ends:
        ends = [match.start() for match in _SPACE.finditer(window, int(size * _BORDER_SHARE), size)]
    return window[: ends[-1]] if ends else _sound(window[:size])


def tail_of(text: str, count: Count, room: int) -> str:
    """The end of a text, begun at a sentence, a line or a word."""
    if room <= 0:
        return ""
    window = text[-room * _CHARS_PER_TOKEN :]
    size = most(lambda n: count(window[len(window) - n :]) <= room, len(window), room * 3)
    if size == len(text):
        return text
    start = len(window) - size
    border = _SENTENCE_END.search(window, start, start + int(size * (1 - _BORDER_SHARE)))
    border = border or _SPACE.search(window, start, start + int(size * (1 - _BORDER_SHARE)))
    return window[border.end() if border else start :]


def cut_line(line: str, longest: int) -> str:
    """A line of at most so many characters."""
    return line if len(line) <= longest else _sound(line[: longest - 1]) + "…"


def _sound(text: str) -> str:
    """Not ended inside a character that is joined or modified: those marks would be left alone on the other side."""
    while text and ("\u0300" <= text[-1] <= "\u036f" or text[-1] in "\u200d\ufe0f"):
        text = text[:-1]
    return text
