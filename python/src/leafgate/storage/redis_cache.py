"""Results of tools on a Redis server, bounded in number, bytes and age. In: a key and a result. Out: an equal result.

Touches the network. Entries belong to a catalog: replicas with equal catalogs share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leafgate.storage.packed import pack
from leafgate.storage.redis_link import PREFIX, RedisLink
from leafgate.storage.result_cache import ENTRY_OVERHEAD, CacheBounds, read_result, written

_KEY: Final = f"{PREFIX}:r"

# Under P: k:<key> (a result, with its time), size (by key), lru (keys by last use), used (bytes), tick.
_COMMON: Final = """
local P, key = KEYS[1], ARGV[1]

local function drop(gone)
  local size = redis.call('HGET', P .. ':size', gone)
  redis.call('DEL', P .. ':k:' .. gone)
  redis.call('ZREM', P .. ':lru', gone)
  if size then
    redis.call('HDEL', P .. ':size', gone)
    redis.call('DECRBY', P .. ':used', size)
  end
end
"""
_GET: Final = (
    _COMMON
    + """
local found = redis.call('GET', P .. ':k:' .. key)
if not found then
  drop(key)
  return false
end
redis.call('ZADD', P .. ':lru', redis.call('INCR', P .. ':tick'), key)
return found
"""
)
_PUT: Final = (
    _COMMON
    + """
local size, ttl, most_entries, most_bytes = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
drop(key)
redis.call('SET', P .. ':k:' .. key, ARGV[6], 'PX', ttl)
redis.call('HSET', P .. ':size', key, size)
redis.call('ZADD', P .. ':lru', redis.call('INCR', P .. ':tick'), key)
redis.call('INCRBY', P .. ':used', size)
while redis.call('ZCARD', P .. ':lru') > most_entries or tonumber(redis.call('GET', P .. ':used')) > most_bytes do
  drop(redis.call('ZRANGE', P .. ':lru', 0, 0)[1])
end
return true
"""
)


class RedisResultCache:
    """Fills the ResultCache port. The least recently used entry goes first."""

    def __init__(self, link: RedisLink, bounds: CacheBounds) -> None:
        self._bounds = bounds
        self._getting = link.script(_GET)
        self._putting = link.script(_PUT)
        self._catalog = ""

    def epoch(self) -> str:
        return self._catalog

    def renew(self, catalog: str) -> None:
        self._catalog = catalog

    async def get(self, key: str) -> Mapping[str, Any] | None:
        packed = await self._getting([_KEY], [f"{self._catalog}:{key}"])
        return None if packed is None else read_result(packed, self._bounds.max_bytes)

    async def put(self, key: str, raw: Mapping[str, Any], epoch: str) -> None:
        content = written(raw, self._bounds.max_bytes)
        if content is None or len(content) + ENTRY_OVERHEAD > self._bounds.max_bytes:
            return
        size, ttl = len(content) + ENTRY_OVERHEAD, max(1, round(self._bounds.ttl * 1000))
        bounds = (size, ttl, self._bounds.max_entries, self._bounds.max_bytes)
        await self._putting([_KEY], [f"{epoch}:{key}", *bounds, pack(content)])
