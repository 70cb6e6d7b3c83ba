"""Keeps the catalog up to date and holds nobody up. In: word that offers changed. Out: a new snapshot, swapped in.

Touches a worker thread: ten thousand definitions take seconds to read, and no request waits for them. Changes that come
while a snapshot is being built are gathered into the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
from anyio import to_thread

from leafgate.gateway.runtime import GatewayRuntime
from leafgate.ports import Offers

log = logging.getLogger("leafgate.gateway")


class Refresher:
    """The one who rebuilds. `run` lives in a task of its own."""

    def __init__(self, runtime: GatewayRuntime, offers: Callable[[], Offers]) -> None:
        self._runtime = runtime
        self._offers = offers
        self._stale = anyio.Event()
        self._fresh = anyio.Event()
        self._fresh.set()

    def poke(self) -> None:
        """The offers have changed."""
        self._fresh = anyio.Event() if self._fresh.is_set() else self._fresh
        self._stale.set()

    async def caught_up(self) -> None:
        """Returns once everything that was poked for is in the snapshot."""
        if not self._fresh.is_set():
            await self._fresh.wait()

    async def run(self) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            try:
                snapshot = await to_thread.run_sync(self._runtime.prepare, self._offers())
                self._runtime.adopt(snapshot)
            except Exception:
                log.exception("the catalog could not be rebuilt; the old one stays")
            if not self._stale.is_set():
                self._fresh.set()
