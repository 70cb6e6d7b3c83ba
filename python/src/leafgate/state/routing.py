"""Adapters for routing: the cache of search indexes on disk, and embedders that an operator may configure.

Neither can make a browse fail. A cached index that cannot be read, is damaged or does not fit counts as absent, and
nothing in it is executed (no pickles). An embeddings endpoint that fails gives vectors of zeros, so that words decide.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import httpx2
import numpy as np
import platformdirs
from numpy.typing import NDArray

from leafgate.browse.index import CatalogIndex, with_server
from leafgate.browse.lexical import LENGTH, SATURATION, WEIGHTS, Entries, LexicalIndex, item_digest
from leafgate.browse.words import SpellingIndex
from leafgate.meaning import unit
from leafgate.model.errors import ConfigError
from leafgate.model.tool import SelectableItem

try:
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]  # not in every environment
except ImportError:  # an extra: `leafgate[semantic]`
    SentenceTransformer = None

log = logging.getLogger("leafgate.embedder")

Floats = NDArray[np.float32]

FORMAT: Final = "leafgate-index-2"  # raise it whenever words, fields or layout change
MAX_FILES: Final = 8  # the least recently used are deleted first
MAX_BYTES: Final = 1 << 30
BATCH: Final = 64  # texts in one request to an embeddings endpoint
TIMEOUT: Final = 10.0

# The arrays of each part of an index, by the names of their fields.
_ARRAYS: Final = {
    "entries": ("word", "field", "count", "bounds"),
    "lexical": ("term_of_word", "items", "weights", "bounds", "rarity"),
    "spelling": ("numbers", "letters", "prominence"),
}


def default_directory() -> Path:
    """The user's cache folder: on Linux `$XDG_CACHE_HOME/leafgate/index`, by default under ~/.cache."""
    return platformdirs.user_cache_path("leafgate", appauthor=False) / "index"


class IndexFiles:
    """Implements IndexStore: one file per catalog and model, named by the digest of everything that went into it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, items: Sequence[SelectableItem], model: str) -> CatalogIndex | None:
        digests = tuple(item_digest(item) for item in items)
        path = self._path(digests, model)
        try:
            if path.stat().st_size > MAX_BYTES:
                return None
            os.utime(path)
            with np.load(path, allow_pickle=False) as file:
                return _unpack({name: file[name] for name in file.files}, items, digests, model)
        except (OSError, BadZipFile, KeyError, ValueError, EOFError, IndexError, TypeError):
            return None

    def save(self, index: CatalogIndex) -> None:
        """Write a temporary file and rename it: a reader never sees half a file. A full disk is not an error."""
        path = self._path(index.digests, index.model)
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self._directory, prefix=".index-")
            try:
                with os.fdopen(handle, "wb") as file:
                    np.savez(file, **_pack(index))
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise
            files = sorted(self._directory.glob("*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
            for old in files[MAX_FILES:]:
                old.unlink(missing_ok=True)

    def _path(self, digests: Sequence[bytes], model: str) -> Path:
        inputs = [FORMAT, version("PyStemmer"), WEIGHTS.tolist(), LENGTH.tolist(), SATURATION, model]
        key = hashlib.sha256(repr(inputs).encode())
        key.update(b"".join(digests))
        return self._directory / f"{key.hexdigest()}.npz"


def _pack(index: CatalogIndex) -> dict[str, Any]:
    arrays = {
        f"{part}.{name}": getattr(getattr(index, part), name) for part, names in _ARRAYS.items() for name in names
    }
    return {
        "format": _text([FORMAT, index.model]),
        "digests": np.frombuffer(b"".join(index.digests), np.uint8),
        "words": _text(index.lexical.words),
        "terms": _text(index.lexical.term_ids),
        **arrays,
        **({} if index.own is None else {"own": index.own}),
    }


def _unpack(
    arrays: Mapping[str, NDArray[Any]], items: Sequence[SelectableItem], digests: tuple[bytes, ...], model: str
) -> CatalogIndex:
    if _lines(arrays["format"]) != [FORMAT, model] or arrays["digests"].tobytes() != b"".join(digests):
        raise ValueError("the index of another catalog")
    words, terms = _lines(arrays["words"]), _lines(arrays["terms"])
    parts = {part: {name: arrays[f"{part}.{name}"] for name in names} for part, names in _ARRAYS.items()}
    entries = Entries(**parts["entries"])
    word_ids, term_ids = ({text: number for number, text in enumerate(texts)} for texts in (words, terms))
    lexical = LexicalIndex(tuple(words), size=len(digests), word_ids=word_ids, term_ids=term_ids, **parts["lexical"])
    spelling = SpellingIndex(tuple(words[n] for n in parts["spelling"]["numbers"].tolist()), **parts["spelling"])
    fits = (
        len(entries.bounds) == len(digests) + 1
        and len(lexical.bounds) == len(terms) + 1
        and len(lexical.items) == len(lexical.weights) == int(lexical.bounds[-1])
        and len(lexical.term_of_word) == len(words)
        and (not len(lexical.items) or int(lexical.items.max()) < len(digests))
        and bool(model) == ("own" in arrays)
        and (not model or (arrays["own"].dtype == np.float16 and len(arrays["own"]) == len(digests)))
    )
    if not fits:
        raise ValueError("its parts do not fit together")
    own = arrays.get("own")
    vectors = None if own is None else with_server(own, items)
    return CatalogIndex(digests, entries, own, model, lexical, spelling, vectors)


def _text(lines: Sequence[str] | Mapping[str, int]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def _lines(array: NDArray[Any]) -> list[str]:
    return array.tobytes().decode().split("\n") if array.size else []


class HttpEmbedder:
    """An endpoint that takes {"model", "input": [texts]} and returns {"data": [{"embedding": [numbers]}]}."""

    def __init__(self, url: str, *, model: str = "", headers: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._model = model
        self._client = httpx2.Client(headers=dict(headers or {}), timeout=TIMEOUT)
        self._width = 0

    @property
    def version(self) -> str:
        return f"http:{hashlib.sha256(f'{self._url} {self._model}'.encode()).hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> Floats:
        rows = [row for start in range(0, len(texts), BATCH) for row in self._request([*texts[start : start + BATCH]])]
        self._width = self._width or max((len(row) for row in rows), default=0)
        padded = [row if len(row) == self._width else [0.0] * self._width for row in rows]
        vectors = np.array(padded, dtype=np.float32).reshape(len(texts), self._width or 1)
        return unit(vectors)

    def _request(self, texts: list[str]) -> list[list[float]]:
        body = {"input": texts} | ({"model": self._model} if self._model else {})
        try:
            answer = self._client.post(self._url, json=body).raise_for_status().json()
            rows = [[float(number) for number in entry["embedding"]] for entry in answer["data"]]
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            log.warning("the embeddings endpoint failed (%s); words alone decide", type(error).__name__)
            return [[] for _ in texts]
        if len(rows) != len(texts):
            log.warning("the embeddings endpoint gave %d vectors for %d texts", len(rows), len(texts))
            return [[] for _ in texts]
        return rows


class MiniLmEmbedder:
    """The whole MiniLM, where the extra `leafgate[semantic]` is installed: better at paraphrases, and much heavier."""

    def __init__(self, path: str = "") -> None:
        if SentenceTransformer is None:
            raise ConfigError("embedder: minilm needs the extra leafgate[semantic]")
        self._path = path or "sentence-transformers/all-MiniLM-L6-v2"
        self._model = SentenceTransformer(self._path, device="cpu")

    @property
    def version(self) -> str:
        return f"minilm:{hashlib.sha256(self._path.encode()).hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self._model.encode([*texts], normalize_embeddings=True), dtype=np.float32)
