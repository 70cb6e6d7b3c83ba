"""Which cards each client has seen, on a Redis server. In: an owner and cards. Out: the same, for that owner.

Touches the network. A state belongs to a catalog, and ends after a day in which it was not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leafgate.model.card import ChoiceCard
from leafgate.storage.browse_states import NOTHING_SEEN
from leafgate.storage.owner_name import name_of
from leafgate.storage.redis_link import PREFIX, RedisLink
from leafgate.storage.stored_cards import read_cards, write_cards

DAY: Final = 86_400

_GET: Final = "return redis.call('GETEX', KEYS[1], 'EX', ARGV[1])"
_PUT: Final = "return redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])"


class RedisBrowseStates:
    """Fills the BrowseStates port."""

    def __init__(self, link: RedisLink) -> None:
        self._getting = link.script(_GET)
        self._putting = link.script(_PUT)
        self._catalog = ""

    def renew(self, catalog: str) -> None:
        self._catalog = catalog

    async def seen(self, owner: str) -> Mapping[str, ChoiceCard | None]:
        found = await self._getting([self._key(owner)], [DAY])
        return NOTHING_SEEN if found is None else read_cards(found)

    async def keep(self, owner: str, seen: Mapping[str, ChoiceCard | None]) -> None:
        cards = write_cards(seen)
        if cards is not None:
            await self._putting([self._key(owner)], [DAY, cards])

    def _key(self, owner: str) -> str:
        return f"{PREFIX}:b:{name_of(owner)}:{self._catalog}"
