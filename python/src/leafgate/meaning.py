"""Meaning as vectors: the Embedder port, and the static model that comes with the package.

The static model sums one vector per word piece: no order of words, no torch, about ten microseconds per query. The
search for tools and the check for instructions use it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Final, Protocol
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from leafgate.model.errors import ConfigError

Floats = NDArray[np.float32]

_WORD: Final = re.compile(r"[a-z]+")
_MAX_PIECES: Final = 256
_BATCH: Final = 4_096
_MAX_SPLITS: Final = 1 << 16
BUNDLED: Final = Path(__file__).parent / "data" / "meaning" / "model.npz"


class Embedder(Protocol):
    """Turns texts into vectors. `version` names the model: an index made with another model is not reused."""

    @property
    def version(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return one row per text: of unit length, or zeros for a text without meaning."""
        ...


class WordPieces:
    """Greedy longest-match word pieces over lower-case ASCII letters; digits and punctuation carry no meaning here."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._starts = {piece: n for n, piece in enumerate(pieces) if not piece.startswith("##")}
        self._inner = {piece[2:]: n for n, piece in enumerate(pieces) if piece.startswith("##")}
        self._splits: dict[str, tuple[int, ...]] = {}  # a plain dict with a limit: an LRU would slow down every word

    def __contains__(self, word: str) -> bool:
        return word in self._starts

    def split_text(self, text: str) -> list[int]:
        if not text.isascii():
            text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
        pieces: list[int] = []
        for word in _WORD.findall(text.lower()):
            pieces += self.split_word(word)
            if len(pieces) >= _MAX_PIECES:
                break
        return pieces[:_MAX_PIECES]

    def split_word(self, word: str) -> tuple[int, ...]:
        pieces = self._splits.get(word)
        if pieces is None:
            pieces = self._split(word)
            if len(self._splits) < _MAX_SPLITS:
                self._splits[word] = pieces
        return pieces

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
    """Sums the rows of a text's pieces. Rows are bytes with a scale each, converted to floats only when used."""

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


@lru_cache(maxsize=1)
def bundled_embedder() -> StaticEmbedder | None:
    """Return the model that comes with the package, or None if a distributor removed it."""
    return read_static_model(BUNDLED) if BUNDLED.is_file() else None


def read_static_model(path: Path) -> StaticEmbedder:
    content = path.read_bytes()
    try:
        with np.load(BytesIO(content), allow_pickle=False) as file:
            pieces = file["pieces"].tobytes().decode().split("\n")
            rows, scale = file["rows"], file["scale"].astype(np.float32)
    except (BadZipFile, KeyError, ValueError, EOFError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a usable static model: {error}") from error
    if rows.ndim != 2 or rows.dtype != np.int8 or not len(rows) == len(scale) == len(pieces):
        raise ConfigError(f"{path}: not a usable static model: its parts do not fit together")
    return StaticEmbedder(f"static:{hashlib.sha256(content).hexdigest()[:16]}", WordPieces(pieces), rows, scale)
