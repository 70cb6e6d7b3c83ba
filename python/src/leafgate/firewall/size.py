"""How large a text is. In: a text, a counter, a budget. Out: a Size. Touches nothing.

Counting a megabyte of tokens takes longer than all the rest of the firewall, and it is known to be too large after a
few kilobytes. So a short text is counted, a long one is estimated from samples, and the estimate is marked as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from leafgate.firewall.fit import Count

EXACT_CHARS: Final = 32_768
EXACT_ON_DEMAND: Final = 16 * 1024 * 1024
_CHUNK: Final = 4_096
_SAMPLES: Final = 16
_SAMPLE: Final = 320


@dataclass(frozen=True)
class Size:
    """The measures of a text."""

    bytes: int
    lines: int
    tokens: int
    estimated: bool = False

    def __str__(self) -> str:
        about = "about " if self.estimated else ""
        return f"{self.bytes} bytes, {about}{self.tokens} tokens, {self.lines} line{'' if self.lines == 1 else 's'}"


def count_lines(text: str) -> int:
    """Lines end with a line feed; the last one need not."""
    return text.count("\n") + (not text.endswith("\n") if text else 0)


def weigh(text: str, count: Count, budget: int) -> Size:
    """The size of a text. Its tokens are exact up to EXACT_CHARS; beyond, exact enough to know that they fit."""
    size, lines = _bytes(text), count_lines(text)
    if len(text) <= EXACT_CHARS:
        return Size(size, lines, count(text))
    counted = 0
    for chunk in _chunks(text, _CHUNK):
        counted += count(chunk)
        if counted > budget:
            return Size(size, lines, max(counted, _estimate(text, count)), estimated=True)
    return Size(size, lines, counted, estimated=True)


def weigh_exactly(text: str, count: Count) -> Size:
    """The size with all tokens counted, as far as that is bearable; slow for a large text."""
    if len(text) > EXACT_ON_DEMAND:
        return Size(_bytes(text), count_lines(text), _estimate(text, count), estimated=True)
    return Size(_bytes(text), count_lines(text), count(text))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _chunks(text: str, size: int) -> Iterator[str]:
    """Pieces that end with lines, where lines are not too long."""
    at = 0
    while at < len(text):
        end = text.rfind("\n", at, at + size) + 1
        end = end if end > at else min(at + size, len(text))
        yield text[at:end]
        at = end


def _estimate(text: str, count: Count) -> int:
    step = len(text) // _SAMPLES
    samples = [text[at * step : at * step + _SAMPLE] for at in range(_SAMPLES)]
    counted = sum(map(count, samples))
    return max(1, int(round(counted * len(text) / sum(map(len, samples)), -2)))
