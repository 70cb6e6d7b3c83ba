"""Counts calls in memory, bounded. In: an owner and scopes. Out: a breach, or none and the calls are counted.

Touches memory and the clock it is given. Per process: several gateways behind one address each have their own counts.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from leafgate.admission.quota import RateLimits, Usage, breach
from leafgate.ports import Clock, QuotaBreach

MAX_COUNTERS: Final = 20_000
SESSION_SECONDS: Final = 86_400  # where counts outlive a process: without a call for so long, a session is over

Counts = OrderedDict[tuple[str, str], Usage]


class RateLimiter:
    """Fills the Quotas port. When there are too many counters, the one that was longest not used starts afresh.

    `counts` are those of an earlier limiter: calls that were made stay made when only the limits change.
    """

    def __init__(
        self,
        limits: RateLimits,
        *,
        counts: Counts | None = None,
        clock: Clock = time.monotonic,
        max_counters: int = MAX_COUNTERS,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._max_counters = max_counters
        self._used: Counts = OrderedDict() if counts is None else counts

    async def take(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        # Nothing is awaited between looking and counting, so two calls cannot share the last place.
        now = self._clock()
        found = self._breach(owner, scopes, now)
        if found is not None:
            return found
        for scope in scopes:
            limit = self._limits.limit_of(scope)
            if limit is not None:
                self._used[owner, scope] = self._usage(owner, scope).spent(limit, now)
                self._used.move_to_end((owner, scope))
        while len(self._used) > self._max_counters:
            self._used.popitem(last=False)
        return None

    async def peek(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        return self._breach(owner, scopes, self._clock())

    def _breach(self, owner: str, scopes: Sequence[str], now: float) -> QuotaBreach | None:
        limited = ((scope, self._limits.limit_of(scope)) for scope in scopes)
        found = (breach(scope, limit, self._usage(owner, scope), now) for scope, limit in limited if limit is not None)
        return next((each for each in found if each is not None), None)

    def _usage(self, owner: str, scope: str) -> Usage:
        return self._used.get((owner, scope), Usage())
