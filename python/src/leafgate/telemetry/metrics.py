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
from leafgate.model.leaf import Reason
from leafgate.ports import LeafOutcome

log = logging.getLogger("leafgate.codec")


@dataclass
class LeafCounts:
    """The fate of the text blocks of one (server, tool, map)."""

    blocks: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        return {"blocks": dict(self.blocks), "tokens": dict(self.tokens), "rejected": dict(self.reasons)}


class Metrics:
    """Fills the Recorder port, in memory."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._since = now()
        self._leaves: dict[tuple[str, str, str], LeafCounts] = {}
        self._own = Counter[str]()
        self._calls = Counter[str]()
        self._errors = Counter[str]()
        self._faults = Counter[str]()
        self._shortened = Counter[str]()
        self._logged: set[tuple[str, ...]] = set()

    def leaf(self, origin: Origin, map_digest: str, outcome: LeafOutcome, tokens: int, reason: Reason | None) -> None:
        counts = self._leaves.setdefault((origin.server, origin.tool, map_digest), LeafCounts())
        counts.blocks[outcome] += 1
        counts.tokens[outcome] += tokens
        if reason is not None:
            counts.reasons[reason] += 1
        self._log_once(origin, map_digest, outcome, reason)

    def own_text(self, map_digest: str, tokens: int) -> None:
        self._own["texts"] += 1
        self._own["tokens"] += tokens

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
            vocab["rejectedLeaves"] += counts.blocks["rejected"]
        return {
            "detokenizeCalls": 0,
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

    def _log_once(self, origin: Origin, map_digest: str, outcome: LeafOutcome, reason: Reason | None) -> None:
        key = (outcome, map_digest, origin.server, reason or "") if outcome == "rejected" else (outcome, map_digest)
        if key in self._logged:
            return
        self._logged.add(key)
        short = map_digest.removeprefix("sha256:")[:12]
        if outcome == "leaf":
            log.info("[Codec][leaf] a tool returned its own ids for map %s…: passed through", short)
        elif outcome == "shim":
            log.warning("[Codec][shim] tokenizing tool results for map %s…: a leaf server would save this", short)
        elif outcome == "rejected":
            log.warning("[Codec][leaf] ids of %s for map %s… dropped and re-made: %s", origin.server, short, reason)
