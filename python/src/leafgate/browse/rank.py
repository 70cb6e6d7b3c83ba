"""Router: ranks a whole catalog for a query. In: items, an embedder, a query. Out: RouteResult. May touch: nothing.

Every item is scored; no tree is searched, so nothing is lost on the way. Equal scores go by id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from leafgate.browse.confidence import Evidence, Signal, judge
from leafgate.browse.fuse import fuse, lexical_share
from leafgate.browse.index import CatalogIndex, build_index
from leafgate.browse.meaning import Embedder
from leafgate.browse.mention import MentionIndex, build_mentions
from leafgate.browse.model_file import bundled_embedder
from leafgate.browse.query import parse_query
from leafgate.browse.reading import english, read_query
from leafgate.browse.selection import Provider, SelectionValidation, selection_schema, validate_selection
from leafgate.model.errors import RouteError
from leafgate.model.tool import Kind, SelectableItem

MAX_TOP_K: Final = 50

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Candidate:
    item: SelectableItem
    score: float


@dataclass(frozen=True)
class RouteResult:
    """The best items, best first, and whether to believe them: of a no_match they are only the least unlikely."""

    candidates: tuple[Candidate, ...]
    signal: Signal
    confidence: float

    def selection_schema(self, provider: Provider = "json_schema") -> dict[str, Any]:
        """A schema that only the ids of these candidates satisfy (spec 2.9). RouteError if there are none."""
        return selection_schema([candidate.item for candidate in self.candidates], provider)

    def validate_selection(self, selected_id: object) -> SelectionValidation:
        """Which of these candidates a model's answer stands for, if any."""
        return validate_selection(selected_id, [candidate.item for candidate in self.candidates])


class HoldsItems(Protocol):
    """A Catalog, as far as routing needs one."""

    def all(self) -> Iterable[SelectableItem]: ...


class IndexStore(Protocol):
    """Where finished indexes are kept between runs."""

    def load(self, items: Sequence[SelectableItem], model: str) -> CatalogIndex | None: ...

    def save(self, index: CatalogIndex) -> None: ...


class _Bundled:
    """Stands for the model that comes with the package."""


BUNDLED: Final = _Bundled()


class Router:
    """A catalog made searchable. Never changes; a changed catalog gets a new one, which `earlier` makes cheap."""

    def __init__(
        self,
        items: Sequence[SelectableItem] | HoldsItems,
        *,
        embedder: Embedder | _Bundled | None = BUNDLED,
        earlier: Router | None = None,
        store: IndexStore | None = None,
    ) -> None:
        held = items if isinstance(items, Sequence) else items.all()
        self._items = tuple(sorted(held, key=lambda item: item.id))
        bundled = bundled_embedder()
        self._embedder = bundled if isinstance(embedder, _Bundled) else embedder
        self._is_word = english(bundled.pieces.__contains__ if bundled else lambda _: False)
        self._index = self._indexed(earlier, store)
        self._mentions: MentionIndex = build_mentions(self._items, self._is_word)
        self._namespaces = np.array([item.namespace for item in self._items], dtype=np.str_)
        self._kinds = np.array([item.kind for item in self._items], dtype=np.str_)
        self._seen: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self._items) if self._seen is None else int(self._seen.sum())

    def narrowed(self, sees: Callable[[SelectableItem], bool]) -> Router:
        """A router over some of these items. It shares the index: making one costs one look at each item."""
        narrow = copy(self)
        narrow._seen = np.fromiter((sees(item) for item in self._items), np.bool_, len(self._items))
        return narrow

    def route(
        self,
        query: str,
        *,
        top_k: int = 10,
        namespaces: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        kinds: Collection[Kind] | None = None,
    ) -> RouteResult:
        """The top_k items for a query, of those in any given namespace and kind and with every given tag."""
        if not 1 <= top_k <= MAX_TOP_K:
            raise RouteError(f"top_k is {top_k}; it must be from 1 to {MAX_TOP_K}")
        parsed = parse_query(query)
        reading = read_query(parsed, self._index.lexical, self._index.spelling, self._is_word)
        share = lexical_share(self._index.lexical.score(reading.terms), reading.asked)
        similarity = self._similarity(reading.spoken)
        scores = fuse(share, similarity)
        exact = self._mentions.find(parsed)
        scores[exact] += 1
        allowed = self._allowed(namespaces, tags, kinds)
        if allowed is not None:
            scores[~allowed] = 0
        order = _best(scores, max(top_k, 2))
        if not order:
            return RouteResult((), "no_match", 0.0)
        first = order[0]
        confidence, signal = judge(
            Evidence(
                score=float(scores[first]),
                margin=float(scores[first] - scores[order[1]]) if len(order) > 1 else 1.0,
                found=reading.found / reading.asked if reading.asked else 0.0,
                size=len(self),
                exact=first in exact,
                by_meaning=similarity is not None,
            )
        )
        candidates = tuple(Candidate(self._items[k], round(float(scores[k]), 6)) for k in order[:top_k])
        return RouteResult(candidates, signal, round(confidence, 4))

    def _indexed(self, earlier: Router | None, store: IndexStore | None) -> CatalogIndex:
        model = self._embedder.version if self._embedder else ""
        stored = store.load(self._items, model) if store else None
        if stored is not None:
            return stored
        index = build_index(self._items, self._embedder, earlier._index if earlier else None)
        if store:
            store.save(index)
        return index

    def _similarity(self, spoken: str) -> Floats | None:
        if self._embedder is None or self._index.vectors is None:
            return None
        # einsum stays on this thread; a BLAS product would wake others and, on a busy machine, wait for them
        found: Floats = np.einsum("ij,j->i", self._index.vectors, self._embedder.embed([spoken])[0])
        return found

    def _allowed(
        self, namespaces: Collection[str] | None, tags: Collection[str] | None, kinds: Collection[Kind] | None
    ) -> NDArray[np.bool_] | None:
        if namespaces is None and tags is None and kinds is None:
            return self._seen
        allowed = np.ones(len(self._items), np.bool_) if self._seen is None else self._seen.copy()
        if namespaces is not None:
            allowed &= np.isin(self._namespaces, sorted(namespaces))
        if kinds is not None:
            allowed &= np.isin(self._kinds, sorted(kinds))
        if tags is not None:
            wanted = set(tags)
            allowed &= np.fromiter((wanted.issubset(item.tags) for item in self._items), np.bool_, len(self._items))
        return allowed


def _best(scores: Floats, count: int) -> list[int]:
    """Positions of the highest scores above nothing; of equal ones the first by id, also at the cut."""
    if len(scores) > 4 * count:
        edge = np.partition(scores, len(scores) - count)[len(scores) - count]
        near = np.flatnonzero(scores >= max(edge, np.float32(1e-6)))
    else:
        near = np.flatnonzero(scores > 1e-6)
    order = near[np.argsort(-scores[near], kind="stable")]
    return [int(k) for k in order[:count]]
