"""Pages whose beginning stays the same for each client. In: an owner and cards. Out: the cards in their stable order.

Awaits the BrowseStates port. A store that fails costs the stable order, and never the page.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from leafgate.browse.stable import StableBrowse
from leafgate.model.card import ChoiceCard
from leafgate.model.errors import StoreError
from leafgate.ports import BrowseStates

log = logging.getLogger("leafgate.gateway")


async def stable_page(states: BrowseStates | None, owner: str, cards: Sequence[ChoiceCard]) -> Sequence[ChoiceCard]:
    """Without states, the cards as they are."""
    if states is None:
        return cards
    try:
        page, after = StableBrowse(await states.seen(owner)).page(cards)
        await states.keep(owner, after.seen)
    except StoreError as error:
        log.warning("a page is not stable, because what was seen cannot be read or kept: %s", error)
        return cards
    return page


async def remember_hydrated(states: BrowseStates | None, owner: str, item_id: str) -> None:
    """Remembers that this item was hydrated."""
    if states is None:
        return
    try:
        before = StableBrowse(await states.seen(owner))
        after = before.hydrated(item_id)
        if after is not before:
            await states.keep(owner, after.seen)
    except StoreError as error:
        log.warning("a hydration is not remembered: %s", error)
