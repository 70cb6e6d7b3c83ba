"""Ranks a session's texts for a query with the parts that rank tools. In: texts, a query. Out: relevance, 0 to 1.

Touches the bundled model, once. Nothing is done before the first query; a session of fifty thousand events is then
ranked in a fraction of a second. Meaning is compared only where words or age make a text a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from leafgate.browse.fuse import fuse, lexical_share
from leafgate.browse.lexical import LexicalIndex, build_lexical
from leafgate.browse.meaning import Embedder
from leafgate.browse.model_file import bundled_embedder
from leafgate.browse.query import parse_search
from leafgate.browse.reading import english, read_query
from leafgate.browse.spelling import SpellingIndex, build_spelling
from leafgate.embed.session_words import SessionWords

Floats = NDArray[np.float32]

MOST_CHARS: Final = 2_000  # of a text; what it is about stands at its beginning
MOST_COMPARED: Final = 1_024  # texts whose meaning is compared with the query's


class SessionRanker:
    """Texts made searchable, in the order in which they came. Grows; a place may get another text."""

    def __init__(self) -> None:
        bundled = bundled_embedder()
        self._embedder: Embedder | None = bundled
        self._is_word = english(bundled.pieces.__contains__ if bundled else lambda _: False)
        self._texts: list[str] = []
        self._words = SessionWords()
        self._vectors: dict[int, Floats] = {}
        self._index: tuple[LexicalIndex, SpellingIndex] | None = None

    def put(self, place: int, text: str) -> None:
        """Takes in the text of a place: the next one, or one that is there already."""
        start = text[:MOST_CHARS]
        self._words.put(place, start)
        if place == len(self._texts):
            self._texts.append(start)
        else:
            self._texts[place] = start
            self._vectors.pop(place, None)
        self._index = None

    def relevance(self, query: str) -> Floats:
        """One number per text. Without words in the query, nothing is relevant."""
        size = len(self._texts)
        parsed = parse_search(query)
        if not size or not any(word.tells for word in parsed.words):
            return np.zeros(size, np.float32)
        lexical, spelling = self._indexed()
        reading = read_query(parsed, lexical, spelling, self._is_word)
        share = lexical_share(lexical.score(reading.terms), reading.asked)
        if self._embedder is None:
            return share
        near = self._candidates(share)
        similarity = np.zeros(size, np.float32)
        similarity[near] = np.einsum("ij,j->i", self._meanings(near), self._embedder.embed([reading.spoken])[0])
        return fuse(share, similarity)

    def _indexed(self) -> tuple[LexicalIndex, SpellingIndex]:
        if self._index is None:
            entries = self._words.entries()
            lexical = build_lexical(entries, self._words.words)
            prominence = np.diff(lexical.bounds)[lexical.term_of_word].astype(np.float32)
            self._index = lexical, build_spelling(lexical.words, prominence)
        return self._index

    def _candidates(self, share: Floats) -> list[int]:
        """The best by words, then the newest."""
        newest_first = -np.arange(len(share))
        order = np.lexsort((newest_first, -share))[:MOST_COMPARED]
        return sorted(order.tolist())

    def _meanings(self, places: Sequence[int]) -> Floats:
        assert self._embedder is not None
        unknown = [place for place in places if place not in self._vectors]
        made = self._embedder.embed([self._texts[place] for place in unknown])
        self._vectors |= dict(zip(unknown, made, strict=True))
        return np.stack([self._vectors[place] for place in places])
