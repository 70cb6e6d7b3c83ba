"""Sums of counters over all replicas, on a Redis server. In: counts to add. Out: everything that was ever added.

Touches the network. A process tells what it has counted altogether, and the server adds what is new in that: so nothing
is added twice where an answer was lost, and nothing is lost where the server forgot.
"""

from __future__ import annotations

import json
import secrets
from typing import Final

from leafgate.model.errors import StoreError
from leafgate.ports import Counts
from leafgate.storage.redis_link import PREFIX, RedisLink
from leafgate.storage.state import MAX_NAMES

# After so long without a word from a process, what it said before is only in the sums.
RUN_SECONDS: Final = 7 * 86_400

_KEYS: Final = (f"{PREFIX}:n:sums", f"{PREFIX}:n:since")

_ADD: Final = """
local sums, since, run = KEYS[1], KEYS[2], KEYS[3]
redis.call('SET', since, ARGV[1], 'NX')
for place = 4, #ARGV, 2 do
  local name, times = ARGV[place], tonumber(ARGV[place + 1])
  local new = times - tonumber(redis.call('HGET', run, name) or 0)
  local has_room = redis.call('HEXISTS', sums, name) == 1 or redis.call('HLEN', sums) < tonumber(ARGV[2])
  if new > 0 and has_room then
    redis.call('HINCRBYFLOAT', sums, name, string.format('%.17g', new))
    redis.call('HSET', run, name, ARGV[place + 1])
  end
end
redis.call('EXPIRE', run, ARGV[3])
return true
"""
_SUMS: Final = """
redis.call('EXPIRE', KEYS[3], ARGV[1])
return {redis.call('HGETALL', KEYS[1]), redis.call('GET', KEYS[2])}
"""


class RedisSharedCounts:
    """Fills the SharedCounts port, for one process."""

    def __init__(self, link: RedisLink) -> None:
        self._adding = link.script(_ADD)
        self._summing = link.script(_SUMS)
        self._keys = (*_KEYS, f"{PREFIX}:n:run:{secrets.token_hex(8)}")
        self._mine: dict[tuple[str, ...], float] = {}

    async def add(self, counts: Counts, since: str) -> None:
        whole = {name: self._mine.get(name, 0) + times for name, times in counts.items()}
        told = [part for name, times in whole.items() for part in (json.dumps(name), repr(float(times)))]
        await self._adding(self._keys, [since, MAX_NAMES, RUN_SECONDS, *told])
        self._mine |= whole

    async def sums(self) -> tuple[Counts, str]:
        listed, since = await self._summing(self._keys, [RUN_SECONDS])
        try:
            sums = {tuple(json.loads(name)): float(times) for name, times in zip(*[iter(listed)] * 2, strict=True)}
        except (ValueError, TypeError):
            raise StoreError("the counters in the store are damaged") from None
        return sums, "" if since is None else since.decode()
