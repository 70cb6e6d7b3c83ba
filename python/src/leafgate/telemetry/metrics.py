"""Counts what the gateway does, in memory: the Recorder port, the status fields, and the sums that replicas share.

Bounded in the number of servers, tools, maps and operations. The first leaf, shim and rejection of a map is logged.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final, Literal, TypeGuard

import anyio

from leafgate.model.envelope import Origin
from leafgate.model.errors import FAULT_OF, ErrorCode, StoreError
from leafgate.model.request import Served
from leafgate.ports import CallEnd, Counts, LeafReport, SharedCounts
from leafgate.telemetry.counters import (
    MAX_MAPS,
    OTHER,
    Histogram,
    History,
    LeafCounts,
    LeafTable,
    LeafTotals,
    ToolCalls,
    label,
    row_label,
    totals_of,
)

log = logging.getLogger("leafgate.codec")
state_log = logging.getLogger("leafgate.state")

MAX_ERRORS: Final = 100
SYNC_SECONDS: Final = 2.0
MAX_SERVERS: Final = 1_000
MAX_OPERATIONS: Final = 100
MAX_EVENTS: Final = 10_000  # of those that are logged once
CALLS: Final = ("tool_execute", "tools/call")  # the operations that call a tool

CodecWork = Literal["verify", "tokenize", "own", "detokenize"]
Saver = Literal["cards", "digests"]
Failed = ErrorCode | Literal["tool_error"]
Outcome = Failed | Literal["ok", "cancelled"]


class CallCounts:
    """The requests of one operation, or to one server (every attempt)."""

    def __init__(self) -> None:
        self.outcomes = Counter[Outcome]()
        self.durations = Histogram()

    def add(self, end: CallEnd, seconds: float) -> None:
        self.outcomes[end or "ok"] += 1
        self.durations.add(seconds)

    def as_json(self) -> dict[str, Any]:
        return {
            "calls": self.durations.total,
            "errors": self.durations.total - self.outcomes["ok"] - self.outcomes["cancelled"],
            "tool_errors": self.outcomes["tool_error"],
            "outcomes": dict(self.outcomes),
            "seconds": {"sum": round(self.durations.seconds, 6), **self.durations.percentiles()},
        }


class Metrics:
    """Implements Recorder."""

    def __init__(self, now: Callable[[], str], clock: Callable[[], float] = time.time) -> None:
        self.since = now()
        self.other_processes: LeafTotals | None = None  # earlier ones, and replicas with the same store
        self.history = History(clock)
        self.leaves = LeafTable()
        self.operations: defaultdict[str, CallCounts] = defaultdict(CallCounts)
        self.upstreams: defaultdict[str, CallCounts] = defaultdict(CallCounts)
        self.tool_calls = ToolCalls()
        self.own = Counter[str]()
        self.detokenized_by_map = Counter[str]()
        self.codec_seconds = dict[CodecWork, float].fromkeys(("verify", "tokenize", "own", "detokenize"), 0.0)
        self.digests = Counter[str]()
        self.cards = Counter[str]()
        self.instructions: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.saved: dict[Saver, int] = {"cards": 0, "digests": 0}
        self.flows = Counter[tuple[str, ...]]()  # by source, destination, kind and effect
        self._clock = clock
        # The last requests that failed, latest first, by names and codes only: nothing that a client or a server sent.
        self._recent_errors: deque[dict[str, Any]] = deque(maxlen=MAX_ERRORS)
        self._events: set[tuple[str, ...]] = set()

    def leaf(self, origin: Origin, map_digest: str, report: LeafReport) -> None:
        self.leaves.add(origin, map_digest, report)
        self.history.leaf(report)
        self.codec_seconds["verify"] += report.verify_seconds
        self.codec_seconds["tokenize"] += report.tokenize_seconds
        self._log_once(origin, map_digest, report)

    def own_text(self, map_digest: str, tokens: int, seconds: float) -> None:
        self.own["texts"] += 1
        self.own["tokens"] += tokens
        self.codec_seconds["own"] += seconds

    def detokenized(self, map_digest: str, tokens: int, seconds: float) -> None:
        self.detokenized_by_map[row_label(map_digest, self.detokenized_by_map, MAX_MAPS)] += 1
        self.codec_seconds["detokenize"] += seconds

    def call(self, served: Served, end: CallEnd, seconds: float) -> None:
        self.operations[row_label(served.operation, self.operations, MAX_OPERATIONS)].add(end, seconds)
        if served.tool and served.operation in CALLS:
            self.tool_calls.add(Origin(served.server, served.tool), served.principal or "", end or "ok", seconds)
        for flow in served.flows:
            row = tuple(label(flow[name]) for name in ("from", "to", "kind", "effect"))
            self.flows[row if row in self.flows or len(self.flows) < MAX_SERVERS else (OTHER,) * len(row)] += 1
        self.history.call(failed=_is_error(end))
        if _is_error(end):
            request = {"correlation_id": served.correlation_id, "operation": served.operation}
            error = {"server": label(served.server), "code": end, "fault": _fault_of(end)}
            error |= {"tool": label(served.tool)} if served.tool else {}
            self._recent_errors.appendleft({"t": round(self._clock(), 3), **request, **error})

    def upstream(self, server: str, end: CallEnd, seconds: float) -> None:
        self.upstreams[row_label(server, self.upstreams, MAX_SERVERS)].add(end, seconds)
        self.history.upstream(server, seconds, failed=_is_error(end))

    def shortened(self, origin: Origin, whole: int, shown: int) -> None:
        self.digests["texts"] += 1
        self.digests["tokens_withheld"] += whole
        self.digests["tokens_shown"] += shown
        self.saved["digests"] += max(0, whole - shown)

    def instructed(self, server: str, action: Literal["flagged", "quarantined"]) -> None:
        self.instructions[row_label(server, self.instructions, MAX_SERVERS)][action] += 1

    def browsed(self, whole: int, shown: int) -> None:
        self.cards["browses"] += 1
        self.cards["tokens_whole"] += whole
        self.cards["tokens_shown"] += shown
        self.saved["cards"] += max(0, whole - shown)

    def shim_metrics(self) -> dict[str, Any]:
        """The counters under the names that other leaf-aware gateways use."""
        totals = self._totals()
        by_vocab: dict[str, dict[str, int]] = {
            digest: {
                "detokenizeCalls": totals.detokenized[digest],
                "tokenizeCalls": counts.blocks["shim"],
                "leafBypasses": counts.blocks["leaf"],
                "rejectedLeaves": counts.rejected.total(),
            }
            for digest in (*totals.leaves.by_map, *totals.detokenized)
            for counts in (totals.leaves.by_map.get(digest, LeafCounts()),)
        }
        return {
            "detokenizeCalls": totals.detokenized.total(),
            "tokenizeCalls": sum(vocab["tokenizeCalls"] for vocab in by_vocab.values()),
            "leafBypasses": sum(vocab["leafBypasses"] for vocab in by_vocab.values()),
            "rejectedLeaves": totals.leaves.rejections(),
            "byVocab": by_vocab,
            "since": totals.since,
        }

    def as_json(self) -> dict[str, Any]:
        """Everything but the history."""
        rows = [
            {"server": row.server, "tool": row.tool, "map_id": row.map_digest, **counts.as_json()}
            for row, counts in self._totals().leaves.rows()
        ]
        return {"leaves": rows, "tool_calls": self.tool_calls.as_json(), **self.summary()}

    def summary(self) -> dict[str, Any]:
        """The part whose size does not depend on the number of tools."""
        errors, faults = Counter[str](), Counter[str]()
        for outcome, times in sum((counts.outcomes for counts in self.operations.values()), Counter[Outcome]()).items():
            if _is_error(outcome):
                errors[outcome] += times
                faults[_fault_of(outcome)] += times
        return {
            "codec": self.shim_metrics(),
            "codec_seconds": {kind: round(seconds, 6) for kind, seconds in self.codec_seconds.items()},
            "graduate_next": [graduate._asdict() for graduate in self._totals().leaves.graduates()],
            "own": dict(self.own),
            "shortened": dict(self.digests),
            "cards": dict(self.cards),
            "tokens_saved": dict(self.saved),
            "instructions": {server: dict(counts) for server, counts in sorted(self.instructions.items())},
            "flows": [
                {"from": source, "to": target, "kind": kind, "effect": effect, "times": times}
                for (source, target, kind, effect), times in self.flows.items()
            ],
            "calls": {operation: counts.durations.total for operation, counts in self.operations.items()},
            "errors": dict(errors),
            "faults": dict(faults),
            "upstream_calls": {server: counts.as_json() for server, counts in sorted(self.upstreams.items())},
            "recent_errors": [*self._recent_errors],
        }

    def own_totals(self) -> LeafTotals:
        """What this process counted of leaves."""
        return LeafTotals(self.leaves, self.detokenized_by_map, self.since)

    def _totals(self) -> LeafTotals:
        """The same with what other processes counted, if they share a store."""
        own = self.own_totals()
        return own if self.other_processes is None else own.plus(self.other_processes)

    def _log_once(self, origin: Origin, map_digest: str, report: LeafReport) -> None:
        short, server, reason = map_digest.removeprefix("sha256:")[:12], origin.server, report.rejected
        if reason is not None and self._is_new("rejected", map_digest, server, reason):
            log.warning("[Codec][leaf] ids of %s for map %s… dropped, computed again: %s", server, short, reason)
        if report.outcome == "leaf" and self._is_new("leaf", map_digest):
            log.info("[Codec][leaf] a tool returned its own ids for map %s…: passed through", short)
        if report.outcome == "shim" and report.leaf_seconds is not None and self._is_new("shim", map_digest):
            self._log_shim(short, report.tokenize_seconds, report.leaf_seconds)

    def _log_shim(self, short: str, shim: float, leaf: float) -> None:
        """Say that results are tokenized here; and that leaves would save something, only where they would."""
        if leaf < shim:
            line = "[Codec][shim] tokenizing tool results for map %s…: a leaf server would save %.0f %% of this time"
            log.warning(line, short, 100 * (1 - leaf / shim))
        else:
            log.info("[Codec][shim] tokenizing tool results for map %s…: it costs no more than checking leaves", short)

    def _is_new(self, *event: str) -> bool:
        if event in self._events or len(self._events) >= MAX_EVENTS:
            return False
        self._events.add(event)
        return True


def _is_error(end: CallEnd | Outcome) -> TypeGuard[Failed]:
    return end not in (None, "ok", "cancelled")


def _fault_of(end: Failed) -> str:
    """Whose fault an error is: one of those of the error codes, or the tool's own."""
    return "tool" if end == "tool_error" else FAULT_OF[end]


class CountSync:
    """Adds what this process counted of leaves to a store, and reads what other processes counted.

    What could not be added is added the next time: a failing store loses only the last counts of a killed process.
    """

    def __init__(self, metrics: Metrics, store: SharedCounts, *, pause_seconds: float = SYNC_SECONDS) -> None:
        self._metrics = metrics
        self._store = store
        self._pause_seconds = pause_seconds
        self._stored: dict[tuple[str, ...], float] = {}
        self._fails = False

    async def run(self) -> None:
        """Synchronize every few seconds, until cancelled."""
        while True:
            await anyio.sleep(self._pause_seconds)
            await self.sync()

    async def sync(self) -> None:
        """Synchronize once. If the store fails, nothing changes, and the first failure is logged."""
        own = self._metrics.own_totals().counts()
        try:
            new = self._beyond_stored(own)
            if new:
                await self._store.add(new, self._metrics.since)
                self._stored = own
            sums, since = await self._store.sums()
        except StoreError as error:
            if not self._fails:
                state_log.warning("the counters of leaves cannot be stored at the moment: %s", error)
            self._fails = True
        else:
            self._fails = False
            self._metrics.other_processes = totals_of(self._beyond_stored(sums), since)

    def _beyond_stored(self, counts: Counts) -> dict[tuple[str, ...], float]:
        more = ((name, times - self._stored.get(name, 0)) for name, times in counts.items())
        return {name: times for name, times in more if times > 0}
