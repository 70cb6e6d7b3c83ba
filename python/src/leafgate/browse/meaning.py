"""Compares meaning: the Embedder port and the static model. In: texts. Out: unit vectors. May touch: nothing.

The static model is one vector per word piece, summed: no order of words, no torch, some ten microseconds a query.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_WORD: Final = re.compile(r"[a-z]+")
_MAX_PIECES: Final = 256
_BATCH: Final = 4_096


class Embedder(Protocol):
    """Anything that turns texts into vectors. `version` names the model: an index made with another is not reused."""

    @property
    def version(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> Floats:
        """One row of unit length (or of zeros, for a text that says nothing) per text."""
        ...


class WordPieces:
    """Greedy longest-match word pieces over lower-case ASCII letters; digits and punctuation carry no meaning here."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._starts = {piece: n for n, piece in enumerate(pieces) if not piece.startswith("##")}
        self._inner = {piece[2:]: n for n, piece in enumerate(pieces) if piece.startswith("##")}
        self._known: dict[str, tuple[int, ...]] = {}

    def __contains__(self, word: str) -> bool:
        return word in self._starts

    def split_text(self, text: str) -> list[int]:
        if not text.isascii():
            text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
        found: list[int] = []
        for word in _WORD.findall(text.lower()):
            found += self.split_word(word)
            if len(found) >= _MAX_PIECES:
                break
        return found[:_MAX_PIECES]

    def split_word(self, word: str) -> tuple[int, ...]:
        known = self._known.get(word)
        if known is None:
            known = self._split(word)
            if len(self._known) < 1 << 16:
                self._known[word] = known
        return known

    def _split(self, word: str) -> tuple[int, ...]:
        pieces: list[int] = []
        table, at = self._starts, 0
        while at < len(word):
            end = next((e for e in range(min(len(word), at + 24), at, -1) if word[at:e] in table), 0)
            if not end:
                return ()
            pieces.append(table[word[at:end]])
            table, at = self._inner, end
        return tuple(pieces)


@dataclass(frozen=True)
class StaticEmbedder:
    """Sums the rows of a text's pieces. Rows are bytes with a scale each, widened only where they are used."""

    version: str
    pieces: WordPieces = field(repr=False)
    rows: NDArray[np.int8] = field(repr=False)
    scale: Floats = field(repr=False)

    def embed(self, texts: Sequence[str]) -> Floats:
        out = np.zeros((len(texts), self.rows.shape[1]), np.float32)
        for start in range(0, len(texts), _BATCH):
            bags = [self.pieces.split_text(text) for text in texts[start : start + _BATCH]]
            full = [n for n, bag in enumerate(bags) if bag]
            if not full:
                continue
            flat = np.fromiter((piece for n in full for piece in bags[n]), np.int32)
            ends = np.cumsum([len(bags[n]) for n in full])
            vectors = self.rows[flat] * self.scale[flat, None]
            out[np.array(full) + start] = np.add.reduceat(vectors, np.concatenate(([0], ends[:-1])))
        return unit(out)


def unit(vectors: Floats) -> Floats:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    lengths[lengths == 0] = 1
    scaled: Floats = vectors / lengths[:, None]
    return scaled
