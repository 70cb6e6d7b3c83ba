"""Counts what the gateway does. In: the Recorder port's calls. Out: numbers for people and machines.

Touches the clocks it is handed. Bounded, whatever servers are called and however many tools they have. The first leaf,
shim and rejection of a map is logged, as operators know it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Literal, TypeGuard

from leafgate.model.call import Origin
from leafgate.model.errors import FAULT_OF, ErrorCode
from leafgate.model.served import Served
from leafgate.ports import CallEnd, LeafReport
from leafgate.telemetry.histogram import Histogram
from leafgate.telemetry.history import History
from leafgate.telemetry.labels import OTHER, label
from leafgate.telemetry.leaf_reckoning import LeafReckoning
from leafgate.telemetry.leaf_table import LeafTable
from leafgate.telemetry.recent_errors import RecentErrors

log = logging.getLogger("leafgate.codec")

MAX_SERVERS: Final = 1_000
MAX_MAPS: Final = 1_000
MAX_OPERATIONS: Final = 100
MAX_LOGGED: Final = 10_000

CodecWork = Literal["verify", "tokenize", "own", "detokenize"]
Saver = Literal["cards", "digests"]
Outcome = ErrorCode | Literal["ok", "cancelled"]


class UpstreamCounts:
    """The calls to one server."""

    def __init__(self) -> None:
        self.outcomes = Counter[Outcome]()
        self.durations = Histogram()

    def as_json(self) -> dict[str, Any]:
        p50, p95 = self.durations.quantile(0.5), self.durations.quantile(0.95)
        return {
            "calls": self.durations.total,
            "errors": self.durations.total - self.outcomes["ok"] - self.outcomes["cancelled"],
            "outcomes": dict(self.outcomes),
            "seconds": {"sum": round(self.durations.seconds, 6), "p50": p50, "p95": p95},
        }


class Metrics:
    """Fills the Recorder port, in memory."""

    def __init__(self, now: Callable[[], str], clock: Callable[[], float] = time.time) -> None:
        self.since = now()
        self.elsewhere: LeafReckoning | None = None
        self.history = History(clock)
        self.recent_errors = RecentErrors(clock)
        self.leaves = LeafTable()
        self.requests = Counter[tuple[str, Outcome]]()
        self.durations: dict[str, Histogram] = {}
        self.upstreams: dict[str, UpstreamCounts] = {}
        self.own = Counter[str]()
        self.detokenized_by_map = Counter[str]()
        self.codec_seconds = dict[CodecWork, float].fromkeys(("verify", "tokenize", "own", "detokenize"), 0.0)
        self.digests = Counter[str]()
        self.cards = Counter[str]()
        self.saved: dict[Saver, int] = {"cards": 0, "digests": 0}
        self._logged: set[tuple[str, ...]] = set()

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
        known = map_digest in self.detokenized_by_map or len(self.detokenized_by_map) < MAX_MAPS
        self.detokenized_by_map[label(map_digest) if known else OTHER] += 1
        self.codec_seconds["detokenize"] += seconds

    def call(self, served: Served, end: CallEnd, seconds: float) -> None:
        operation = served.operation
        if operation not in self.durations:
            operation = label(operation) if len(self.durations) < MAX_OPERATIONS else OTHER
        self.requests[operation, end or "ok"] += 1
        self.durations.setdefault(operation, Histogram()).add(seconds)
        self.history.call(failed=_is_error(end))
        if _is_error(end):
            self.recent_errors.add(served, end)

    def upstream(self, server: str, end: CallEnd, seconds: float) -> None:
        counts = self.upstreams.get(server) or self._new_upstream(server)
        counts.outcomes[end or "ok"] += 1
        counts.durations.add(seconds)
        self.history.upstream(server, seconds, failed=_is_error(end))

    def shortened(self, origin: Origin, whole: int, shown: int) -> None:
        self.digests["texts"] += 1
        self.digests["tokens_withheld"] += whole
        self.digests["tokens_shown"] += shown
        self.saved["digests"] += max(0, whole - shown)

    def browsed(self, whole: int, shown: int) -> None:
        self.cards["browses"] += 1
        self.cards["tokens_whole"] += whole
        self.cards["tokens_shown"] += shown
        self.saved["cards"] += max(0, whole - shown)

    def shim_metrics(self) -> dict[str, Any]:
        """The counters under the names that operators of leaf-aware gateways know."""
        told = self._reckoning()
        by_vocab: dict[str, dict[str, int]] = {
            digest: {
                "detokenizeCalls": 0,
                "tokenizeCalls": counts.blocks["shim"],
                "leafBypasses": counts.blocks["leaf"],
                "rejectedLeaves": counts.reasons.total(),
            }
            for digest, counts in told.leaves.by_map().items()
        }
        for digest, calls in told.detokenized.items():
            nothing = {"detokenizeCalls": 0, "tokenizeCalls": 0, "leafBypasses": 0, "rejectedLeaves": 0}
            by_vocab.setdefault(digest, nothing)["detokenizeCalls"] = calls
        return {
            "detokenizeCalls": told.detokenized.total(),
            "tokenizeCalls": sum(vocab["tokenizeCalls"] for vocab in by_vocab.values()),
            "leafBypasses": sum(vocab["leafBypasses"] for vocab in by_vocab.values()),
            "rejectedLeaves": dict(told.leaves.reasons()),
            "byVocab": by_vocab,
            "since": told.since,
        }

    def as_json(self) -> dict[str, Any]:
        """Everything but the history."""
        rows = [
            {"server": row.server, "tool": row.tool, "map_id": row.map_digest, **counts.as_json()}
            for row, counts in self._reckoning().leaves.rows()
        ]
        return {"leaves": rows, **self.summary()}

    def summary(self) -> dict[str, Any]:
        """What stays small however many tools there are."""
        calls, errors, faults = Counter[str](), Counter[str](), Counter[str]()
        for (operation, outcome), times in self.requests.items():
            calls[operation] += times
            if _is_error(outcome):
                errors[outcome] += times
                faults[FAULT_OF[outcome]] += times
        return {
            "codec": self.shim_metrics(),
            "codec_seconds": {kind: round(seconds, 6) for kind, seconds in self.codec_seconds.items()},
            "graduate_next": [graduate.as_json() for graduate in self._reckoning().leaves.graduates()],
            "own": dict(self.own),
            "shortened": dict(self.digests),
            "cards": dict(self.cards),
            "tokens_saved": dict(self.saved),
            "calls": dict(calls),
            "errors": dict(errors),
            "faults": dict(faults),
            "upstream_calls": {server: counts.as_json() for server, counts in sorted(self.upstreams.items())},
            "recent_errors": self.recent_errors.as_json(),
        }

    def own_reckoning(self) -> LeafReckoning:
        """What this process counted of leaves."""
        return LeafReckoning(self.leaves, self.detokenized_by_map, self.since)

    def _reckoning(self) -> LeafReckoning:
        """That, and what earlier and other processes counted, where they share a store."""
        own = self.own_reckoning()
        return own if self.elsewhere is None else own.with_all_of(self.elsewhere)

    def _new_upstream(self, server: str) -> UpstreamCounts:
        shown = label(server) if len(self.upstreams) < MAX_SERVERS else OTHER
        return self.upstreams.setdefault(shown, UpstreamCounts())

    def _log_once(self, origin: Origin, map_digest: str, report: LeafReport) -> None:
        if report.rejected is not None and self._is_new("rejected", map_digest, origin.server, report.rejected):
            short, reason = _short(map_digest), report.rejected
            log.warning("[Codec][leaf] ids of %s for map %s… dropped and re-made: %s", origin.server, short, reason)
        if report.outcome == "leaf" and self._is_new("leaf", map_digest):
            log.info("[Codec][leaf] a tool returned its own ids for map %s…: passed through", _short(map_digest))
        if report.outcome == "shim" and self._is_new("shim", map_digest):
            short = _short(map_digest)
            log.warning("[Codec][shim] tokenizing tool results for map %s…: a leaf server would save this", short)

    def _is_new(self, *event: str) -> bool:
        if event in self._logged or len(self._logged) >= MAX_LOGGED:
            return False
        self._logged.add(event)
        return True


def _is_error(end: CallEnd | Outcome) -> TypeGuard[ErrorCode]:
    return end not in (None, "ok", "cancelled")


def _short(map_digest: str) -> str:
    return map_digest.removeprefix("sha256:")[:12]
