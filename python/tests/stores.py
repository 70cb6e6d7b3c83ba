"""The three fillings of the stores' ports, made alike, so that one test can run against all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from redis_server import RedisServer

from leafgate.admission.policy import RateLimits
from leafgate.model.rights import Quotas
from leafgate.ports import ArtifactStore, BrowseStates, FlowRecords, ResultCache, Tasks
from leafgate.state.memory import (
    MemoryArtifactStore,
    MemoryBrowseStates,
    MemoryFlowRecords,
    MemoryTasks,
    RateLimiter,
    ToolResultCache,
)
from leafgate.state.records import ArtifactLimits, CacheBounds, FlowLimits
from leafgate.state.redis import (
    RedisArtifactStore,
    RedisBrowseStates,
    RedisFlowRecords,
    RedisLink,
    RedisQuotas,
    RedisResultCache,
    RedisTasks,
)
from leafgate.state.sqlite import (
    SqliteArtifactStore,
    SqliteBrowseStates,
    SqliteFlowRecords,
    SqliteQuotas,
    SqliteResultCache,
    SqliteTasks,
)
from leafgate.state.sqlite_file import SqliteFile


class Time:
    """A clock that stands until it is moved. Starts where the hour of a day is."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Stores(Protocol):
    """One filling."""

    def artifacts(self, **bounds: Any) -> ArtifactStore: ...

    def cache(self, **bounds: Any) -> ResultCache: ...

    def quotas(self, limits: RateLimits, clock: Callable[[], float], space: str = "") -> Quotas: ...

    def browse(self) -> BrowseStates: ...

    def tasks(self) -> Tasks: ...

    def flows(self, **bounds: Any) -> FlowRecords: ...

    async def used(self, store: Any) -> int: ...


class InMemory:
    def artifacts(self, **bounds: Any) -> ArtifactStore:
        return MemoryArtifactStore(ArtifactLimits(**bounds))

    def cache(self, **bounds: Any) -> ResultCache:
        return ToolResultCache(**bounds)

    def quotas(self, limits: RateLimits, clock: Callable[[], float], space: str = "") -> Quotas:
        return RateLimiter(limits, clock=clock)

    def browse(self) -> BrowseStates:
        return MemoryBrowseStates()

    def tasks(self) -> Tasks:
        return MemoryTasks()

    def flows(self, **bounds: Any) -> FlowRecords:
        return MemoryFlowRecords(FlowLimits(**bounds))

    async def used(self, store: Any) -> int:
        return int(store.used)


class InSqlite:
    def __init__(self, path: Path) -> None:
        self.file = SqliteFile(path)

    def artifacts(self, **bounds: Any) -> ArtifactStore:
        return SqliteArtifactStore(self.file, ArtifactLimits(**bounds))

    def cache(self, **bounds: Any) -> ResultCache:
        return SqliteResultCache(self.file, CacheBounds(**bounds))

    def quotas(self, limits: RateLimits, clock: Callable[[], float], space: str = "") -> Quotas:
        return SqliteQuotas(self.file, limits, clock=clock, space=space)

    def browse(self) -> BrowseStates:
        return SqliteBrowseStates(self.file)

    def tasks(self) -> Tasks:
        return SqliteTasks(self.file)

    def flows(self, **bounds: Any) -> FlowRecords:
        return SqliteFlowRecords(self.file, FlowLimits(**bounds))

    async def used(self, store: Any) -> int:
        return int(await store.used())


class InRedis:
    def __init__(self, url: str) -> None:
        self.link = RedisLink(url)

    def artifacts(self, **bounds: Any) -> ArtifactStore:
        return RedisArtifactStore(self.link, ArtifactLimits(**bounds))

    def cache(self, **bounds: Any) -> ResultCache:
        return RedisResultCache(self.link, CacheBounds(**bounds))

    def quotas(self, limits: RateLimits, clock: Callable[[], float], space: str = "") -> Quotas:
        return RedisQuotas(self.link, limits, clock=clock, space=space)

    def browse(self) -> BrowseStates:
        return RedisBrowseStates(self.link)

    def tasks(self) -> Tasks:
        return RedisTasks(self.link)

    def flows(self, **bounds: Any) -> FlowRecords:
        return RedisFlowRecords(self.link, FlowLimits(**bounds))

    async def used(self, store: Any) -> int:
        return int(await store.used())


@asynccontextmanager
async def sqlite_stores(path: Path) -> AsyncIterator[InSqlite]:
    stores = InSqlite(path)
    try:
        yield stores
    finally:
        await stores.file.close()


@asynccontextmanager
async def redis_stores(server: RedisServer) -> AsyncIterator[InRedis]:
    stores = InRedis(server.url)
    try:
        yield stores
    finally:
        await stores.link.close()
