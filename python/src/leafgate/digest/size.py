"""The size of texts in tokens: measure a text, and cut it to what fits, at a border if one is near.

Whether a cut text fits is always counted, never estimated. Only the reported size of a long text may be an estimate:
counting a megabyte of tokens takes longer than the whole digest, and a few kilobytes show that it is too large.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from leafgate.model.errors import TextError

Count = Callable[[str], int]

# No token of a map in use spells more bytes than this: a text of n bytes has at least n / LONGEST_TOKEN tokens.
LONGEST_TOKEN: Final = 128
EXACT_CHARS: Final = 32_768
EXACT_ON_DEMAND: Final = 16 * 1024 * 1024
_CHARS_PER_TOKEN: Final = 6  # characters examined per token of room; prose has about four
_BORDER_SHARE: Final = 0.6  # a cut at a good border keeps at least this share of what fits
_CHUNK: Final = 4_096
_SAMPLES: Final = 16
_SAMPLE: Final = 320
_SENTENCE_END: Final = re.compile(r"[.!?][\"')\]]*(?=\s)|[。！？]|\n")
_SPACE: Final = re.compile(r"\s")


def total(count: Count) -> Count:
    """Return a counter for any text: one without a tokenization counts as its bytes, which is never too few."""

    def count_any(text: str) -> int:
        try:
            return count(text)
        except TextError:
            return len(text.encode("utf-8", "replace"))

    return count_any


def most(fits: Callable[[int], bool], upper: int, first: int = 1) -> int:
    """Return the largest n up to `upper` that fits, by doubling and halving; 0 if 1 does not fit."""
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
    """Return the beginning of a text that fits, ended at a sentence, a line or a word."""
    if room <= 0:
        return ""
    window = text[: room * _CHARS_PER_TOKEN]
    size = most(lambda n: count(window[:n]) <= room, len(window), room * 3)
    if size == len(text):
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(window, int(size * _BORDER_SHARE), size)]
    if not ends:
        ends = [match.start() for match in _SPACE.finditer(window, int(size * _BORDER_SHARE), size)]
    return window[: ends[-1]] if ends else _trim_marks(window[:size])


def tail_of(text: str, count: Count, room: int) -> str:
    """Return the end of a text that fits, begun at a sentence, a line or a word."""
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
    """Return the line in at most `longest` characters."""
    return line if len(line) <= longest else _trim_marks(line[: longest - 1]) + "…"


def _trim_marks(text: str) -> str:
    """Remove joiners and combining marks from the end: the character that they modify may be cut off."""
    while text and ("\u0300" <= text[-1] <= "\u036f" or text[-1] in "\u200d\ufe0f"):
        text = text[:-1]
    return text


@dataclass(frozen=True)
class Size:
    bytes: int
    lines: int
    tokens: int
    estimated: bool = False

    def __str__(self) -> str:
        about = "about " if self.estimated else ""
        return f"{self.bytes} bytes, {about}{self.tokens} tokens, {self.lines} line{'' if self.lines == 1 else 's'}"


def count_lines(text: str) -> int:
    """Count the lines. A line ends with a line feed; the last one may lack it."""
    return text.count("\n") + (not text.endswith("\n") if text else 0)


def weigh(text: str, count: Count, budget: int) -> Size:
    """Return the size of a text. Tokens are exact up to EXACT_CHARS; beyond, exact enough to see whether they fit."""
    size, lines = _bytes(text), count_lines(text)
    if len(text) <= EXACT_CHARS:
        return Size(size, lines, count(text))
    tokens = 0
    for chunk in _chunks(text, _CHUNK):
        tokens += count(chunk)
        if tokens > budget:
            return Size(size, lines, max(tokens, _estimate(text, count)), estimated=True)
    return Size(size, lines, tokens, estimated=True)


def weigh_exactly(text: str, count: Count) -> Size:
    """Return the size with all tokens counted, up to EXACT_ON_DEMAND characters; slow for a large text."""
    if len(text) > EXACT_ON_DEMAND:
        return Size(_bytes(text), count_lines(text), _estimate(text, count), estimated=True)
    return Size(_bytes(text), count_lines(text), count(text))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _chunks(text: str, size: int) -> Iterator[str]:
    """Yield pieces of at most `size` characters that end at line ends where possible."""
    at = 0
    while at < len(text):
        end = text.rfind("\n", at, at + size) + 1
        end = end if end > at else min(at + size, len(text))
        yield text[at:end]
        at = end


def _estimate(text: str, count: Count) -> int:
    step = len(text) // _SAMPLES
    samples = [text[at * step : at * step + _SAMPLE] for at in range(_SAMPLES)]
    tokens = sum(map(count, samples))
    return max(1, int(round(tokens * len(text) / sum(map(len, samples)), -2)))
