"""tool_browse and tool_hydrate: the cards of what there is, in an order that stays stable, and a tool's schemas.

Also weighs what the definitions of all tools would cost a model, which is what cards save. Ranking and cards are pure
rooms; this chapter reads the arguments, and awaits the BrowseStates port.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from leafgate.browse.cards import StableBrowse, make_choice_cards, render_page
from leafgate.browse.navigate import list_path
from leafgate.browse.rank import Signal
from leafgate.catalog.catalog import Catalog
from leafgate.gateway.snapshot import Shelf, Snapshot
from leafgate.model.errors import GatewayError, StoreError
from leafgate.model.request import Request
from leafgate.model.tool import ChoiceCard, SelectableItem
from leafgate.ports import BrowseStates

log = logging.getLogger("leafgate.gateway")

DEFAULT_TOP_K: Final = 10
MAX_TOP_K: Final = 50
NEAREST: Final = 3
CACHED_LINES: Final = 4_096
NAMED_SERVERS: Final = 12
PAGE_TOKENS: Final = 600  # ten cards with a note, or fewer cards and a schema
MAX_SCHEMA_CHARS: Final = 16 * PAGE_TOKENS  # a longer schema does not fit a page, and is not counted

NOTES: Final[dict[Signal, str]] = {
    "ok": "",
    "ambiguous": "Several tools fit about equally well:",
    "no_match": "No tool fits this query. The nearest:",
}
NOTHING: Final = "No tool fits this query. The path / lists what there is."


@dataclass(frozen=True)
class CardPage:
    """The cards that answer a query or a path, and how far to trust them."""

    cards: Sequence[ChoiceCard]
    signal: Signal = "ok"
    confidence: float | None = None
    notice: str = ""  # of servers that are not up
    schema: Hydrated | None = None  # of the best card, where it fits

    def text(self) -> str:
        """What the model reads."""
        lines = [self.notice] if self.notice else []
        if self.cards:
            lines.append(render_page(self.cards, note=NOTES[self.signal]))
        elif not self.notice:
            lines.append(NOTHING)
        if self.schema is not None:
            lines.append(self.schema.text)
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """What programs read: scores too."""
        cards = [card.as_json() for card in self.cards]
        body: dict[str, Any] = {"signal": self.signal, "confidence": self.confidence, "cards": cards}
        if self.notice:
            body["notice"] = self.notice
        if self.schema is not None:
            body["schema"] = {"id": self.schema.id, "args_schema": self.schema.args_schema}
        return body


@dataclass(frozen=True)
class Hydrated:
    """The argument schema of one card on a page, so that its tool can be called without tool_hydrate."""

    id: str
    args_schema: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        return f"args of {self.id}: {write_compact(self.args_schema)}"


def browse(shelf: Shelf, query: object, path: object, top_k: object, count: Callable[[str], int]) -> CardPage:
    """A page of cards of one kind: for a query the best first, for a path what is there."""
    if (query is None) == (path is None):
        raise GatewayError("ARGS_INVALID", "give exactly one of query and path")
    if type(top_k) is not int or not 1 <= top_k <= MAX_TOP_K:
        raise GatewayError("ARGS_INVALID", f"top_k is a whole number from 1 to {MAX_TOP_K}")
    if path is not None:
        if not isinstance(path, str):
            raise GatewayError("ARGS_INVALID", "path is a text")
        return CardPage(list_path(shelf.tree, path, count=count))
    if not isinstance(query, str) or not query.strip():
        raise GatewayError("ARGS_INVALID", "query is a text that is not empty")
    route = shelf.router.route(query, top_k=top_k)
    candidates = route.candidates[:NEAREST] if route.signal == "no_match" else route.candidates
    scores = {candidate.item.id: candidate.score for candidate in candidates}
    items = [candidate.item for candidate in candidates]
    cards = make_choice_cards(items, scores=scores, count=count, cache=shelf.cards)
    return CardPage(cards, route.signal, route.confidence)


def add_schema(page: CardPage, schema: Hydrated, count: Callable[[str], int]) -> CardPage:
    """The page with the argument schema of one of its tools; as it is where that takes more than PAGE_TOKENS."""
    if len(schema.text) > MAX_SCHEMA_CHARS:
        return page
    larger = replace(page, schema=schema)
    return larger if count(larger.text()) <= PAGE_TOKENS else page


def describe_servers(states: Mapping[str, str], *, with_names: bool) -> str:
    """A line about servers that are not up, by their states; empty if all are, or if only some of them are missing and
    the caller may not know their names."""
    missing = {name: state for name, state in states.items() if state != "up"}
    if not missing or (len(missing) < len(states) and not with_names):
        return ""
    named = [f"{name} ({state})" for name, state in [*missing.items()][:NAMED_SERVERS]]
    listed = f": {', '.join(named)}{' and more' if len(missing) > NAMED_SERVERS else ''}" if with_names else ""
    if len(missing) < len(states):
        return f"Some servers are not up, and what they offer may be missing{listed}."
    if "starting" in missing.values():
        return f"No server is up yet{listed}. Try again in a few seconds."
    return f"All servers are down{listed}. The operator can run `leafgate doctor`."


def hydrate(snapshot: Snapshot, tool_id: object) -> tuple[SelectableItem, dict[str, Any]]:
    """A tool, and everything that a caller needs to call it."""
    item = snapshot.item(tool_id)
    hydration = snapshot.catalog.hydrate(item.id)
    body: dict[str, Any] = {"id": item.id, "description": item.description, "args_schema": hydration.args_schema}
    if hydration.output_schema is not None:
        body["output_schema"] = hydration.output_schema
    return item, body


def write_compact(value: Mapping[str, Any]) -> str:
    """JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def stable_order(
    states: BrowseStates | None, request: Request, cards: Sequence[ChoiceCard]
) -> Sequence[ChoiceCard]:
    """The cards with those that this client has seen first, so that pages begin alike; unchanged without states.

    A store that fails costs the stable order, and never the page.
    """
    if states is None:
        return cards
    try:
        page, after = StableBrowse(await states.load(request.caller)).page(cards)
        await states.save(request.caller, after.cards)
    except StoreError as error:
        log.warning("a page is not stable, because the cards seen before cannot be read or kept: %s", error)
        return cards
    return page


async def remember_hydration(states: BrowseStates | None, request: Request, item_id: str) -> None:
    """Keep that this client has seen this item."""
    if states is None:
        return
    try:
        before = StableBrowse(await states.load(request.caller))
        after = before.after_hydration(item_id)
        if after is not before:
            await states.save(request.caller, after.cards)
    except StoreError as error:
        log.warning("a hydration is not remembered: %s", error)


class DefinitionWeight:
    """The tokens of every definition. A description may change under the same id, so items are compared."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._count_line = lru_cache(CACHED_LINES)(count)
        self._weights: Mapping[str, tuple[SelectableItem, int]] = {}
        self._sums: WeakKeyDictionary[Catalog, int] = WeakKeyDictionary()

    def learn(self, catalog: Catalog) -> None:
        """Count what is new in this catalog, and forget what is not in it. For a thread: it takes long."""
        self._weights = {item.id: (item, self._weigh(item)) for item in catalog}

    def weigh_catalog(self, catalog: Catalog) -> int | None:
        """The tokens of all its definitions; None before they were counted, and if there are none."""
        if not self._weights:
            return None
        if catalog not in self._sums:
            weights = [self._look_up(item) for item in catalog]
            if None in weights:
                return None
            self._sums[catalog] = sum(each for each in weights if each is not None)
        return self._sums[catalog]

    def weigh_page(self, text: str) -> int:
        """The tokens of a page of cards, line by line: the same cards come again and again.

        No token of the bundled maps goes on behind a line feed and a letter. The line feed that the last line does not
        have may count as one more.
        """
        return sum(self._count_line(f"{line}\n") for line in text.split("\n"))

    def _look_up(self, item: SelectableItem) -> int | None:
        entry = self._weights.get(item.id)
        return entry[1] if entry is not None and (entry[0] is item or entry[0] == item) else None

    def _weigh(self, item: SelectableItem) -> int:
        weight = self._look_up(item)
        if weight is not None:
            return weight
        # As a client without a gateway puts it before its model.
        definition = {"name": item.upstream_name, "description": item.description, "inputSchema": item.args_schema}
        return self._count(write_compact(definition))
