"""Counts what the gateway does. In: the Recorder port's calls. Out: numbers for people and machines.

Touches the clock once, for `since`. The first leaf, shim and rejection of a map is logged, as operators know it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from leafgate.model.call import Origin
from leafgate.model.errors import FAULT_OF, ErrorCode
from leafgate.ports import LeafReport

log = logging.getLogger("leafgate.codec")


@dataclass
class LeafCounts:
    """The fate of the text blocks of one (server, tool, map)."""

    blocks: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    verify_seconds: float = 0.0
    tokenize_seconds: float = 0.0

    def add(self, report: LeafReport) -> None:
        self.blocks[report.outcome] += 1
        self.tokens[report.outcome] += report.tokens
        if report.rejected is not None:
            self.reasons[report.rejected] += 1
        self.verify_seconds += report.verify_seconds
        self.tokenize_seconds += report.tokenize_seconds

    def as_json(self) -> dict[str, Any]:
        return {
            "blocks": dict(self.blocks),
            "tokens": dict(self.tokens),
            "rejected": dict(self.reasons),
            "seconds": {"verify": round(self.verify_seconds, 6), "tokenize": round(self.tokenize_seconds, 6)},
        }


class Metrics:
    """Fills the Recorder port, in memory."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._since = now()
        self._leaves: dict[tuple[str, str, str], LeafCounts] = {}
        self._own = Counter[str]()
        self._detokenized = Counter[str]()
        self._calls = Counter[str]()
        self._errors = Counter[str]()
        self._faults = Counter[str]()
        self._shortened = Counter[str]()
        self._logged: set[tuple[str, ...]] = set()

    def leaf(self, origin: Origin, map_digest: str, report: LeafReport) -> None:
        self._leaves.setdefault((origin.server, origin.tool, map_digest), LeafCounts()).add(report)
        self._log_once(origin, map_digest, report)

    def own_text(self, map_digest: str, tokens: int, seconds: float) -> None:
        self._own["texts"] += 1
        self._own["tokens"] += tokens

    def detokenized(self, map_digest: str, tokens: int, seconds: float) -> None:
        self._detokenized[map_digest] += 1

    def call(self, operation: str, error: ErrorCode | None, seconds: float) -> None:
        self._calls[operation] += 1
        if error is not None:
            self._errors[error] += 1
            self._faults[FAULT_OF[error]] += 1

    def shortened(self, origin: Origin, whole: int, shown: int) -> None:
        self._shortened["texts"] += 1
        self._shortened["tokens_withheld"] += whole
        self._shortened["tokens_shown"] += shown

    def shim_metrics(self) -> dict[str, Any]:
        """The counters under the names that operators of leaf-aware gateways know."""
        by_vocab: dict[str, dict[str, int]] = {}
        for (_, _, map_digest), counts in sorted(self._leaves.items()):
            vocab = by_vocab.setdefault(map_digest, {"tokenizeCalls": 0, "leafBypasses": 0, "rejectedLeaves": 0})
            vocab["tokenizeCalls"] += counts.blocks["shim"]
            vocab["leafBypasses"] += counts.blocks["leaf"]
            vocab["rejectedLeaves"] += counts.reasons.total()
        return {
            "detokenizeCalls": self._detokenized.total(),
            "tokenizeCalls": sum(v["tokenizeCalls"] for v in by_vocab.values()),
            "leafBypasses": sum(v["leafBypasses"] for v in by_vocab.values()),
            "rejectedLeaves": self._rejected_by_reason(),
            "byVocab": by_vocab,
            "since": self._since,
        }

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        tools = [
            {"server": server, "tool": tool, "map_id": map_digest, **counts.as_json()}
            for (server, tool, map_digest), counts in sorted(self._leaves.items())
        ]
        return {
            "codec": self.shim_metrics(),
            "leaves": tools,
            "own": dict(self._own),
            "shortened": dict(self._shortened),
            "calls": dict(self._calls),
            "errors": dict(self._errors),
            "faults": dict(self._faults),
        }

    def _rejected_by_reason(self) -> dict[str, int]:
        total = Counter[str]()
        for counts in self._leaves.values():
            total.update(counts.reasons)
        return dict(total)

    def _log_once(self, origin: Origin, map_digest: str, report: LeafReport) -> None:
        short = map_digest.removeprefix("sha256:")[:12]
        if report.rejected is not None and self._is_new("rejected", map_digest, origin.server, report.rejected):
            reason = report.rejected
            log.warning("[Codec][leaf] ids of %s for map %s… dropped and re-made: %s", origin.server, short, reason)
        if report.outcome == "leaf" and self._is_new("leaf", map_digest):
            log.info("[Codec][leaf] a tool returned its own ids for map %s…: passed through", short)
        if report.outcome == "shim" and self._is_new("shim", map_digest):
            log.warning("[Codec][shim] tokenizing tool results for map %s…: a leaf server would save this", short)

    def _is_new(self, *event: str) -> bool:
        known = event in self._logged
        self._logged.add(event)
        return not known
