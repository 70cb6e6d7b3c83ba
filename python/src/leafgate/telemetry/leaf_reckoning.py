"""All that is counted of leaves, as flat counts and back. In: a LeafTable and its companions. Out: Counts, and again.

Touches nothing. Names that come back from a store are checked: a kind that is not known is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, get_args

from leafgate.model.leaf import REASONS
from leafgate.ports import Counts, LeafOutcome
from leafgate.telemetry.labels import label
from leafgate.telemetry.leaf_table import LeafCounts, LeafTable, Row

_OUTCOMES: Final[tuple[LeafOutcome, ...]] = get_args(LeafOutcome)
MAX_MAPS: Final = 1_000


@dataclass(frozen=True)
class LeafReckoning:
    """Leaves and shims by tool and map, arguments that came as ids by map, and since when."""

    leaves: LeafTable
    detokenized: Counter[str]
    since: str

    def with_all_of(self, other: LeafReckoning) -> LeafReckoning:
        """The sums of both, since the earlier one."""
        since = min(self.since, other.since or self.since)
        return LeafReckoning(self.leaves.with_all_of(other.leaves), self.detokenized + other.detokenized, since)

    def counts(self) -> dict[tuple[str, ...], float]:
        """Flat: what is counted, of what, and how often."""
        rows = {name: times for row, counts in self.leaves.rows() for name, times in _flat(row, counts)}
        return rows | {("detokenized", digest): times for digest, times in self.detokenized.items()}


def reckoning_of(counts: Counts, since: str) -> LeafReckoning:
    """The same from flat counts."""
    rows: defaultdict[Row, LeafCounts] = defaultdict(LeafCounts)
    detokenized = Counter[str]()
    for name, times in counts.items():
        if len(name) == 2 and name[0] == "detokenized" and len(detokenized) < MAX_MAPS:
            detokenized[label(name[1])] += round(times)
        elif len(name) == 5:
            _count(rows[Row(*name[1:4])], name[0], name[4], times)
    table = LeafTable()
    for row, found in rows.items():
        table.put(row, found)
    return LeafReckoning(table, detokenized, since)


def _flat(row: Row, counts: LeafCounts) -> Iterator[tuple[tuple[str, ...], float]]:
    for of, counter in (("blocks", counts.blocks), ("tokens", counts.tokens), ("rejected", counts.reasons)):
        for what, times in counter.items():
            yield (of, *row, what), times
    for kind, seconds in counts.seconds().items():
        yield ("seconds", *row, kind), seconds


def _count(counts: LeafCounts, kind: str, what: str, times: float) -> None:
    outcome = next((each for each in _OUTCOMES if each == what), None)
    reason = next((each for each in REASONS if each == what), None)
    if kind == "blocks" and outcome is not None:
        counts.blocks[outcome] += round(times)
    elif kind == "tokens" and outcome is not None:
        counts.tokens[outcome] += round(times)
    elif kind == "rejected" and reason is not None:
        counts.reasons[reason] += round(times)
    elif kind == "seconds" and what == "verify":
        counts.verify_seconds += times
    elif kind == "seconds" and what == "tokenize":
        counts.tokenize_seconds += times
