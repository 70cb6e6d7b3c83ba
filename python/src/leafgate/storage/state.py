"""Where a gateway keeps what lasts: one choice for all six ports. In: their settings. Out: fillings of the ports.

Nouns only: the three fillings are memory_state, sqlite_state and redis_state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from leafgate.admission.quota import RateLimits
from leafgate.ports import ArtifactStore, BrowseStates, Quotas, ResultCache, Sessions, SharedCounts
from leafgate.storage.result_cache import CacheBounds

MAX_NAMES: Final = 50_000  # counters that a store sums up; further ones are not counted


class State(Protocol):
    """What one gateway, or all that share a store, remember."""

    async def open(self) -> None:
        """StoreError where the store cannot be used. Without it, the first use finds out."""
        ...

    async def close(self) -> None: ...

    def artifacts(self, quota_of: Callable[[str], int | None]) -> ArtifactStore: ...

    def results(self, bounds: CacheBounds) -> ResultCache: ...

    def quotas(self, limits: RateLimits, space: str) -> Quotas:
        """`space` names the limits: those of one name are counted together, in all gateways."""
        ...

    def browse_states(self) -> BrowseStates: ...

    def shared_counts(self) -> SharedCounts | None:
        """None where nothing outlives the process and nobody shares it."""
        ...

    def sessions(self) -> Sessions | None:
        """The same."""
        ...
