"""Corrects words the catalog does not know. In: a word, known words. Out: likely meant ones. May touch: nothing.

A correct but unknown word is left to meaning: turning `throttled` into the nearest catalog word would only mislead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

MIN_LENGTH: Final = 4
MAX_LENGTH: Final = 24
_LETTERS: Final = 26


@dataclass(frozen=True)
class Correction:
    word: int
    closeness: float  # 1 is the word itself


@dataclass(frozen=True)
class SpellingIndex:
    """The catalog's words as counts of letters: two words that differ much there cannot be a few edits apart."""

    words: tuple[str, ...]
    numbers: NDArray[np.int32]
    letters: NDArray[np.int8]
    prominence: NDArray[np.float32]  # breaks ties between equally near words

    def correct(self, word: str, known: Callable[[str], bool]) -> list[Correction]:
        """The nearest words, best first; none for a short word, a known one, or when nothing is near."""
        if not MIN_LENGTH <= len(word) <= MAX_LENGTH or not (word.isascii() and word.isalpha()) or known(word):
            return []
        reach = 1 if len(word) < 6 else 2
        apart = np.abs(self.letters - _letters(word)).sum(axis=1, dtype=np.int16)
        near: list[tuple[float, float, int]] = []
        for place in np.flatnonzero(apart <= 2 * reach).tolist():
            candidate = self.words[place]
            if abs(len(candidate) - len(word)) > reach:
                continue
            distance = edits(word, candidate, reach)
            if distance <= reach:
                cost = distance + (0.5 if candidate[0] != word[0] else 0.0)
                near.append((cost, -float(self.prominence[place]), place))
        near.sort()
        best = near[0][0] if near else 0.0
        return [Correction(int(self.numbers[place]), 1.0 - 0.15 * cost) for cost, _, place in near[:3] if cost == best]


def build_spelling(words: Sequence[str], prominence: NDArray[np.float32]) -> SpellingIndex:
    fit = [
        number
        for number, word in enumerate(words)
        if 3 <= len(word) <= MAX_LENGTH + 2 and word.isascii() and word.isalpha()
    ]
    letters = np.array([_letters(words[n]) for n in fit], np.int8).reshape(len(fit), _LETTERS)
    return SpellingIndex(tuple(words[n] for n in fit), np.array(fit, np.int32), letters, prominence[fit])


def edits(a: str, b: str, reach: int) -> int:
    """Insertions, deletions, changes and swaps of neighbours between two words; reach + 1 when there are more."""
    a, b = _without_common_ends(a, b)
    if abs(len(a) - len(b)) > reach:
        return reach + 1
    if not a or not b:
        return len(a) + len(b)
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        older, before = before, row
        # Only within the reach of the diagonal: what lies further off has more edits already.
        row = [reach + 1] * (len(b) + 1)
        row[0] = i
        for j in range(max(1, i - reach), min(len(b), i + reach) + 1):
            y = b[j - 1]
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                cost = min(cost, older[j - 2] + 1)
            row[j] = cost
        if min(row) > reach:
            return reach + 1
    return min(row[-1], reach + 1)


def _without_common_ends(a: str, b: str) -> tuple[str, str]:
    start, most = 0, min(len(a), len(b))
    while start < most and a[start] == b[start]:
        start += 1
    end = 0
    while end < most - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return a[start : len(a) - end], b[start : len(b) - end]


def _letters(word: str) -> NDArray[np.int8]:
    return np.bincount(np.frombuffer(word.encode("ascii"), np.uint8) - 97, minlength=_LETTERS).astype(np.int8)
