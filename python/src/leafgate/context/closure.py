"""What an item cannot be understood without. In: a place in Holdings. Out: that place and those it needs.

Touches nothing. Parents are followed one by one, never recursively, up to a turn: a turn stands for itself. A circle
ends where it began.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from leafgate.context.holdings import Holdings
from leafgate.model.context import ItemKind

TURNS: Final = frozenset((ItemKind.user_turn, ItemKind.agent_msg))
# A result without its call, or a call without its turn, misleads: where the session lacks the one, the other stays out.
DEPENDENT: Final = frozenset((ItemKind.tool_result, ItemKind.tool_call))


@dataclass(frozen=True)
class Closure:
    """Places that go together, the one that was asked for first. `lacks` is a parent without which they may not go."""

    places: tuple[int, ...]
    lacks: str | None = None


def closure_of(holdings: Holdings, place: int, taken: Container[int], most: int) -> Closure:
    """The places that are not taken yet; beyond so many the caller has no room anyway, and no more are looked for."""
    found: dict[int, None] = {}
    at: int | None = place
    while at is not None and at not in found and at not in taken and len(found) <= most:
        found[at] = None
        item = holdings[at]
        if item.parent_id is None or item.kind in TURNS:
            break
        at = holdings.place_of(item.parent_id)
        if at is None and item.kind in DEPENDENT:
            return Closure(tuple(found), item.parent_id)
    return Closure(tuple(found))
