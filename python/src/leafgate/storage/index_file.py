"""Keeps indexes on disk. In: a directory, items. Out: CatalogIndex, or None. May touch: the files in that directory.

A file is named by the digest of everything that went into it. Whatever cannot be read, is damaged or does not fit is
treated as absent: a cache may cost time, never correctness. Nothing in it is executed (no pickles).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from leafgate.browse.index import CatalogIndex, with_server
from leafgate.browse.item_text import item_digest
from leafgate.browse.lexical import LENGTH, SATURATION, WEIGHTS, Entries, LexicalIndex
from leafgate.browse.spelling import SpellingIndex
from leafgate.model.tool import SelectableItem

FORMAT: Final = "leafgate-index-1"  # raise it whenever words, fields or layout change
KEPT: Final = 8  # files; the longest unused go first
MAX_BYTES: Final = 1 << 30


def default_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME/leafgate/index`, by default under ~/.cache."""
    base = environment.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "leafgate" / "index"


class IndexFiles:
    """An IndexStore of one file per catalog and model."""

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
                return _unpacked({name: file[name] for name in file.files}, items, digests, model)
        except (OSError, BadZipFile, KeyError, ValueError, EOFError, IndexError, TypeError):
            return None

    def save(self, index: CatalogIndex) -> None:
        """Writes beside and renames, so that no reader meets half a file. A full or read-only disk is no error."""
        path = self._path(index.digests, index.model)
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self._directory, prefix=".index-")
            try:
                with os.fdopen(handle, "wb") as file:
                    np.savez(file, **_packed(index))
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise
            self._forget_old()

    def _forget_old(self) -> None:
        files = sorted(self._directory.glob("*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in files[KEPT:]:
            path.unlink(missing_ok=True)

    def _path(self, digests: Sequence[bytes], model: str) -> Path:
        made_by = [FORMAT, version("PyStemmer"), WEIGHTS.tolist(), LENGTH.tolist(), SATURATION, model]
        key = hashlib.sha256(repr(made_by).encode())
        key.update(b"".join(digests))
        return self._directory / f"{key.hexdigest()}.npz"


def _packed(index: CatalogIndex) -> dict[str, Any]:
    lexical, spelling, entries = index.lexical, index.spelling, index.entries
    arrays: dict[str, Any] = {
        "format": _text([FORMAT, index.model]),
        "digests": np.frombuffer(b"".join(index.digests), np.uint8),
        "words": _text(lexical.words),
        "terms": _text(lexical.term_ids),
        "entry_word": entries.word,
        "entry_field": entries.field,
        "entry_count": entries.count,
        "entry_bounds": entries.bounds,
        "term_of_word": lexical.term_of_word,
        "items": lexical.items,
        "weights": lexical.weights,
        "bounds": lexical.bounds,
        "rarity": lexical.rarity,
        "spelling_numbers": spelling.numbers,
        "spelling_letters": spelling.letters,
        "spelling_prominence": spelling.prominence,
    }
    if index.own is not None:
        arrays["own"] = index.own
    return arrays


def _unpacked(
    arrays: Mapping[str, NDArray[Any]], items: Sequence[SelectableItem], digests: tuple[bytes, ...], model: str
) -> CatalogIndex:
    if _lines(arrays["format"]) != [FORMAT, model] or arrays["digests"].tobytes() != b"".join(digests):
        raise ValueError("of another catalog")
    words, terms = _lines(arrays["words"]), _lines(arrays["terms"])
    entries = Entries(arrays["entry_word"], arrays["entry_field"], arrays["entry_count"], arrays["entry_bounds"])
    lexical = LexicalIndex(
        words=tuple(words),
        term_of_word=arrays["term_of_word"],
        items=arrays["items"],
        weights=arrays["weights"],
        bounds=arrays["bounds"],
        rarity=arrays["rarity"],
        size=len(digests),
        word_ids={word: number for number, word in enumerate(words)},
        term_ids={term: number for number, term in enumerate(terms)},
    )
    numbers = arrays["spelling_numbers"]
    spelling = SpellingIndex(
        tuple(words[n] for n in numbers.tolist()),
        numbers,
        arrays["spelling_letters"],
        arrays["spelling_prominence"],
    )
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
