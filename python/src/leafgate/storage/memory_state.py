"""Everything that a gateway keeps, in its own memory: the default. In: settings. Out: fillings of the ports.

Touches memory. A restart forgets all of it, and no other process sees it.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable

from leafgate.admission.quota import RateLimits
from leafgate.ports import ArtifactStore, BrowseStates, Quotas, ResultCache
from leafgate.storage.browse_states import MemoryBrowseStates
from leafgate.storage.memory import MemoryArtifactStore
from leafgate.storage.quotas import Counts, RateLimiter
from leafgate.storage.result_cache import CacheBounds, ToolResultCache


class MemoryState:
    """Fills State."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counts] = defaultdict(OrderedDict)

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        return None

    def artifacts(self, quota_of: Callable[[str], int | None]) -> ArtifactStore:
        return MemoryArtifactStore(quota_of=quota_of)

    def results(self, bounds: CacheBounds) -> ResultCache:
        return ToolResultCache(ttl=bounds.ttl, max_entries=bounds.max_entries, max_bytes=bounds.max_bytes)

    def quotas(self, limits: RateLimits, space: str) -> Quotas:
        return RateLimiter(limits, counts=self._counts[space])

    def browse_states(self) -> BrowseStates:
        return MemoryBrowseStates()

    def shared_counts(self) -> None:
        return None

    def sessions(self) -> None:
        return None
