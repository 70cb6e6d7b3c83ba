"""Artifacts on a Redis server. In: an owner and an artifact. Out: a handle that only that owner can use, anywhere.

Touches the network. The same rules as in memory (storage/memory); each step is one script, so that replicas cannot
come between. Times are the server's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leafgate.model.envelope import Artifact
from leafgate.storage.artifact_record import artifact_of, is_handle, new_handle, record_of
from leafgate.storage.memory import DEFAULT_CAPACITY, DEFAULT_QUOTA, DEFAULT_TTL, ENTRY_COST
from leafgate.storage.owner_name import name_of
from leafgate.storage.redis_link import PREFIX, RedisLink

_KEY: Final = f"{PREFIX}:a"

# Under P: lru, age (owner:handle by last use, by end), of:<owner> (handles by use), id:<owner> (handles by identity),
# e:<owner>:<handle> (an entry), c:<digest> (content), refs (entries by digest), bytes (by owner, and * for all), tick.
_COMMON: Final = """
local P, cost = KEYS[1], tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function drop(owner, handle)
  local entry, member = P .. ':e:' .. owner .. ':' .. handle, owner .. ':' .. handle
  local found = redis.call('HMGET', entry, 'digest', 'size', 'length', 'identity')
  redis.call('ZREM', P .. ':lru', member)
  redis.call('ZREM', P .. ':age', member)
  redis.call('ZREM', P .. ':of:' .. owner, handle)
  if not found[1] then return end
  redis.call('DEL', entry)
  redis.call('HDEL', P .. ':id:' .. owner, found[4])
  if redis.call('HINCRBY', P .. ':bytes', owner, -found[2]) <= 0 then redis.call('HDEL', P .. ':bytes', owner) end
  local less = cost
  if redis.call('HINCRBY', P .. ':refs', found[1], -1) <= 0 then
    redis.call('HDEL', P .. ':refs', found[1])
    redis.call('DEL', P .. ':c:' .. found[1])
    less = less + found[3]
  end
  redis.call('HINCRBY', P .. ':bytes', '*', -less)
end

local function split(member)
  local colon = string.find(member, ':', 1, true)
  return string.sub(member, 1, colon - 1), string.sub(member, colon + 1)
end

local function touch(owner, handle)
  local tick = redis.call('INCR', P .. ':tick')
  redis.call('ZADD', P .. ':lru', tick, owner .. ':' .. handle)
  redis.call('ZADD', P .. ':of:' .. owner, tick, handle)
end

-- Some at a time: nobody waits for thousands.
for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. ':age', '-inf', now, 'LIMIT', 0, 200)) do
  drop(split(member))
end
"""

_PUT: Final = (
    _COMMON
    + """
local owner, handle, identity, digest = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local about, length, quota, capacity, ttl, packed = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local content, size = P .. ':c:' .. digest, length + cost

local function used(by) return tonumber(redis.call('HGET', P .. ':bytes', by) or 0) end

local known = redis.call('HGET', P .. ':id:' .. owner, identity)
if known and redis.call('EXISTS', content) == 1 then
  touch(owner, known)
  redis.call('ZADD', P .. ':age', now + ttl, owner .. ':' .. known)
  redis.call('PEXPIRE', content, 2 * ttl)
  return known
end
if known then drop(owner, known) end

local more = cost
if redis.call('HINCRBY', P .. ':refs', digest, 1) == 1 then more = more + length end
redis.call('SET', content, packed, 'PX', 2 * ttl)
redis.call('HINCRBY', P .. ':bytes', '*', more)
redis.call('HINCRBY', P .. ':bytes', owner, size)
redis.call('HSET', P .. ':e:' .. owner .. ':' .. handle,
  'about', about, 'digest', digest, 'size', size, 'length', length, 'identity', identity)
redis.call('HSET', P .. ':id:' .. owner, identity, handle)
redis.call('ZADD', P .. ':age', now + ttl, owner .. ':' .. handle)
touch(owner, handle)

while used(owner) > tonumber(quota) do
  local oldest = redis.call('ZRANGE', P .. ':of:' .. owner, 0, 0)[1]
  if not oldest or oldest == handle then break end
  drop(owner, oldest)
end
while used('*') > tonumber(capacity) do
  local oldest = redis.call('ZRANGE', P .. ':lru', 0, 0)[1]
  if not oldest or oldest == owner .. ':' .. handle then break end
  drop(split(oldest))
end
return handle
"""
)

_GET: Final = (
    _COMMON
    + """
local owner, handle = ARGV[2], ARGV[3]
local found = redis.call('HMGET', P .. ':e:' .. owner .. ':' .. handle, 'about', 'digest')
if not found[1] then return false end
local ends = redis.call('ZSCORE', P .. ':age', owner .. ':' .. handle)
local content = redis.call('GET', P .. ':c:' .. found[2])
if not content or not ends or tonumber(ends) <= now then
  drop(owner, handle)
  return false
end
touch(owner, handle)
return {found[1], content}
"""
)

_USED: Final = "return tonumber(redis.call('HGET', KEYS[1] .. ':bytes', '*') or 0)"


class RedisArtifactStore:
    """Fills the ArtifactStore port."""

    def __init__(
        self,
        link: RedisLink,
        *,
        capacity: int = DEFAULT_CAPACITY,
        quota: int = DEFAULT_QUOTA,
        ttl: float = DEFAULT_TTL,
        quota_of: Callable[[str], int | None] = lambda owner: None,
    ) -> None:
        self._capacity = capacity
        self._quota = quota
        self._milliseconds = round(ttl * 1000)
        self._quota_of = quota_of
        self._putting = link.script(_PUT)
        self._getting = link.script(_GET)
        self._summing = link.script(_USED)

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        if len(artifact.content) + ENTRY_COST > self._capacity:
            return None
        record = await record_of(artifact)
        own = self._quota_of(owner)
        quota = self._quota if own is None else own
        who = (name_of(owner), new_handle(), record.identity, record.digest, record.about)
        bounds = (record.length, quota, self._capacity, self._milliseconds)
        handle: bytes = await self._putting([_KEY], [ENTRY_COST, *who, *bounds, record.packed])
        return handle.decode()

    async def get(self, owner: str, handle: str) -> Artifact | None:
        if not is_handle(handle):
            return None
        found = await self._getting([_KEY], [ENTRY_COST, name_of(owner), handle])
        return None if found is None else await artifact_of(found[0].decode(), found[1])

    async def used(self) -> int:
        """Bytes held, content counted once and before it is compressed."""
        return int(await self._summing([_KEY], []))
