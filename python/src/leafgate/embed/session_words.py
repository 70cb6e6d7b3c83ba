"""The words of a session's texts, counted. In: texts, one after another. Out: Entries of browse. Touches nothing.

Nothing is counted before somebody asks. A session says the same words again and again: what stands between blanks and
ASCII signs is only numbered, at the speed of `bytes.split`, and each distinct piece is read as words once.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from leafgate.browse.item_text import FIELDS
from leafgate.browse.lexical import Entries, WordNumbers
from leafgate.browse.words import MAX_WORD, all_words

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# No word goes on behind an ASCII character that is no letter and no digit.
_SIGNS_TO_BLANKS: Final = bytes(byte if byte > 127 or chr(byte).isalnum() else 32 for byte in range(256))


class SessionWords:
    """Grows by texts; a place may get another text."""

    def __init__(self) -> None:
        self._waiting: dict[int, str] = {}
        self._pieces_at: list[Ints] = []
        self._pieces = _PieceNumbers()
        self._words = WordNumbers()
        self._words_of_piece: list[int] = []
        self._bounds: list[int] = [0]  # the words of piece n are _words_of_piece[_bounds[n]:_bounds[n + 1]]

    def put(self, place: int, text: str) -> None:
        """Takes in the text of a place: the next one, or one that is there already."""
        self._waiting[place] = text

    def entries(self) -> Entries:
        """How often each word stands in each text, in one field."""
        self._count_waiting()
        size, known = len(self._pieces_at), max(len(self._words), 1)
        lengths = np.fromiter(map(len, self._pieces_at), np.int64, size)
        place, word = self._read_as_words(
            np.repeat(np.arange(size, dtype=np.int64), lengths),
            np.concatenate([np.zeros(0, np.int32), *self._pieces_at]),
        )
        key, count = np.unique(place * known + word, return_counts=True)
        item, word = np.divmod(key, known)
        return Entries(
            word=word.astype(np.int32),
            field=np.full(len(key), FIELDS.index("summary"), np.uint8),
            count=np.minimum(count, 255).astype(np.uint8),
            bounds=np.searchsorted(item, np.arange(size + 1)).astype(np.int32),
        )

    @property
    def words(self) -> list[str]:
        """All words that were counted, by their numbers."""
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
        self._learn(islice(self._pieces, len(self._bounds) - 1, None))

    def _learn(self, pieces: Iterable[bytes]) -> None:
        """Reads new pieces as words."""
        for piece in pieces:
            text = piece.decode("utf-8", "surrogatepass")
            if piece.isdigit() and len(piece) <= MAX_WORD:  # tables have very many, each a word as it stands
                self._words_of_piece.append(self._words[text])
            else:
                self._words_of_piece.extend(map(self._words.__getitem__, all_words(text)))
            self._bounds.append(len(self._words_of_piece))

    def _read_as_words(self, place: Longs, piece: Ints) -> tuple[Longs, Longs]:
        """Each piece replaced by its words: mostly one, sometimes none or several."""
        first = np.array(self._bounds, np.int64)
        lengths = np.diff(first)[piece]
        before = np.cumsum(lengths) - lengths
        read_from = np.arange(lengths.sum()) + np.repeat(first[piece] - before, lengths)
        return np.repeat(place, lengths), np.array(self._words_of_piece, np.int64)[read_from]


class _PieceNumbers(dict[bytes, int]):
    """Numbers pieces in the order in which they are first asked for."""

    def __missing__(self, piece: bytes) -> int:
        self[piece] = number = len(self)
        return number


def pieces_of(text: str) -> list[bytes]:
    """What words are made of: no word begins in one piece and ends in another."""
    return text.encode("utf-8", "surrogatepass").translate(_SIGNS_TO_BLANKS).split()
