"""tool_browse and tool_hydrate: what is there, how to call it. In: a snapshot, a question. Out: text for a model.

Touches nothing: ranking and cards are pure rooms, and the counter of tokens is handed in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.browse.cards import make_choice_cards, render_page
from leafgate.browse.confidence import Signal
from leafgate.browse.navigate import list_path
from leafgate.gateway.snapshot import Shelf, Snapshot
from leafgate.model.card import ChoiceCard
from leafgate.model.errors import GatewayError

DEFAULT_TOP_K: Final = 10
MAX_TOP_K: Final = 50
NEAREST: Final = 3

NOTES: Final[dict[Signal, str]] = {
    "ok": "",
    "ambiguous": "Several tools fit about equally well:",
    "no_match": "No tool fits this query. The nearest:",
}
NOTHING: Final = "No tool fits this query. The path / lists what there is."


@dataclass(frozen=True)
class Page:
    """What a browse found, before it is written down."""

    cards: Sequence[ChoiceCard]
    signal: Signal = "ok"
    confidence: float | None = None

    def text(self) -> str:
        """What the model reads."""
        return render_page(self.cards, note=NOTES[self.signal]) if self.cards else NOTHING

    def as_json(self) -> dict[str, Any]:
        """What programs read: scores too."""
        cards = [card.as_json() for card in self.cards]
        return {"signal": self.signal, "confidence": self.confidence, "cards": cards}


def browse(shelf: Shelf, query: object, path: object, top_k: object, count: Callable[[str], int]) -> Page:
    """A page of cards of one kind: for a query the best first, for a path what is there."""
    if (query is None) == (path is None):
        raise GatewayError("ARGS_INVALID", "give exactly one of query and path")
    if type(top_k) is not int or not 1 <= top_k <= MAX_TOP_K:
        raise GatewayError("ARGS_INVALID", f"top_k is a whole number from 1 to {MAX_TOP_K}")
    if path is not None:
        if not isinstance(path, str):
            raise GatewayError("ARGS_INVALID", "path is a text")
        return Page(list_path(shelf.tree, path, count=count))
    if not isinstance(query, str) or not query.strip():
        raise GatewayError("ARGS_INVALID", "query is a text that is not empty")
    found = shelf.router.route(query, top_k=top_k)
    kept = found.candidates[:NEAREST] if found.signal == "no_match" else found.candidates
    scores = {candidate.item.id: candidate.score for candidate in kept}
    items = [candidate.item for candidate in kept]
    cards = make_choice_cards(items, scores=scores, count=count, made=shelf.cards)
    return Page(cards, found.signal, found.confidence)


def hydrate(snapshot: Snapshot, tool_id: object) -> str:
    """Everything that a caller needs to call a tool, as JSON."""
    if not isinstance(tool_id, str):
        raise GatewayError("ARGS_INVALID", "tool_id is a text")
    item = snapshot.item(tool_id)
    found = snapshot.catalog.hydrate(item.id)
    body = {"id": item.id, "description": item.description, "args_schema": found.args_schema}
    if found.output_schema is not None:
        body["output_schema"] = found.output_schema
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
