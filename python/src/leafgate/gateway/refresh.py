"""Keeps the catalog up to date and holds nobody up. In: word that offers changed. Out: a new snapshot, swapped in.

Touches a worker thread: ten thousand definitions take seconds to read, and no request waits for them. Changes that come
while a snapshot is being built are gathered into the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import anyio
from anyio import to_thread

from leafgate.gateway.runtime import GatewayRuntime
from leafgate.gateway.watch import DefinitionWatch
from leafgate.ports import Offers

log = logging.getLogger("leafgate.gateway")

CALM_SECONDS: Final = 2.0


class Refresher:
    """The one who rebuilds. `run` lives in a task of its own."""

    def __init__(self, runtime: GatewayRuntime, offers: Callable[[], Offers], watch: DefinitionWatch) -> None:
        self._runtime = runtime
        self._watch = watch
        self._offers = offers
        self._stale = anyio.Event()
        self._fresh = anyio.Event()
        self._fresh.set()

    def poke(self) -> None:
        """The offers have changed."""
        self._fresh = anyio.Event() if self._fresh.is_set() else self._fresh
        self._stale.set()

    @property
    def is_caught_up(self) -> bool:
        return self._fresh.is_set()

    async def caught_up(self) -> None:
        """Returns once everything that was poked for is in the snapshot."""
        if not self._fresh.is_set():
            await self._fresh.wait()

    async def run(self) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            offers = self._offers()
            try:
                if self._watch.hold:  # then nothing is shown that was not looked at first
                    offers = await to_thread.run_sync(self._watch.look_at, offers)
                self._runtime.adopt(await to_thread.run_sync(self._runtime.prepare, offers))
            except Exception:
                log.exception("the catalog could not be rebuilt; the old one stays")
            if not self._stale.is_set():
                self._fresh.set()
                await self._look(offers)

    async def _look(self, offers: Offers) -> None:
        """Judges and weighs what is shown already, once nothing has changed for a while: starting is busy enough."""
        with anyio.move_on_after(CALM_SECONDS):
            await self._stale.wait()
            return
        try:
            await to_thread.run_sync(self._runtime.weigh)
            if not self._watch.hold:
                await to_thread.run_sync(self._watch.look_at, offers)
        except Exception:
            log.exception("the definitions could not be scanned")
