"""Everything that a gateway keeps, in one SQLite file. In: a path and settings. Out: fillings of the ports.

Touches the file. It outlives the process; the processes of one machine may share it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leafgate.admission.quota import RateLimits
from leafgate.ports import ArtifactStore, BrowseStates, Quotas, ResultCache, Sessions, SharedCounts
from leafgate.storage.result_cache import CacheBounds
from leafgate.storage.sqlite_artifacts import SqliteArtifactStore
from leafgate.storage.sqlite_browse import SqliteBrowseStates
from leafgate.storage.sqlite_cache import SqliteResultCache
from leafgate.storage.sqlite_counts import SqliteSharedCounts
from leafgate.storage.sqlite_file import SqliteFile
from leafgate.storage.sqlite_quotas import SqliteQuotas
from leafgate.storage.sqlite_sessions import SqliteSessions


class SqliteState:
    """Fills State."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path)

    async def open(self) -> None:
        await self._file.open()

    async def close(self) -> None:
        await self._file.close()

    def artifacts(self, quota_of: Callable[[str], int | None]) -> ArtifactStore:
        return SqliteArtifactStore(self._file, quota_of=quota_of)

    def results(self, bounds: CacheBounds) -> ResultCache:
        return SqliteResultCache(self._file, bounds)

    def quotas(self, limits: RateLimits, space: str) -> Quotas:
        return SqliteQuotas(self._file, limits, space=space)

    def browse_states(self) -> BrowseStates:
        return SqliteBrowseStates(self._file)

    def shared_counts(self) -> SharedCounts:
        return SqliteSharedCounts(self._file)

    def sessions(self) -> Sessions:
        return SqliteSessions(self._file)
