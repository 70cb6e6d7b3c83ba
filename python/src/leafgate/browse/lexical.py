"""Ranks by words: BM25 over weighted fields. In: words per item and field. Out: one score per item. May touch: nothing.

Every posting holds its finished weight, so a query only adds up a few slices of one array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from leafgate.browse.item_text import FIELDS, ItemText
from leafgate.browse.words import stem

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

#                     name title summ. det. params ptexts server tags
WEIGHTS: Final = np.array((2.5, 2.0, 2.0, 0.5, 0.5, 0.4, 2.0, 1.0), np.float32)
LENGTH: Final = np.array((0.5, 0.5, 0.4, 0.6, 0.6, 0.6, 0.0, 0.3), np.float32)
SATURATION: Final = 0.8


@dataclass(frozen=True)
class Entries:
    """The words of items, counted: entry i says that `word[i]` stands `count[i]` times in `field[i]`."""

    word: Ints
    field: NDArray[np.uint8]
    count: NDArray[np.uint8]
    bounds: Ints  # entries of item k are bounds[k]:bounds[k+1]


@dataclass(frozen=True)
class LexicalIndex:
    """Postings of term t: items[bounds[t]:bounds[t+1]], with weights in the same places."""

    words: tuple[str, ...]  # as spelt in the catalog
    term_of_word: Ints
    items: Ints
    weights: Floats
    bounds: Ints
    rarity: Floats  # inverse document frequency per term
    size: int
    word_ids: Mapping[str, int] = field(repr=False)
    term_ids: Mapping[str, int] = field(repr=False)

    @property
    def rarest(self) -> float:
        """The weight of a word that no item has."""
        return float(np.log1p((self.size + 0.5) / 0.5))

    def score(self, terms: Mapping[int, float]) -> Floats:
        """Sum of the weights of the given terms, per item."""
        scores = np.zeros(self.size, np.float32)
        for term, weight in terms.items():
            span = slice(self.bounds[term], self.bounds[term + 1])
            scores[self.items[span]] += self.weights[span] * np.float32(weight)
        return scores


class WordNumbers(dict[str, int]):
    """Numbers words in the order in which they are first asked for."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def count_words(texts: Sequence[ItemText], numbers: WordNumbers) -> Entries:
    """Counts the words of every field; new words are numbered, in a table that is the caller's to keep."""
    flat: list[int] = []
    lengths: list[int] = []
    for text in texts:
        for words in text.fields:
            flat.extend(map(numbers.__getitem__, words))
            lengths.append(len(words))
    place = np.repeat(np.arange(len(lengths), dtype=np.int64), np.array(lengths, np.int64))
    key, count = np.unique(place * max(len(numbers), 1) + np.array(flat, np.int64), return_counts=True)
    place, word = np.divmod(key, max(len(numbers), 1))
    item, field_number = np.divmod(place, len(FIELDS))
    return Entries(
        word=word.astype(np.int32),
        field=field_number.astype(np.uint8),
        count=np.minimum(count, 255).astype(np.uint8),
        bounds=np.searchsorted(item, np.arange(len(texts) + 1)).astype(np.int32),
    )


def build_lexical(entries: Entries, words: Sequence[str]) -> LexicalIndex:
    size = len(entries.bounds) - 1
    stems: dict[str, int] = {}
    term_of_word = np.array([stems.setdefault(stem(word), len(stems)) for word in words], np.int32)
    item = np.repeat(np.arange(size, dtype=np.int64), np.diff(entries.bounds))
    strength = _field_strength(entries, item, size)
    key = term_of_word[entries.word].astype(np.int64) * max(size, 1) + item if len(item) else item
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    summed = np.add.reduceat(strength[order], first) if len(first) else np.zeros(0, np.float32)
    term, posting_items = np.divmod(key[first], max(size, 1))
    bounds = np.searchsorted(term, np.arange(len(stems) + 1)).astype(np.int32)
    frequency = np.diff(bounds)
    rarity = np.log1p((size - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)
    weights = (rarity[term] * summed / (summed + SATURATION)).astype(np.float32)
    return LexicalIndex(
        words=tuple(words),
        term_of_word=term_of_word,
        items=posting_items.astype(np.int32),
        weights=weights,
        bounds=bounds,
        rarity=rarity,
        size=size,
        word_ids={word: number for number, word in enumerate(words)},
        term_ids=stems,
    )


def _field_strength(entries: Entries, item: NDArray[np.int64], size: int) -> Floats:
    """Each entry's share: the field's weight, its count, and less of it in a field longer than usual."""
    place = item * len(FIELDS) + entries.field
    lengths = np.bincount(place, weights=entries.count, minlength=size * len(FIELDS)).reshape(size, len(FIELDS))
    filled = np.maximum((lengths > 0).sum(axis=0), 1)
    usual = np.maximum(lengths.sum(axis=0) / filled, 1.0)
    norm = (1 - LENGTH) + LENGTH * (lengths / usual)
    strength = WEIGHTS[entries.field] * entries.count / norm.reshape(-1)[place]
    return np.asarray(strength, np.float32)
