"""What was seen, on a server: known to every replica with the same catalog."""

from __future__ import annotations

import pytest
from redis_server import RedisServer

from leafgate.model.card import ChoiceCard
from leafgate.storage.redis_browse import RedisBrowseStates
from leafgate.storage.redis_link import RedisLink

pytestmark = pytest.mark.anyio

SEEN = {"a": ChoiceCard("a", "a", "first"), "b": None}


async def test_another_replica_knows_it(redis: RedisServer) -> None:
    links = [RedisLink(redis.url) for _ in range(2)]
    one, two = (RedisBrowseStates(link) for link in links)
    for states in (one, two):
        states.renew("catalog")
    await one.keep("ann", SEEN)
    assert await two.seen("ann") == SEEN
    assert await two.seen("ben") == {}
    for link in links:
        await link.close()
