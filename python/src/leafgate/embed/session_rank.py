"""Ranks the texts of a session for a query, with the parts that rank tools.

Nothing is computed before the first query; a session of fifty thousand events is then ranked in a fraction of a
second. Embeddings are compared only for texts that are candidates by their words or their age.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from leafgate.browse.lexical import FIELDS, Entries, LexicalIndex, WordNumbers, build_lexical
from leafgate.browse.query import make_word_test, parse_search, read_query
from leafgate.browse.rank import fuse, lexical_share
from leafgate.browse.words import MAX_WORD, SpellingIndex, all_words, build_spelling
from leafgate.context.select import best_first
from leafgate.meaning import Embedder, bundled_embedder

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]

# Every ASCII character that is not a letter or a digit ends a word.
_SIGNS_TO_BLANKS: Final = bytes(byte if byte > 127 or chr(byte).isalnum() else 32 for byte in range(256))


class SessionWords:
    """Counts the words of texts; the text of a place may be replaced.

    Nothing is counted before it is needed. A session repeats the same words: the pieces between blanks and ASCII signs
    are only numbered, at the speed of `bytes.split`, and each distinct piece is split into words once.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, str] = {}
        self._pieces_at: list[Ints] = []
        self._pieces: defaultdict[bytes, int] = defaultdict()
        self._pieces.default_factory = self._pieces.__len__  # numbers pieces in the order of their first lookup
        self._words = WordNumbers()
        self._words_of_piece: list[int] = []
        self._bounds: list[int] = [0]  # the words of piece n are _words_of_piece[_bounds[n]:_bounds[n + 1]]

    def put(self, place: int, text: str) -> None:
        """Set the text of a place: the next one, or an existing one."""
        self._waiting[place] = text

    def entries(self) -> Entries:
        """How often each word occurs in each text, in one field."""
        self._count_waiting()
        size, words = len(self._pieces_at), max(len(self._words), 1)
        lengths = np.fromiter(map(len, self._pieces_at), np.int64, size)
        place, word = self._read_as_words(
            np.repeat(np.arange(size, dtype=np.int64), lengths),
            np.concatenate([np.zeros(0, np.int32), *self._pieces_at]),
        )
        key, count = np.unique(place * words + word, return_counts=True)
        item, word = np.divmod(key, words)
        return Entries(
            word=word.astype(np.int32),
            field=np.full(len(key), FIELDS.index("summary"), np.uint8),
            count=np.minimum(count, 255).astype(np.uint8),
            bounds=np.searchsorted(item, np.arange(size + 1)).astype(np.int32),
        )

    @property
    def words(self) -> list[str]:
        """All words, by their numbers."""
        return list(self._words)

    def _count_waiting(self) -> None:
        number = self._pieces.__getitem__
        for place, text in self._waiting.items():
            pieces = pieces_of(text)
            numbered = np.fromiter(map(number, pieces), np.int32, len(pieces))
            if place == len(self._pieces_at):
                self._pieces_at.append(numbered)
            else:
                self._pieces_at[place] = numbered
        self._waiting.clear()
        for piece in islice(self._pieces, len(self._bounds) - 1, None):  # new pieces are split into words
            text = piece.decode("utf-8", "surrogatepass")
            if piece.isdigit() and len(piece) <= MAX_WORD:  # tables have very many numbers; each is one word
                self._words_of_piece.append(self._words[text])
            else:
                self._words_of_piece.extend(map(self._words.__getitem__, all_words(text)))
            self._bounds.append(len(self._words_of_piece))

    def _read_as_words(self, place: Longs, piece: Ints) -> tuple[Longs, Longs]:
        """Replace each piece by its words: mostly one, sometimes none or several."""
        first = np.array(self._bounds, np.int64)
        lengths = np.diff(first)[piece]
        before = np.cumsum(lengths) - lengths
        read_from = np.arange(lengths.sum()) + np.repeat(first[piece] - before, lengths)
        return np.repeat(place, lengths), np.array(self._words_of_piece, np.int64)[read_from]


def pieces_of(text: str) -> list[bytes]:
    """The pieces of a text; no word begins in one piece and ends in another."""
    return text.encode("utf-8", "surrogatepass").translate(_SIGNS_TO_BLANKS).split()


MOST_CHARS: Final = 2_000  # of a text; its subject is at its beginning
MOST_COMPARED: Final = 1_024  # texts whose meaning is compared with the query's


class SessionRanker:
    """An index of texts in order of arrival; the text of a place may be replaced."""

    def __init__(self) -> None:
        bundled = bundled_embedder()
        self._embedder: Embedder | None = bundled
        self._is_word = make_word_test(bundled.pieces.__contains__ if bundled else lambda _: False)
        self._texts: list[str] = []
        self._words = SessionWords()
        self._vectors: dict[int, Floats] = {}
        self._index: tuple[LexicalIndex, SpellingIndex] | None = None

    def put(self, place: int, text: str) -> None:
        """Set the text of a place: the next one, or an existing one."""
        start = text[:MOST_CHARS]
        self._words.put(place, start)
        if place == len(self._texts):
            self._texts.append(start)
        else:
            self._texts[place] = start
            self._vectors.pop(place, None)
        self._index = None

    def relevance(self, query: str) -> Floats:
        """The relevance of each text, from 0 to 1. All are 0 if the query has no words."""
        size = len(self._texts)
        parsed = parse_search(query)
        if not size or not any(word.is_significant for word in parsed.words):
            return np.zeros(size, np.float32)
        lexical, spelling = self._indexed()
        reading = read_query(parsed, lexical, spelling, self._is_word)
        share = lexical_share(lexical.score(reading.terms), reading.perfect_score)
        if self._embedder is None:
            return share
        near = sorted(best_first(share)[:MOST_COMPARED])
        unknown = [place for place in near if place not in self._vectors]
        vectors = self._embedder.embed([self._texts[place] for place in unknown])
        self._vectors |= dict(zip(unknown, vectors, strict=True))
        meanings = np.stack([self._vectors[place] for place in near])
        similarity = np.zeros(size, np.float32)
        similarity[near] = np.einsum("ij,j->i", meanings, self._embedder.embed([reading.text])[0])
        return fuse(share, similarity)

    def _indexed(self) -> tuple[LexicalIndex, SpellingIndex]:
        if self._index is None:
            lexical = build_lexical(self._words.entries(), self._words.words)
            prominence = np.diff(lexical.bounds)[lexical.term_of_word].astype(np.float32)
            self._index = lexical, build_spelling(lexical.words, prominence)
        return self._index
