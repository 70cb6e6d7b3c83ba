"""What became of text blocks, by server, tool and map. In: LeafReports. Out: sums, and which tools to wrap next.

Touches nothing. Bounded: a server with a million tool names gets MAX_TOOLS rows a map, and one for all the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from leafgate.model.call import Origin
from leafgate.model.leaf import Reason
from leafgate.ports import LeafOutcome, LeafReport
from leafgate.telemetry.labels import OTHER, label

MAX_TOOLS: Final = 250
MAX_ROWS: Final = 2_000
MAX_FOLDED: Final = 500  # rows beyond those, each for all other tools of a server
GRADUATES: Final = 20


@dataclass
class LeafCounts:
    """The fate of the text blocks of one row."""

    blocks: Counter[LeafOutcome] = field(default_factory=Counter)
    tokens: Counter[LeafOutcome] = field(default_factory=Counter)
    reasons: Counter[Reason] = field(default_factory=Counter)
    verify_seconds: float = 0.0
    tokenize_seconds: float = 0.0

    def add(self, report: LeafReport) -> None:
        self.blocks[report.outcome] += 1
        self.tokens[report.outcome] += report.tokens
        if report.rejected is not None:
            self.reasons[report.rejected] += 1
        self.verify_seconds += report.verify_seconds
        self.tokenize_seconds += report.tokenize_seconds

    def join(self, other: LeafCounts) -> None:
        self.blocks.update(other.blocks)
        self.tokens.update(other.tokens)
        self.reasons.update(other.reasons)
        self.verify_seconds += other.verify_seconds
        self.tokenize_seconds += other.tokenize_seconds

    def as_json(self) -> dict[str, Any]:
        return {
            "blocks": dict(self.blocks),
            "tokens": dict(self.tokens),
            "rejected": dict(self.reasons),
            "seconds": {kind: round(seconds, 6) for kind, seconds in self.seconds().items()},
        }

    def seconds(self) -> dict[str, float]:
        """What they cost, by the kind of work."""
        return {"verify": self.verify_seconds, "tokenize": self.tokenize_seconds}


class Row(NamedTuple):
    """Whose counts: the names are fit to be labels."""

    server: str
    tool: str
    map_digest: str


@dataclass(frozen=True)
class Graduate:
    """A tool whose results the gateway tokenizes, and what that has cost."""

    server: str
    tool: str
    blocks: int
    tokens: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "server": self.server,
            "tool": self.tool,
            "blocks": self.blocks,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 6),
        }


class LeafTable:
    """The rows."""

    def __init__(self) -> None:
        self._rows: defaultdict[Row, LeafCounts] = defaultdict(LeafCounts)
        self._maps: defaultdict[str, LeafCounts] = defaultdict(LeafCounts)
        self._tools = Counter[tuple[str, str]]()

    def add(self, origin: Origin, map_digest: str, report: LeafReport) -> None:
        row = Row(origin.server, origin.tool, map_digest)
        if row not in self._rows:
            row = self._place(Row(label(origin.server), label(origin.tool), label(map_digest)))
        self._rows[row].add(report)
        self._maps[row.map_digest].add(report)

    def put(self, row: Row, counts: LeafCounts) -> None:
        """Adds what was counted elsewhere, within the same bounds."""
        row = self._place(Row(*(label(name) for name in row)))
        self._rows[row].join(counts)
        self._maps[row.map_digest].join(counts)

    def with_all_of(self, other: LeafTable) -> LeafTable:
        """A table of the sums of both."""
        both = LeafTable()
        for table in (self, other):
            for row, counts in table._rows.items():
                both.put(row, counts)
        return both

    def rows(self) -> Iterator[tuple[Row, LeafCounts]]:
        """In the order of their names."""
        return iter(sorted(self._rows.items(), key=lambda entry: entry[0]))

    def reasons(self) -> dict[Reason, int]:
        """Why leaves were dropped, over everything."""
        return dict(sum((counts.reasons for counts in self._maps.values()), Counter[Reason]()))

    def by_map(self) -> Mapping[str, LeafCounts]:
        """The same blocks by map alone; there are never more maps than rows."""
        return self._maps

    def graduates(self) -> list[Graduate]:
        """The tools that cost the gateway most to tokenize for, dearest first: these gain most from leaves."""
        found: dict[tuple[str, str], Graduate] = {}
        for row, counts in self._rows.items():
            if counts.blocks["shim"] and row.tool != OTHER:
                before = found.get((row.server, row.tool), Graduate(row.server, row.tool, 0, 0, 0.0))
                found[row.server, row.tool] = Graduate(
                    row.server,
                    row.tool,
                    before.blocks + counts.blocks["shim"],
                    before.tokens + counts.tokens["shim"],
                    before.seconds + counts.tokenize_seconds,
                )
        dearest = sorted(found.values(), key=lambda each: (-each.seconds, -each.tokens, -each.blocks, each.tool))
        return dearest[:GRADUATES]

    def _place(self, row: Row) -> Row:
        """Where something is counted: in its own row while there is room, else in a row for all others."""
        if row in self._rows:
            return row
        if self._tools[row.server, row.map_digest] < MAX_TOOLS and len(self._rows) < MAX_ROWS:
            self._tools[row.server, row.map_digest] += 1
            return row
        folded = Row(row.server, OTHER, row.map_digest)
        has_room = folded in self._rows or len(self._rows) < MAX_ROWS + MAX_FOLDED
        return folded if has_room else Row(OTHER, OTHER, OTHER)
