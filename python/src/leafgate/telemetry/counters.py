"""What metrics are built from: labels, histograms of durations, a history, and the table of leaves.

Bounded: a server with a million tool names gets MAX_TOOLS rows for each map, and one row for all other tools.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from leafgate.model.envelope import Origin
from leafgate.model.leaf import LEVELS, REASONS
from leafgate.ports import Counts, LeafOutcome, LeafReport

LONGEST: Final = 120
# Counts what is beyond a bound.
OTHER: Final = "(other)"


def label(name: str) -> str:
    """A name that every format can carry: at most LONGEST characters, all printable; equal for equal names.

    Names come from servers, so they may have any length, line breaks and lone surrogates.
    """
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name[:LONGEST])
    return text if len(name) <= LONGEST else text[:-1] + "…"


def row_label(name: str, rows: Collection[str], most: int) -> str:
    """The row to count a name in: its own while there are fewer than `most` rows, otherwise one for all others."""
    if name in rows:
        return name
    return label(name) if len(rows) < most else OTHER


# Seconds. They are fixed, so that the shape of a scrape never changes.
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Histogram:
    """Counts durations. The last bucket has no bound."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def total(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """(bound, how many took at most that), as Prometheus writes it."""
        reached = 0
        rows: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            reached += count
            rows.append((bound, float(reached)))
        return rows

    def percentiles(self) -> dict[str, float | None]:
        return {"p50": self.quantile(0.5), "p95": self.quantile(0.95)}

    def quantile(self, share: float) -> float | None:
        """The duration that this share stays under, interpolated between two bounds; None without a count."""
        total = self.total
        if total == 0:
            return None
        target = share * total
        reached = 0
        for index, count in enumerate(self.counts):
            if count and reached + count >= target:
                lower = BOUNDS[index - 1] if index else 0.0
                upper = BOUNDS[index] if index < len(BOUNDS) else BOUNDS[-1]
                return lower + (upper - lower) * (target - reached) / count
            reached += count
        return BOUNDS[-1]


# History. Old samples are dropped; a second or minute without an event has no sample.

SECONDS_KEPT: Final = 600
MINUTES_KEPT: Final = 1_440
MAX_SERVERS: Final = 64


class _Server:
    """One server within one sample."""

    __slots__ = ("durations", "errors")

    def __init__(self) -> None:
        self.durations = Histogram()
        self.errors = 0

    def as_json(self) -> dict[str, Any]:
        return {"calls": self.durations.total, "errors": self.errors, **self.durations.percentiles()}


class _Sample:
    """What happened within one second, or one minute, that began at `start`."""

    __slots__ = ("counts", "servers", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.counts = dict.fromkeys(("leaf", "shim", "skipped", "rejected", "calls", "errors"), 0)
        self.servers: defaultdict[str, _Server] = defaultdict(_Server)

    def as_json(self) -> dict[str, Any]:
        servers = {name: server.as_json() for name, server in [*self.servers.items()]}
        return {"t": self.start, **self.counts, "upstreams": servers}


class _Ring:
    """The last samples of one width in seconds."""

    def __init__(self, width: int, length: int) -> None:
        self._width = width
        self._length = length
        self._samples: deque[_Sample] = deque(maxlen=length)

    def at(self, now: float) -> _Sample:
        """The sample that `now` belongs to. A clock that is set back does not reopen old samples."""
        start = int(now) // self._width * self._width
        if not self._samples or self._samples[-1].start < start:
            self._samples.append(_Sample(start))
        return self._samples[-1]

    def since(self, moment: float, now: float) -> list[dict[str, Any]]:
        oldest = max(moment, now - self._length * self._width)
        return [sample.as_json() for sample in [*self._samples] if sample.start + self._width > oldest]


class History:
    """Samples for a chart: ten minutes by the second, a day by the minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds = _Ring(1, SECONDS_KEPT)
        self._minutes = _Ring(60, MINUTES_KEPT)

    def leaf(self, report: LeafReport) -> None:
        for sample in self._now():
            sample.counts[report.outcome] += 1
            sample.counts["rejected"] += report.rejected is not None

    def call(self, *, failed: bool) -> None:
        for sample in self._now():
            sample.counts["calls"] += 1
            sample.counts["errors"] += failed

    def upstream(self, server: str, seconds: float, *, failed: bool) -> None:
        for sample in self._now():
            counts = sample.servers[row_label(server, sample.servers, MAX_SERVERS)]
            counts.durations.add(seconds)
            counts.errors += failed

    def as_json(self, since: float = 0.0) -> dict[str, Any]:
        """The samples that were not over at `since`; the last one that a reader has may come again, with more.

        Writing a day of many servers takes a while: a thread may do it while events arrive.
        """
        now = self._clock()
        samples = {"seconds": self._seconds.since(since, now), "minutes": self._minutes.since(since, now)}
        return {"now": round(now, 3), **samples}

    def _now(self) -> tuple[_Sample, _Sample]:
        now = self._clock()
        return self._seconds.at(now), self._minutes.at(now)


# Calls of tools, by server, tool and principal.

MAX_CALL_ROWS: Final = 2_000
MAX_TIMED_TOOLS: Final = 500
MAX_PRINCIPALS: Final = 200
MAX_TOOLS_OF_SERVER: Final = 250


class ToolCalls:
    """Calls by (server, tool, principal) and their outcomes, and how long the calls of each tool took.

    Bounded: principals beyond MAX_PRINCIPALS, tools beyond MAX_TOOLS_OF_SERVER for each server, and rows beyond
    MAX_CALL_ROWS are counted under OTHER. A principal is empty where callers have no names.
    """

    def __init__(self) -> None:
        self.rows: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        self.durations: defaultdict[tuple[str, str], Histogram] = defaultdict(Histogram)
        self._principals: set[str] = set()
        self._tools: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, origin: Origin, principal: str, outcome: str, seconds: float) -> None:
        row, timed = (origin.server, origin.tool, principal), (origin.server, origin.tool)
        if row not in self.rows or timed not in self.durations:
            row, timed = self._place(origin, principal)
        self.rows[row][outcome] += 1
        self.durations[timed].add(seconds)

    def _place(self, origin: Origin, principal: str) -> tuple[tuple[str, str, str], tuple[str, str]]:
        """The rows to count in: the tool's own while there is room, otherwise those of all others."""
        principal = row_label(label(principal), self._principals, MAX_PRINCIPALS)
        self._principals.add(principal)
        server = row_label(label(origin.server), self._tools, MAX_TIMED_TOOLS)
        tool = row_label(label(origin.tool), self._tools[server], MAX_TOOLS_OF_SERVER)
        self._tools[server].add(tool)
        row = (server, tool, principal)
        if row not in self.rows and len(self.rows) >= MAX_CALL_ROWS:
            row = (OTHER, OTHER, OTHER)
        timed = (server, tool)
        if timed not in self.durations and len(self.durations) >= MAX_TIMED_TOOLS:
            timed = (OTHER, OTHER)
        return row, timed

    def as_json(self) -> list[dict[str, Any]]:
        """The rows in the order of their names."""
        return [
            {
                "server": server,
                "tool": tool,
                **({"principal": principal} if principal else {}),
                "calls": outcomes.total(),
                "errors": outcomes.total() - outcomes["ok"] - outcomes["cancelled"],
                "outcomes": dict(outcomes),
            }
            for (server, tool, principal), outcomes in sorted(self.rows.items())
        ]


# Text blocks and their leaves, by server, tool and map; and which tools to make leaf servers of next.

MAX_TOOLS: Final = 250
MAX_ROWS: Final = 2_000
MAX_FOLDED: Final = 500  # rows beyond those, each for all other tools of a server
MAX_MAPS: Final = 1_000
GRADUATES: Final = 20

LeafKind = Literal["blocks", "tokens", "rejected", "dropped", "checks", "seconds"]

# What is counted of each kind. Names that come from a store are checked against this table.
_KINDS: Final[Mapping[LeafKind, tuple[str, ...]]] = {
    "blocks": get_args(LeafOutcome),
    "tokens": get_args(LeafOutcome),
    "rejected": tuple(REASONS),
    "dropped": ("cleaned",),
    "checks": LEVELS,
    "seconds": ("verify", "tokenize", "sampled_shim", "sampled_leaf"),
}


@dataclass
class LeafCounts:
    """The text blocks of one row: their number and tokens by outcome, rejections by reason, leaves dropped because
    their text was cleaned, checks by level, and seconds by work.

    `sampled_shim` and `sampled_leaf` are the seconds that a sample of blocks took to tokenize, and what leaves of the
    same blocks would have taken.
    """

    blocks: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_KINDS["seconds"], 0.0))

    def of_kind(self, kind: LeafKind) -> Mapping[str, float]:
        counts: Mapping[str, float] = getattr(self, kind)
        return counts

    def add(self, report: LeafReport) -> None:
        self.blocks[report.outcome] += 1
        self.tokens[report.outcome] += report.tokens
        if report.rejected is not None:
            self.rejected[report.rejected] += 1
        if report.was_cleaned:
            self.dropped["cleaned"] += 1
        if report.checked is not None:
            self.checks[report.checked] += 1
        self.seconds["verify"] += report.verify_seconds
        self.seconds["tokenize"] += report.tokenize_seconds
        if report.leaf_seconds is not None:
            self.seconds["sampled_shim"] += report.tokenize_seconds
            self.seconds["sampled_leaf"] += report.leaf_seconds

    @property
    def sends_leaves(self) -> bool:
        """Whether blocks came with leaves, accepted or not."""
        return bool(self.blocks["leaf"] or self.rejected or self.dropped)

    @property
    def savable_share(self) -> float | None:
        """The share of the time for tokenizing that leaves would save, by the sample; 0 where the shim is cheaper.

        None without a sample.
        """
        shim, leaf = self.seconds["sampled_shim"], self.seconds["sampled_leaf"]
        return max(0.0, 1 - leaf / shim) if shim > 0 else None

    def join(self, other: LeafCounts) -> None:
        for kind, what, times in other.flat():
            self.count(kind, what, times)

    def count(self, kind: LeafKind, what: str, times: float) -> None:
        getattr(self, kind)[what] += times if kind == "seconds" else round(times)

    def flat(self) -> Iterator[tuple[LeafKind, str, float]]:
        for kind in _KINDS:
            for what, times in self.of_kind(kind).items():
                yield kind, what, times

    def as_json(self) -> dict[str, Any]:
        return {kind: {what: round(n, 6) for what, n in self.of_kind(kind).items()} for kind in _KINDS}


class Row(NamedTuple):
    """The names of a row, in the form of labels."""

    server: str
    tool: str
    map_digest: str


class Graduate(NamedTuple):
    """A tool whose results the gateway tokenizes, what that has cost, and how much of it leaves would have saved."""

    server: str
    tool: str
    blocks: int
    tokens: int
    seconds: float
    saves: float


class LeafTable:
    """The rows, and their sums by map."""

    def __init__(self) -> None:
        self._rows: defaultdict[Row, LeafCounts] = defaultdict(LeafCounts)
        self.by_map: defaultdict[str, LeafCounts] = defaultdict(LeafCounts)  # never more maps than rows
        self._tools = Counter[tuple[str, str]]()

    def add(self, origin: Origin, map_digest: str, report: LeafReport) -> None:
        for counts in self._counts_of(Row(origin.server, origin.tool, map_digest)):
            counts.add(report)

    def join(self, row: Row, counts: LeafCounts) -> None:
        """Add what was counted elsewhere, within the same bounds."""
        for own in self._counts_of(row):
            own.join(counts)

    def rows(self) -> list[tuple[Row, LeafCounts]]:
        """In the order of their names."""
        return sorted(self._rows.items(), key=lambda entry: entry[0])

    def rejections(self) -> dict[str, int]:
        """How many leaves were dropped, by reason, over all rows."""
        return dict(sum((counts.rejected for counts in self.by_map.values()), Counter[str]()))

    def graduates(self) -> list[Graduate]:
        """The tools whose leaves would save the gateway most time, by what was measured here; the most first.

        Tools that send leaves already, and tools that are cheaper to tokenize for, are not among them. For a tool
        without a sample of its own, that of all tools together counts.
        """
        everything = LeafCounts()
        for counts in self.by_map.values():
            everything.join(counts)
        tools: defaultdict[tuple[str, str], LeafCounts] = defaultdict(LeafCounts)
        for row, counts in self._rows.items():
            if row.tool != OTHER:
                tools[row[:2]].join(counts)
        graduates = []
        for name, sums in tools.items():
            own = sums.savable_share
            share = (everything.savable_share or 0.0) if own is None else own
            if sums.blocks["shim"] and share > 0 and not sums.sends_leaves:
                seconds = sums.seconds["tokenize"]
                times = round(seconds, 6), round(seconds * share, 6)
                graduates.append(Graduate(*name, sums.blocks["shim"], sums.tokens["shim"], *times))
        return sorted(graduates, key=lambda each: (-each.saves, -each.tokens, -each.blocks, each.tool))[:GRADUATES]

    def _counts_of(self, row: Row) -> tuple[LeafCounts, LeafCounts]:
        """The counts of the row and of its map."""
        row = row if row in self._rows else self._place(Row(*map(label, row)))
        return self._rows[row], self.by_map[row.map_digest]

    def _place(self, row: Row) -> Row:
        """The row to count in: the tool's own while there is room, otherwise one for all other tools."""
        if row in self._rows:
            return row
        if self._tools[row.server, row.map_digest] < MAX_TOOLS and len(self._rows) < MAX_ROWS:
            self._tools[row.server, row.map_digest] += 1
            return row
        folded = Row(row.server, OTHER, row.map_digest)
        has_room = folded in self._rows or len(self._rows) < MAX_ROWS + MAX_FOLDED
        return folded if has_room else Row(OTHER, OTHER, OTHER)


@dataclass(frozen=True)
class LeafTotals:
    """Everything that is counted of leaves, and since when: the table, and by map the arguments that came as ids."""

    leaves: LeafTable
    detokenized: Counter[str]
    since: str

    def plus(self, other: LeafTotals) -> LeafTotals:
        """The sums of both, since the earlier start."""
        table = LeafTable()
        for row, counts in (*self.leaves.rows(), *other.leaves.rows()):
            table.join(row, counts)
        return LeafTotals(table, self.detokenized + other.detokenized, min(self.since, other.since or self.since))

    def counts(self) -> dict[tuple[str, ...], float]:
        """The totals as flat counts, in the form that SharedCounts stores."""
        rows = {(kind, *row, what): n for row, counts in self.leaves.rows() for kind, what, n in counts.flat()}
        return rows | {("detokenized", digest): times for digest, times in self.detokenized.items()}


def totals_of(counts: Counts, since: str) -> LeafTotals:
    """The totals from flat counts. Names that are not known are left out."""
    rows: defaultdict[Row, LeafCounts] = defaultdict(LeafCounts)
    detokenized = Counter[str]()
    for name, times in counts.items():
        if len(name) == 2 and name[0] == "detokenized" and len(detokenized) < MAX_MAPS:
            detokenized[label(name[1])] += round(times)
        elif len(name) == 5:
            kind = next((each for each in _KINDS if each == name[0]), None)
            if kind is not None and name[4] in _KINDS[kind]:
                rows[Row(*name[1:4])].count(kind, name[4], times)
    table = LeafTable()
    for row, leaf_counts in rows.items():
        table.join(row, leaf_counts)
    return LeafTotals(table, detokenized, since)
