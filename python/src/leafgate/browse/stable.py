"""Browse pages whose beginning stays the same bytes, for clients that cache prompts (spec 2.10).

In: the cards of one browse, and what the session has seen. Out: cards seen before, as they were first seen, then a
marker, then new ones; and the state that follows. Touches nothing: a state is a value, the session keeps the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from leafgate.model.card import ChoiceCard

BREAKPOINT_ID: Final = "__cache_breakpoint__"
BREAKPOINT: Final = ChoiceCard(id=BREAKPOINT_ID, name="cache breakpoint", description="", kind="internal")


@dataclass(frozen=True)
class StableBrowse:
    """What a session has browsed or hydrated: ids, each with its card as it was first sighted, if it was."""

    seen: Mapping[str, ChoiceCard | None] = field(default_factory=lambda: MappingProxyType({}))

    def page(self, cards: Iterable[ChoiceCard]) -> tuple[list[ChoiceCard], StableBrowse]:
        """The cards in stable order, and the state after they were shown."""
        given = {card.id: card for card in cards if card.id != BREAKPOINT_ID}
        known = [self.seen[item_id] or given[item_id] for item_id in sorted(given) if item_id in self.seen]
        fresh = [given[item_id] for item_id in sorted(given) if item_id not in self.seen]
        marker = [BREAKPOINT] if known and fresh else []
        sighted = {card.id: card for card in (*known, *fresh)}
        return [*known, *marker, *fresh], StableBrowse(MappingProxyType({**self.seen, **sighted}))

    def hydrated(self, item_id: str) -> StableBrowse:
        """The state after a hydration that succeeded. A failed one is not told here, and so leaves no trace."""
        if item_id in self.seen:
            return self
        return StableBrowse(MappingProxyType({**self.seen, item_id: None}))
