"""Keeps the catalog current: scans changed definitions, builds a new snapshot in a thread, and swaps it in.

Ten thousand definitions take seconds to read, so requests wait for the first snapshot only. Changes that arrive while a
snapshot is being built are gathered into the next one. Each definition is scanned once, by its digest, and once more
when a name changes that it mentions: a scan takes milliseconds, and catalogs are rebuilt often.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final

import anyio
from anyio import to_thread

from leafgate.catalog.pins import digest
from leafgate.catalog.scan import FLAG_AT, Scan, ScanFinding, scan_definition
from leafgate.catalog.tool_names import OtherNames, ToolNames
from leafgate.catalog.twins import Twin, find_twins, list_pairs
from leafgate.clean.result import CleaningTimeout
from leafgate.gateway.clean_process import CleanProcesses, ScanRecord
from leafgate.gateway.runtime import GatewayRuntime
from leafgate.gateway.snapshot import Snapshot
from leafgate.gateway.workload import estimate_size
from leafgate.ports import Offers, ToolListing

log = logging.getLogger("leafgate.gateway")
scan_log = logging.getLogger("leafgate.scan")

# What is done after a rebuild waits until nothing has changed for so long; at the start, not longer than START_SECONDS.
CALM_SECONDS: Final = 2.0
START_SECONDS: Final = 10.0
# Bytes of new definitions of one server that a rebuild scans, which takes some ten seconds; more are flagged unread.
MAX_SCANNED: Final = 8 * 1024 * 1024
# At the start, servers whose definitions take longer to scan than this in all are shown first, and scanned later.
FIRST_SCAN_SECONDS: Final = 2.0
SCAN_SECONDS: Final = 1.5e-6  # for a byte of a definition, roughly
UNREAD: Final = Scan(0.0)
NOT_SCANNED: Final = Scan(FLAG_AT, (ScanFinding("oversize", "", FLAG_AT, "too many definitions at once"),))
# New definitions of one server that are scanned in its process: a definition takes 1 ms, and the process 1 ms in all.
PROCESS_FROM: Final = 64
PROCESS_FROM_AT_START: Final = 400  # a process takes half a second to start, for which clients would wait
MAX_LOGGED: Final = 20  # risks in the log for one rebuild; the status has all of them


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
    """Scans definitions for poison. `hold` leaves flagged tools out of the offers; twins are reported only.

    Many new definitions of a server are scanned in its process, if there are processes.
    """

    def __init__(self, hold: bool = False, processes: CleanProcesses | None = None) -> None:
        self.hold = hold
        self.risks: tuple[Risk, ...] = ()
        self.unread: frozenset[str] = frozenset()  # the servers whose definitions have still to be scanned
        self.twins: tuple[Twin, ...] = ()
        self._processes = processes
        self._scans: dict[tuple[str, str], ScanRecord] = {}  # by server and digest of the definition
        self._compared: frozenset[tuple[str, str]] = frozenset()

    def scan(self, offers: Offers, seconds: float = math.inf) -> Offers:
        """The offers, without what is held back. What cannot be scanned within so many seconds is left for the next
        time: of the servers with the most new definitions."""
        texts = [ToolListing(server, {"description": text}) for server, text in offers.instructions.items()]
        listings = [(each, (each.server, digest(each.definition))) for each in (*offers.tools, *texts)]
        scans = self._scan_new(listings, monotonic() + seconds)
        risks: list[Risk] = []
        tools: list[ToolListing] = []
        for listing, key in listings:
            scan = scans[key][0] if key in scans else UNREAD if listing.server in self.unread else NOT_SCANNED
            if scan.flagged:
                kinds = tuple(dict.fromkeys(finding.kind for finding in scan.findings))
                risks.append(Risk(listing.server, _name(listing)[:240] or "instructions", scan.risk, kinds))
            if not scan.flagged or not self.hold:
                tools.append(listing)
        self._log(risks)
        self._compare(listings)
        self._scans, self.risks = scans, tuple(risks)
        passed = {id(listing) for listing in tools}
        instructions = {each.server: str(each.definition["description"]) for each in texts if id(each) in passed}
        return replace(offers, tools=[each for each in tools if "name" in each.definition], instructions=instructions)

    def _scan_new(
        self, listings: Iterable[tuple[ToolListing, tuple[str, str]]], until: float
    ) -> dict[tuple[str, str], ScanRecord]:
        """The scans of these definitions, of which those that are as before are not repeated. Some are left out: of
        one server so many bytes are scanned at once."""
        names_by_server: dict[str, list[str]] = {}
        for listing, _ in listings:
            names_by_server.setdefault(listing.server, []).append(_name(listing))
        names = ToolNames(names_by_server)
        scans: dict[tuple[str, str], ScanRecord] = {}
        new: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {}
        sizes: Counter[str] = Counter()
        for listing, key in listings:
            earlier = self._scans.get(key)
            if earlier is not None and earlier[1].has_same_answers(names):
                scans[key] = earlier
                continue
            sizes[listing.server] += estimate_size(listing.definition, limit=MAX_SCANNED)
            if sizes[listing.server] <= MAX_SCANNED:
                new.setdefault(listing.server, {})[key] = listing.definition
        unread: set[str] = set()
        for server in sorted(new, key=lambda each: sizes[each]):
            if monotonic() + SCAN_SECONDS * sizes[server] > until:
                unread.add(server)
                continue
            definitions = [*new[server].values()]
            is_many = len(definitions) >= (PROCESS_FROM if until == math.inf else PROCESS_FROM_AT_START)
            records = self._scan_server(server, definitions, names_by_server, names, in_process=is_many)
            scans |= zip(new[server], records, strict=False)  # no records: it took too long
        self.unread = frozenset(unread)
        return scans

    def _scan_server(
        self,
        server: str,
        definitions: Sequence[Mapping[str, Any]],
        by_server: Mapping[str, list[str]],
        names: ToolNames,
        *,
        in_process: bool,
    ) -> Iterable[ScanRecord]:
        if in_process and self._processes is not None:
            try:
                return self._processes.process_of(server).scan(server, definitions, by_server)
            except CleaningTimeout:
                return ()
            except OSError as error:
                log.debug("definitions are not scanned in a process: %s", error)
        others = [OtherNames(names, server) for _ in definitions]
        return [(scan_definition(each, other), other) for each, other in zip(definitions, others, strict=True)]

    def _compare(self, listings: Iterable[tuple[ToolListing, tuple[str, str]]]) -> None:
        """Find the twins of tools, and log the pairs of servers that had none before."""
        tools = {key: listing.definition for listing, key in listings if "name" in listing.definition}
        if self._compared == tools.keys():
            return
        self._compared = frozenset(tools)
        before = {(each.server, each.other_server) for each in self.twins}
        self.twins = tuple(find_twins([(server, definition) for (server, _), definition in tools.items()]))
        pairs = [each for each in list_pairs(self.twins) if (each["server"], each["other"]) not in before]
        for pair in pairs[:MAX_LOGGED]:
            names = ", ".join(each["tool"] for each in pair["tools"][:3])
            message = "[%s] tools with the name or text of tools of %s: %d (%s)"
            scan_log.warning(message, pair["server"], pair["other"], pair["count"], names)

    def _log(self, risks: Iterable[Risk]) -> None:
        """Log the risks that are new. A server that changes all its tools all the time does not fill the log."""
        effect = "held back" if self.hold else "shown all the same"
        before = {*self.risks}
        new = [risk for risk in risks if risk not in before]
        for risk in new[:MAX_LOGGED]:
            kinds = ", ".join(risk.kinds)
            scan_log.warning("[%s] %s: risk %.2f (%s); %s", risk.server, risk.tool, risk.risk, kinds, effect)
        if len(new) > MAX_LOGGED:
            scan_log.warning("%d more definitions were flagged; %s", len(new) - MAX_LOGGED, effect)


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
        self._first_build: float | None = None
        self._has_scanned = False

    def poke(self) -> None:
        """The offers have changed."""
        self._runtime.changes.announce()
        self._stale.set()

    async def run(self) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            number = self._runtime.changes.announced
            offers = await self._offers()
            try:
                self._runtime.adopt(await self._build(offers))
            except Exception:
                log.exception("the catalog could not be rebuilt; the old one stays")
            self._runtime.changes.show(number)
            await self._finish(offers)

    async def _build(self, offers: Offers) -> Snapshot:
        """A snapshot of the offers, which are scanned before it is shown. At the start, when clients wait for their
        first list, the scan takes so long at most, unless something may be held back."""
        if self._scanner.hold:
            offers = await to_thread.run_sync(self._scanner.scan, offers)
            return await to_thread.run_sync(self._runtime.prepare, offers)
        async with anyio.create_task_group() as group:  # nothing is left out: both at the same time
            group.start_soon(self._scan, offers, math.inf if self._has_scanned else FIRST_SCAN_SECONDS)
            snapshot = await to_thread.run_sync(self._runtime.prepare, offers)
        return snapshot  # noqa: RET504  after the scan

    async def _scan(self, offers: Offers, seconds: float = math.inf) -> None:
        try:
            await to_thread.run_sync(self._scanner.scan, offers, seconds)
        except Exception:
            log.exception("the definitions could not be scanned")

    async def _finish(self, offers: Offers) -> None:
        """Weigh what is shown, and scan what was not scanned at the start, unless something changes meanwhile: that is
        shown first."""
        now = anyio.current_time()
        self._first_build = self._first_build or now
        start_ends = self._first_build + START_SECONDS
        is_scanned = not self._scanner.unread
        with anyio.CancelScope(deadline=now + CALM_SECONDS if is_scanned else min(now + CALM_SECONDS, start_ends)):
            await self._stale.wait()
        is_calm = not self._stale.is_set()
        if is_calm or anyio.current_time() >= start_ends:
            self._has_scanned = True
            if not is_scanned:
                await self._scan(offers)
        if is_calm:
            try:
                await to_thread.run_sync(self._runtime.weigh)
            except Exception:
                log.exception("the definitions could not be weighed")
