"""Results on a server: shared by replicas with equal catalogs."""

from __future__ import annotations

import pytest
from redis_server import RedisServer

from leafgate.model.errors import StoreError
from leafgate.storage.redis_cache import RedisResultCache
from leafgate.storage.redis_link import RedisLink
from leafgate.storage.result_cache import CacheBounds

pytestmark = pytest.mark.anyio

RESULT = {"content": [{"type": "text", "text": "x" * 3_000}]}


async def test_replicas_with_equal_catalogs_share(redis: RedisServer) -> None:
    links = [RedisLink(redis.url) for _ in range(3)]
    one, two, other = (RedisResultCache(link, CacheBounds()) for link in links)
    for cache, catalog in ((one, "same"), (two, "same"), (other, "newer")):
        cache.renew(catalog)
    await one.put("k", RESULT, one.epoch())
    assert [await cache.get("k") for cache in (one, two, other)] == [RESULT, RESULT, None]
    for link in links:
        await link.close()


async def test_what_somebody_else_wrote_there_is_damage(redis: RedisServer) -> None:
    link = RedisLink(redis.url)
    cache = RedisResultCache(link, CacheBounds())
    await cache.put("k", RESULT, "")
    key = redis.key_with(":k:")
    await link.script("return redis.call('SET', KEYS[1], ARGV[1])")([key], [b"\x00[]"])
    with pytest.raises(StoreError, match="damaged"):
        await cache.get("k")
    await link.close()
