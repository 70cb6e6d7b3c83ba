"""The cards that somebody has seen, as bytes. In: cards by id. Out: packed JSON; or the cards again.

Touches nothing. What a store gives back is checked: bytes that are no cards are a StoreError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from leafgate.model.card import ChoiceCard
from leafgate.model.errors import StoreError
from leafgate.storage.packed import pack, unpack

# Of JSON, for one owner: what is beyond is not kept, and pages are then no longer stable.
MOST_BYTES: Final = 8 * 1024 * 1024


def write_cards(seen: Mapping[str, ChoiceCard | None]) -> bytes | None:
    """None where there are too many."""
    told = {item_id: None if card is None else card.as_json() for item_id, card in seen.items()}
    data = json.dumps(told, separators=(",", ":")).encode()
    return pack(data) if len(data) <= MOST_BYTES else None


def read_cards(content: bytes) -> dict[str, ChoiceCard | None]:
    try:
        told = json.loads(unpack(content, MOST_BYTES))
        return {item_id: None if card is None else _card(card) for item_id, card in told.items()}
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise StoreError(f"the cards of a browse state cannot be read: {type(error).__name__}") from None


def _card(told: dict[str, Any]) -> ChoiceCard:
    return ChoiceCard(**{**told, "tags": tuple(told["tags"])})
