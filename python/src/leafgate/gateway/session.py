"""What a gateway remembers of each client between requests: the cards it has seen. Bounded: the oldest client goes.

In: an owner. Out: its StableBrowse, and the place to put the next one. Touches memory only.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from leafgate.browse.stable import StableBrowse

MAX_OWNERS: Final = 1_000


class BrowseMemory:
    """The browse state of every client that browses with stable pages."""

    def __init__(self, capacity: int = MAX_OWNERS) -> None:
        self._capacity = capacity
        self._states: OrderedDict[str, StableBrowse] = OrderedDict()

    def of(self, owner: str) -> StableBrowse:
        return self._states.get(owner) or StableBrowse()

    def keep(self, owner: str, state: StableBrowse) -> None:
        self._states[owner] = state
        self._states.move_to_end(owner)
        while len(self._states) > self._capacity:
            self._states.popitem(last=False)

    def forget_all(self) -> None:
        """A new catalog: what was seen may no longer exist."""
        self._states.clear()
