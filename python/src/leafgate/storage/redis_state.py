"""Everything that gateways keep, on a Redis or Valkey server. In: its URL and settings. Out: fillings of the ports.

Touches the network. All replicas that name the same server and database share it. Needs the extra `redis`.
"""

from __future__ import annotations

from collections.abc import Callable

from leafgate.admission.quota import RateLimits
from leafgate.ports import ArtifactStore, BrowseStates, Quotas, ResultCache, Sessions, SharedCounts
from leafgate.storage.redis_artifacts import RedisArtifactStore
from leafgate.storage.redis_browse import RedisBrowseStates
from leafgate.storage.redis_cache import RedisResultCache
from leafgate.storage.redis_counts import RedisSharedCounts
from leafgate.storage.redis_link import RedisLink
from leafgate.storage.redis_quotas import RedisQuotas
from leafgate.storage.redis_sessions import RedisSessions
from leafgate.storage.result_cache import CacheBounds


class RedisState:
    """Fills State."""

    def __init__(self, url: str) -> None:
        self._link = RedisLink(url)

    async def open(self) -> None:
        await self._link.open()

    async def close(self) -> None:
        await self._link.close()

    def artifacts(self, quota_of: Callable[[str], int | None]) -> ArtifactStore:
        return RedisArtifactStore(self._link, quota_of=quota_of)

    def results(self, bounds: CacheBounds) -> ResultCache:
        return RedisResultCache(self._link, bounds)

    def quotas(self, limits: RateLimits, space: str) -> Quotas:
        return RedisQuotas(self._link, limits, space=space)

    def browse_states(self) -> BrowseStates:
        return RedisBrowseStates(self._link)

    def shared_counts(self) -> SharedCounts:
        return RedisSharedCounts(self._link)

    def sessions(self) -> Sessions:
        return RedisSessions(self._link)
