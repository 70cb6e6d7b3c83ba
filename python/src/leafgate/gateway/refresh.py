"""Keeps the catalog current: scans changed definitions, builds a new snapshot in a thread, and swaps it in.

Ten thousand definitions take seconds to read, so no request waits for them. Changes that arrive while a snapshot is
being built are gathered into the next one. Each definition is scanned once, by its digest: a scan takes milliseconds,
and catalogs are rebuilt often.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio
from anyio import to_thread

from leafgate.catalog.pins import digest
from leafgate.catalog.scan import Scan, scan_definition
from leafgate.gateway.runtime import GatewayRuntime
from leafgate.ports import Offers, ToolListing

log = logging.getLogger("leafgate.gateway")
scan_log = logging.getLogger("leafgate.scan")

# The scan of definitions that are shown already waits until nothing has changed for so long.
CALM_SECONDS: Final = 2.0

# Server, digest of the definition, and the names of all tools, which a poisoned one may try to shadow.
_Key = tuple[str, str, int]


@dataclass(frozen=True)
class Risk:
    """A tool whose definition was flagged, and why."""

    server: str
    tool: str
    risk: float
    kinds: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"server": self.server, "tool": self.tool, "risk": self.risk, "findings": list(self.kinds)}


class DefinitionScanner:
    """Scans definitions for poison. `hold` leaves flagged tools out of the offers."""

    def __init__(self, hold: bool = False) -> None:
        self.hold = hold
        self._scans: dict[_Key, Scan] = {}
        self.risks: tuple[Risk, ...] = ()  # of the last scan

    def scan(self, offers: Offers) -> Offers:
        """Log what is newly flagged. Returns the offers, without flagged tools and instructions where those are held
        back."""
        names: dict[str, list[str]] = {}
        for listing in offers.tools:
            names.setdefault(listing.server, []).append(_name(listing))
        all_names = hash(frozenset((server, *own) for server, own in names.items()))
        scans: dict[_Key, Scan] = {}
        risks: list[Risk] = []
        tools: list[ToolListing] = []
        texts = [ToolListing(server, {"description": text}) for server, text in offers.instructions.items()]
        for listing in (*offers.tools, *texts):
            key = (listing.server, digest(listing.definition), all_names)
            scan = scans[key] = self._scans.get(key) or _scan(listing, names)
            if scan.flagged:
                kinds = tuple(dict.fromkeys(finding.kind for finding in scan.findings))
                risks.append(Risk(listing.server, _name(listing)[:240] or "instructions", scan.risk, kinds))
            if not scan.flagged or not self.hold:
                tools.append(listing)
        for risk in risks:
            if risk not in self.risks:
                effect = "held back" if self.hold else "shown all the same"
                scan_log.warning(
                    "[%s] %s: risk %.2f (%s); %s", risk.server, risk.tool, risk.risk, ", ".join(risk.kinds), effect
                )
        self._scans, self.risks = scans, tuple(risks)
        passed = {id(listing) for listing in tools}
        instructions = {each.server: str(each.definition["description"]) for each in texts if id(each) in passed}
        return replace(offers, tools=[each for each in tools if "name" in each.definition], instructions=instructions)


def _scan(listing: ToolListing, names: Mapping[str, Sequence[str]]) -> Scan:
    others = [name for server, own in names.items() if server != listing.server for name in own]
    return scan_definition(listing.definition, others, own_names=names.get(listing.server, ()))


def _name(listing: ToolListing) -> str:
    return str(listing.definition.get("name", ""))


class Refresher:
    """Rebuilds the catalog after `poke`. `run` belongs in a separate task."""

    def __init__(
        self, runtime: GatewayRuntime, offers: Callable[[], Awaitable[Offers]], scanner: DefinitionScanner
    ) -> None:
        self._runtime = runtime
        self._scanner = scanner
        self._offers = offers
        self._stale = anyio.Event()

    def poke(self) -> None:
        """The offers have changed."""
        if self.is_caught_up:
            self._runtime.catalog_ready = anyio.Event()
        self._stale.set()

    @property
    def is_caught_up(self) -> bool:
        return self._runtime.catalog_ready.is_set()

    async def catch_up(self) -> None:
        """Return once every change that was poked for is in the snapshot."""
        await self._runtime.catalog_ready.wait()

    async def run(self) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            offers = await self._offers()
            try:
                if self._scanner.hold:  # then nothing is shown that was not scanned first
                    offers = await to_thread.run_sync(self._scanner.scan, offers)
                self._runtime.adopt(await to_thread.run_sync(self._runtime.prepare, offers))
            except Exception:
                log.exception("the catalog could not be rebuilt; the old one stays")
            if not self._stale.is_set():
                self._runtime.catalog_ready.set()
                await self._scan_later(offers)

    async def _scan_later(self, offers: Offers) -> None:
        """Scan and weigh what is shown already, unless something changes meanwhile: starting is busy enough."""
        with anyio.move_on_after(CALM_SECONDS):
            await self._stale.wait()
            return
        try:
            await to_thread.run_sync(self._runtime.weigh)
            if not self._scanner.hold:
                await to_thread.run_sync(self._scanner.scan, offers)
        except Exception:
            log.exception("the definitions could not be scanned")
