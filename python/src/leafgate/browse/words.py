"""Words: split text into words, reduce words to stems, and correct the spelling of unknown words.

Index and query use the same functions, so that both have the same words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import Stemmer  # type: ignore[import-not-found]  # compiled, and without types
from numpy.typing import NDArray

MAX_WORD: Final = 40  # longer runs are encoded data, not words
MIN_LENGTH: Final = 4
MAX_LENGTH: Final = 24
_LETTERS: Final = 26

_RUN: Final = re.compile(r"[^\W_]+")
_PIECES: Final = re.compile(r"[^\W\d_]+|\d+")
_HUMPS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_STEMMER: Final = Stemmer.Stemmer("english", 0)  # without a cache: `stem` has one


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the Snowball English stem; a number, or a word of another script, is its own stem."""
    if len(word) < 3 or not word.isascii() or word.isdigit():
        return word
    result: str = _STEMMER.stemWord(word)
    return result


@lru_cache(maxsize=1 << 16)
def identifier_run(run: str) -> tuple[str, ...]:
    """Split a name: `getFileContents` -> getfilecontents, get, file, contents; `base64` -> base64, base, 64."""
    if len(run) > MAX_WORD:
        return ()
    whole = run.lower()
    parts = [hump.lower() for piece in _PIECES.findall(run) for hump in _humps(piece)]
    return (whole,) if len(parts) < 2 else (whole, *parts)


@lru_cache(maxsize=1 << 16)
def prose_run(run: str) -> tuple[str, ...]:
    """Split a word of prose: `GitHub` is one word (it is not a kind of git), while `pageId` is still two."""
    if len(run) > MAX_WORD:
        return ()
    if run.islower() or run.isdigit() or run.isupper() or run[0].isupper():
        return (run.lower(),)
    return identifier_run(run)


@lru_cache(maxsize=1 << 16)
def _unnumbered(run: str) -> tuple[str, ...]:
    return () if run.isdigit() else prose_run(run)


def identifier_words(text: str) -> list[str]:
    """Return the words of a name, split at separators, at case and at digits."""
    return [word for run in _RUN.findall(text) for word in identifier_run(run)]


def prose_words(text: str) -> list[str]:
    """Return the words of a sentence without numbers, which are sizes and defaults and match any argument."""
    return [word for run in _RUN.findall(text) for word in _unnumbered(run)]


def all_words(text: str) -> list[str]:
    """Return the words and numbers of a sentence: a text about an invoice is searched by its number."""
    return [word for run in _RUN.findall(text) for word in prose_run(run)]


def _humps(piece: str) -> list[str]:
    if piece.islower() or piece.isupper() or piece.isdigit() or not piece.isascii():
        return [piece]
    return _HUMPS.findall(piece)


# Spelling. A correct word that the catalog lacks is not changed, only compared by meaning: turning `throttled` into
# the nearest word of the catalog would mislead.


@dataclass(frozen=True)
class Correction:
    word: int
    closeness: float  # 1 is the word itself


@dataclass(frozen=True)
class SpellingIndex:
    """The catalog's words as counts of letters: words with very different counts cannot be a few edits apart."""

    words: tuple[str, ...]
    numbers: NDArray[np.int32]
    letters: NDArray[np.int8]
    prominence: NDArray[np.float32]  # breaks ties between equally near words

    def correct(self, word: str, is_word: Callable[[str], bool]) -> list[Correction]:
        """Return the nearest words, best first; none for a short or correct word, or if no word is near."""
        if not MIN_LENGTH <= len(word) <= MAX_LENGTH or not (word.isascii() and word.isalpha()) or is_word(word):
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
    """Count insertions, deletions, changes and swaps of neighbours between two words; reach + 1 if there are more."""
    a, b = _without_common_ends(a, b)
    if abs(len(a) - len(b)) > reach:
        return reach + 1
    if not a or not b:
        return len(a) + len(b)
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        older, before = before, row
        # Only within the reach of the diagonal: other cells have more edits already.
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
