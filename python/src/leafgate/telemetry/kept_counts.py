"""Keeps the counters of leaves beyond this process. In: Metrics and the SharedCounts port. Out: both agree.

Awaits the port, every few seconds and once at the end. What could not be told is told the next time: a store that fails
loses nothing but what a process counted before it was killed.
"""

from __future__ import annotations

import logging
from typing import Final

import anyio

from leafgate.model.errors import StoreError
from leafgate.ports import SharedCounts
from leafgate.telemetry.leaf_reckoning import reckoning_of
from leafgate.telemetry.metrics import Metrics

log = logging.getLogger("leafgate.state")

PAUSE_SECONDS: Final = 2.0


class KeptCounts:
    """Tells a store what was counted here, and Metrics what was counted elsewhere."""

    def __init__(self, metrics: Metrics, store: SharedCounts, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._metrics = metrics
        self._store = store
        self._pause_seconds = pause_seconds
        self._told: dict[tuple[str, ...], float] = {}
        self._fails = False

    async def run(self) -> None:
        """Lives in a task of its own, as long as the gateway does."""
        while True:
            await anyio.sleep(self._pause_seconds)
            await self.settle()

    async def settle(self) -> None:
        """Both know everything after it, unless the store fails: then it is as if this had not been called."""
        try:
            await self._settle()
        except StoreError as error:
            if not self._fails:
                log.warning("the counters of leaves cannot be kept at the moment: %s", error)
            self._fails = True
        else:
            self._fails = False

    async def _settle(self) -> None:
        own = self._metrics.own_reckoning().counts()
        new = {name: times - self._told.get(name, 0) for name, times in own.items()}
        new = {name: times for name, times in new.items() if times > 0}
        if new:
            await self._store.add(new, self._metrics.since)
            self._told = own
        sums, since = await self._store.sums()
        others = {name: times - self._told.get(name, 0) for name, times in sums.items()}
        self._metrics.elsewhere = reckoning_of({name: times for name, times in others.items() if times > 0}, since)
