"""The searchable form of a catalog.

The part of an item depends on that item alone, and a later index reuses it by the item's digest; only the sums over the
catalog are computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from leafgate.browse.lexical import (
    Entries,
    ItemText,
    LexicalIndex,
    WordNumbers,
    build_lexical,
    count_words,
    item_digest,
    item_text,
)
from leafgate.browse.words import SpellingIndex, build_spelling
from leafgate.meaning import Embedder, unit
from leafgate.model.tool import SelectableItem

Floats = NDArray[np.float32]

SERVER: Final = 0.4  # weight of what the server's tools have in common


@dataclass(frozen=True)
class CatalogIndex:
    """Position k is the k-th item by id. `own` is the meaning of each item; `vectors` adds a share of its server's."""

    digests: tuple[bytes, ...]
    entries: Entries
    own: NDArray[np.float16] | None
    model: str
    lexical: LexicalIndex
    spelling: SpellingIndex
    vectors: Floats | None


def build_index(
    items: Sequence[SelectableItem], embedder: Embedder | None, earlier: CatalogIndex | None = None
) -> CatalogIndex:
    """Build the index of items that are sorted by id, with the parts of `earlier` that still apply."""
    digests = tuple(item_digest(item) for item in items)
    model = embedder.version if embedder else ""
    reusable = earlier is not None and earlier.model == model
    places = {digest: place for place, digest in enumerate(earlier.digests)} if reusable and earlier else {}
    fresh = [k for k, digest in enumerate(digests) if digest not in places]
    texts = [item_text(items[k]) for k in fresh]
    numbers = WordNumbers(earlier.lexical.word_ids if places and earlier else {})
    entries = count_words(texts, numbers)
    own = embed_items(texts, embedder) if embedder else None
    if places and earlier:
        source = np.empty(len(items), np.int64)  # the place of item k in the earlier items followed by the fresh ones
        source[fresh] = len(earlier.digests) + np.arange(len(fresh))
        old = [k for k, digest in enumerate(digests) if digest in places]
        source[old] = [places[digests[k]] for k in old]
        entries = _pick(_concatenate(earlier.entries, entries), source)
        if own is not None and earlier.own is not None:
            own = np.concatenate((earlier.own, own))[source]
    entries, words = _compact(entries, list(numbers))
    lexical = build_lexical(entries, words)
    return CatalogIndex(
        digests=digests,
        entries=entries,
        own=own,
        model=model,
        lexical=lexical,
        spelling=build_spelling(words, np.diff(lexical.bounds)[lexical.term_of_word].astype(np.float32)),
        vectors=None if own is None else with_server(own, items),
    )


def embed_items(texts: Sequence[ItemText], embedder: Embedder) -> NDArray[np.float16]:
    """Return one vector per item: a sum of unit vectors compares with each of them. Half precision saves space."""
    if not texts:
        return embedder.embed([]).astype(np.float16)
    labels = embedder.embed([text.label for text in texts])
    summaries = embedder.embed([text.summary for text in texts])
    return unit(labels + summaries).astype(np.float16)


def with_server(halves: NDArray[np.float16], items: Sequence[SelectableItem]) -> Floats:
    """Return each item's vector with a share of the mean of its server, because a server's tools share a subject."""
    own = halves.astype(np.float32)
    if not len(own):
        return own
    numbers = WordNumbers()
    group = np.array([numbers[item.server or item.namespace] for item in items])
    sums = np.zeros((len(numbers), own.shape[1]), np.float32)
    np.add.at(sums, group, own)
    return unit(own + np.float32(SERVER) * unit(sums)[group])


def _concatenate(first: Entries, second: Entries) -> Entries:
    return Entries(
        np.concatenate((first.word, second.word)),
        np.concatenate((first.field, second.field)),
        np.concatenate((first.count, second.count)),
        np.concatenate((first.bounds, second.bounds[1:] + first.bounds[-1])),
    )


def _pick(entries: Entries, source: NDArray[np.int64]) -> Entries:
    lengths = np.diff(entries.bounds)[source]
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    rows = np.repeat(entries.bounds[:-1][source] - bounds[:-1], lengths) + np.arange(bounds[-1])
    return Entries(entries.word[rows], entries.field[rows], entries.count[rows], bounds.astype(np.int32))


def _compact(entries: Entries, words: Sequence[str]) -> tuple[Entries, list[str]]:
    """Number the words alphabetically and drop unused ones, so that an index does not depend on its history."""
    used = sorted((int(n) for n in np.unique(entries.word)), key=lambda n: words[n])
    number = np.zeros(len(words), np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return Entries(number[entries.word], entries.field, entries.count, entries.bounds), [words[n] for n in used]
