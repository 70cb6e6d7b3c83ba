"""Counts calls on a Redis server. In: an owner and scopes. Out: a breach, or none and the calls are counted.

Touches the network. Looking and counting are one script, so that limits hold exactly over all replicas. The clock is
the server's. Counts end by themselves: those of a minute after it, those of a session after a day without a call.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final

from leafgate.admission.quota import WINDOW, Limit, RateLimits
from leafgate.ports import QuotaBreach
from leafgate.storage.owner_name import name_of
from leafgate.storage.quotas import SESSION_SECONDS
from leafgate.storage.redis_link import PREFIX, RedisLink

_JUDGE: Final = """
local counted, call, window, session = ARGV[1] == '1', ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local now = tonumber(ARGV[5])
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

for place, key in ipairs(KEYS) do
  local per_minute, per_session = tonumber(ARGV[4 + 2 * place]), tonumber(ARGV[5 + 2 * place])
  if per_session >= 0 and tonumber(redis.call('GET', key .. ':sum') or 0) >= per_session then
    return {place, 'session', -1}
  end
  if per_minute >= 0 then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now - window)
    redis.call('ZREMRANGEBYSCORE', key, now + window, '+inf')
    local calls = redis.call('ZCARD', key)
    if calls >= per_minute then
      if per_minute == 0 then return {place, 'minute', -1} end
      local leaving = redis.call('ZRANGE', key, calls - per_minute, calls - per_minute, 'WITHSCORES')[2]
      return {place, 'minute', leaving + window - now}
    end
  end
end

if counted then
  for place, key in ipairs(KEYS) do
    if tonumber(ARGV[4 + 2 * place]) >= 0 then
      redis.call('ZADD', key, now, call)
      redis.call('PEXPIRE', key, 2 * window)
    end
    if tonumber(ARGV[5 + 2 * place]) >= 0 then
      redis.call('INCR', key .. ':sum')
      redis.call('EXPIRE', key .. ':sum', session)
    end
  end
end
return false
"""


class RedisQuotas:
    """Fills the Quotas port. `space` keeps the counts of different limits apart."""

    def __init__(
        self,
        link: RedisLink,
        limits: RateLimits,
        *,
        space: str = "",
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` stands in for the server's."""
        self._limits = limits
        self._space = name_of(space)
        self._clock = clock
        self._judging = link.script(_JUDGE)

    async def take(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        return await self._judged(owner, scopes, counted=True)

    async def peek(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        return await self._judged(owner, scopes, counted=False)

    async def _judged(self, owner: str, scopes: Sequence[str], *, counted: bool) -> QuotaBreach | None:
        limited = [(scope, limit) for scope in scopes if (limit := self._limits.limit_of(scope)) is not None]
        if not limited:
            return None
        keys = [f"{PREFIX}:q:{self._space}:{name_of(owner)}:{name_of(scope)}" for scope, _ in limited]
        now = -1 if self._clock is None else round(self._clock() * 1000)
        about = (int(counted), secrets.token_hex(8), round(WINDOW * 1000), SESSION_SECONDS, now)
        found = await self._judging(keys, [*about, *(bound for _, limit in limited for bound in _bounds(limit))])
        if found is None:
            return None
        place, which, wait = found
        scope, retry_after = limited[place - 1][0], None if wait < 0 else wait / 1000
        if which == b"session":
            return QuotaBreach(scope, "max_calls_per_session", retry_after)
        return QuotaBreach(scope, "max_calls_per_minute", retry_after)


def _bounds(limit: Limit) -> tuple[int, int]:
    """-1 is no limit."""
    per_minute, per_session = limit.max_calls_per_minute, limit.max_calls_per_session
    return -1 if per_minute is None else per_minute, -1 if per_session is None else per_session
