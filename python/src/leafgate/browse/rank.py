"""The router: rank a whole catalog for a query by words, meaning and exact names, and say how sure the ranking is.

Every item is scored, and no tree is searched, so no item can be missed. Equal scores are ordered by id.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from leafgate.browse.cards import Provider, SelectionValidation, selection_schema, validate_selection
from leafgate.browse.index import CatalogIndex, build_index
from leafgate.browse.query import STOP_WORDS, Query, make_word_test, parse_query, read_query
from leafgate.meaning import Embedder, bundled_embedder
from leafgate.model.errors import RouteError
from leafgate.model.tool import Kind, SelectableItem

Floats = NDArray[np.float32]

MEANING: Final = 1.5  # weight of similarity beside the lexical score's 1
NO_MATCH: Final = 0.3
AMBIGUOUS: Final = 0.03  # with a smaller lead, the first item is right only about every second time
MAX_TOP_K: Final = 50
_LONGEST: Final = 6  # words of a name with spaces
_MARKS: Final = ("__", "/", ":", ".")
_FILLERS: Final = STOP_WORDS | {"use", "using", "call", "run", "invoke", "execute", "tool", "function", "mcp"}

Signal = Literal["ok", "ambiguous", "no_match"]


@dataclass(frozen=True)
class Candidate:
    item: SelectableItem
    score: float


@dataclass(frozen=True)
class RouteResult:
    """The best items, best first, and how reliable they are: with `no_match` they are only the least unlikely."""

    candidates: tuple[Candidate, ...]
    signal: Signal
    confidence: float

    def selection_schema(self, provider: Provider = "json_schema") -> dict[str, Any]:
        """Return a schema that only the ids of these candidates satisfy (spec 2.9). RouteError if there are none."""
        return selection_schema([candidate.item for candidate in self.candidates], provider)

    def validate_selection(self, selected_id: object) -> SelectionValidation:
        """Return which of these candidates a model's answer means, if any."""
        return validate_selection(selected_id, [candidate.item for candidate in self.candidates])


class HoldsItems(Protocol):
    """A Catalog, as far as routing needs one."""

    def all(self) -> Iterable[SelectableItem]: ...


class IndexStore(Protocol):
    """Stores finished indexes between runs."""

    def load(self, items: Sequence[SelectableItem], model: str) -> CatalogIndex | None: ...

    def save(self, index: CatalogIndex) -> None: ...


class _Bundled:
    """Represents the model that comes with the package."""


BUNDLED: Final = _Bundled()


class Router:
    """A searchable catalog. It never changes; a changed catalog gets a new router, which `earlier` makes cheap."""

    def __init__(
        self,
        items: Sequence[SelectableItem] | HoldsItems,
        *,
        embedder: Embedder | _Bundled | None = BUNDLED,
        earlier: Router | None = None,
        store: IndexStore | None = None,
    ) -> None:
        item_list = items if isinstance(items, Sequence) else items.all()
        self._items = tuple(sorted(item_list, key=lambda item: item.id))
        bundled = bundled_embedder()
        self._embedder = bundled if isinstance(embedder, _Bundled) else embedder
        self._is_word = make_word_test(bundled.pieces.__contains__ if bundled else lambda _: False)
        self._index = self._load_index(earlier, store)
        self._mentions: MentionIndex = build_mentions(self._items, self._is_word)
        self._namespaces = np.array([item.namespace for item in self._items], dtype=np.str_)
        self._kinds = np.array([item.kind for item in self._items], dtype=np.str_)
        self._visible: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self._items) if self._visible is None else int(self._visible.sum())

    def narrow(self, is_visible: Callable[[SelectableItem], bool]) -> Router:
        """Return a router over some of these items. It shares the index, so it costs one test per item."""
        router = copy(self)
        router._visible = np.fromiter((is_visible(item) for item in self._items), np.bool_, len(self._items))
        return router

    def route(
        self,
        query: str,
        *,
        top_k: int = 10,
        namespaces: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        kinds: Collection[Kind] | None = None,
    ) -> RouteResult:
        """Return the top_k items for a query, of those in any of these namespaces and kinds and with all these tags."""
        if not 1 <= top_k <= MAX_TOP_K:
            raise RouteError(f"top_k is {top_k}; it must be from 1 to {MAX_TOP_K}")
        parsed = parse_query(query)
        reading = read_query(parsed, self._index.lexical, self._index.spelling, self._is_word)
        share = lexical_share(self._index.lexical.score(reading.terms), reading.perfect_score)
        similarity = self._similarity(reading.text)
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
        confidence, signal = assess(
            Evidence(
                score=float(scores[first]),
                margin=float(scores[first] - scores[order[1]]) if len(order) > 1 else 1.0,
                coverage=reading.covered_score / reading.perfect_score if reading.perfect_score else 0.0,
                size=len(self),
                exact=first in exact,
                by_meaning=similarity is not None,
            )
        )
        candidates = tuple(Candidate(self._items[k], round(float(scores[k]), 6)) for k in order[:top_k])
        return RouteResult(candidates, signal, round(confidence, 4))

    def _load_index(self, earlier: Router | None, store: IndexStore | None) -> CatalogIndex:
        model = self._embedder.version if self._embedder else ""
        stored = store.load(self._items, model) if store else None
        if stored is not None:
            return stored
        index = build_index(self._items, self._embedder, earlier._index if earlier else None)
        if store:
            store.save(index)
        return index

    def _similarity(self, text: str) -> Floats | None:
        if self._embedder is None or self._index.vectors is None:
            return None
        # einsum stays on this thread; a BLAS product would start others and, on a busy machine, wait for them
        similarity: Floats = np.einsum("ij,j->i", self._index.vectors, self._embedder.embed([text])[0])
        return similarity

    def _allowed(
        self, namespaces: Collection[str] | None, tags: Collection[str] | None, kinds: Collection[Kind] | None
    ) -> NDArray[np.bool_] | None:
        if namespaces is None and tags is None and kinds is None:
            return self._visible
        allowed = np.ones(len(self._items), np.bool_) if self._visible is None else self._visible.copy()
        if namespaces is not None:
            allowed &= np.isin(self._namespaces, sorted(namespaces))
        if kinds is not None:
            allowed &= np.isin(self._kinds, sorted(kinds))
        if tags is not None:
            tag_set = set(tags)
            allowed &= np.fromiter((tag_set.issubset(item.tags) for item in self._items), np.bool_, len(self._items))
        return allowed


def _best(scores: Floats, count: int) -> list[int]:
    """Return the positions of the highest scores above zero; of equal ones the first by id, also at the cut."""
    if len(scores) > 4 * count:
        edge = np.partition(scores, len(scores) - count)[len(scores) - count]
        near = np.flatnonzero(scores >= max(edge, np.float32(1e-6)))
    else:
        near = np.flatnonzero(scores > 1e-6)
    order = near[np.argsort(-scores[near], kind="stable")]
    return [int(k) for k in order[:count]]


# Words and meaning in one score


def lexical_share(scores: Floats, perfect_score: float) -> Floats:
    """Return how much of the query each item matches, 0 to 1.

    The measure is a perfect match of the query, not the best item at hand: words that match poorly then count little,
    and meaning decides. Ranks alone (reciprocal rank fusion) lose that.
    """
    share: Floats = scores / np.float32(perfect_score) if perfect_score > 0 else scores
    return np.minimum(share, 1, dtype=np.float32)


def fuse(share: Floats, similarity: Floats | None) -> Floats:
    """Combine the lexical share and the similarity into one score, 0 to 1."""
    if similarity is None:
        return share
    fused = (share + np.float32(MEANING) * np.maximum(similarity, 0)) / np.float32(1 + MEANING)
    return fused.astype(np.float32, copy=False)


# Confidence


@dataclass(frozen=True)
class Evidence:
    """The evidence for the best item; shares go from 0 to 1."""

    score: float
    margin: float  # its lead over the next
    coverage: float  # the share of the query's words that the catalog contains
    size: int  # items in the catalog: the best of many wrong ones looks better than the best of few
    exact: bool  # does the query contain its name?
    by_meaning: bool  # does the score compare meaning, or words only?


@dataclass(frozen=True)
class Fit:
    """A logistic regression; python/research/routing/calibrate.py fits these numbers to catalogs of 1 to 10,000."""

    bias: float
    score: float
    coverage: float
    log_size: float


FUSED: Final = Fit(bias=-3.0, score=17.6, coverage=4.4, log_size=-1.4)
LEXICAL: Final = Fit(bias=-2.0, score=7.9, coverage=4.9, log_size=-1.0)


def assess(evidence: Evidence) -> tuple[float, Signal]:
    """Return the probability that the catalog has an answer, and the signal for the ranking."""
    if evidence.exact:
        return 1.0, "ok"
    fit = FUSED if evidence.by_meaning else LEXICAL
    size = math.log10(max(evidence.size, 1))
    odds = fit.bias + fit.score * evidence.score + fit.coverage * evidence.coverage + fit.log_size * size
    confidence = 1 / (1 + math.exp(-odds))
    if confidence < NO_MATCH:
        return confidence, "no_match"
    return confidence, "ambiguous" if evidence.margin < AMBIGUOUS else "ok"


# Mentions: tools that a query calls by name


@dataclass(frozen=True)
class MentionIndex:
    """Items by their possible names. A plain name is an everyday word, and means the tool only when it stands alone."""

    names: dict[str, tuple[int, ...]] = field(repr=False)
    servers: tuple[str, ...] = field(repr=False)
    is_word: Callable[[str], bool] = field(repr=False)

    def find(self, query: Query) -> list[int]:
        """Return the positions of the items that the query calls by name."""
        words = [word for word in query.mentions if word.lower() not in _FILLERS]
        alone = " ".join(words).casefold() if len(words) <= _LONGEST else ""
        positions: dict[int, None] = {}
        for name in [*query.quoted, query.text.strip()[:300]]:
            positions.update(dict.fromkeys(self.names.get(name.casefold(), ())))
        for start in range(len(query.mentions)):
            for end in range(start + 1, min(start + _LONGEST, len(query.mentions)) + 1):
                name = " ".join(query.mentions[start:end]).casefold()
                matches = self.names.get(name) or ()
                if matches and (name == alone or not self._is_plain(name)):
                    positions.update(dict.fromkeys(matches))
            positions.update(dict.fromkeys(self._find_qualified(query.mentions[start].casefold())))
        return list(positions)

    def _find_qualified(self, mention: str) -> list[int]:
        """Return the positions for `github.create_issue`, `github/create_issue`, `mcp__github__create_issue`."""
        for mark in _MARKS:
            server, _, name = mention.rpartition(mark)
            server = server.removeprefix(f"mcp{mark}")
            if server and name in self.names:
                return [position for position in self.names[name] if self.servers[position] == server]
        return []

    def _is_plain(self, name: str) -> bool:
        return name.isalpha() and (len(name) < 4 or self.is_word(name))


def build_mentions(items: Sequence[SelectableItem], is_word: Callable[[str], bool]) -> MentionIndex:
    names: dict[str, tuple[int, ...]] = {}
    for position, item in enumerate(items):
        short_id = item.id.partition("#")[0]
        for name in {item.name, item.upstream_name, item.id, short_id}:
            key = name.casefold()
            if position not in names.get(key, ()):
                names[key] = (*names.get(key, ()), position)
    names.pop("", None)
    return MentionIndex(names, tuple(item.server.casefold() for item in items), is_word)
