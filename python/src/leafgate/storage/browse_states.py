"""Which cards each client has seen, in memory, bounded. In: an owner and cards. Out: the same, for that owner.

Touches memory only. When there are too many owners, the one that was longest not heard of is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from leafgate.model.card import ChoiceCard

MAX_OWNERS: Final = 1_000
NOTHING_SEEN: Final[Mapping[str, ChoiceCard | None]] = MappingProxyType({})


class MemoryBrowseStates:
    """Fills the BrowseStates port."""

    def __init__(self, max_owners: int = MAX_OWNERS) -> None:
        self._max_owners = max_owners
        self._seen: OrderedDict[str, Mapping[str, ChoiceCard | None]] = OrderedDict()

    async def seen(self, owner: str) -> Mapping[str, ChoiceCard | None]:
        return self._seen.get(owner, NOTHING_SEEN)

    async def keep(self, owner: str, seen: Mapping[str, ChoiceCard | None]) -> None:
        self._seen[owner] = seen
        self._seen.move_to_end(owner)
        while len(self._seen) > self._max_owners:
            self._seen.popitem(last=False)

    def renew(self, catalog: str) -> None:
        self._seen.clear()
