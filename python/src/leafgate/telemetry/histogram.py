"""How long things took, in buckets. In: seconds. Out: counts per bucket, their sum, and what most of them took. Pure.

The bounds are fixed, so that two histograms can be added and a scrape never changes shape.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

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

    def quantile(self, share: float) -> float | None:
        """The duration that this share stays under, read between two bounds; None if nothing was counted."""
        total = self.total
        if total == 0:
            return None
        wanted = share * total
        reached = 0
        for index, count in enumerate(self.counts):
            if count and reached + count >= wanted:
                lower = BOUNDS[index - 1] if index else 0.0
                upper = BOUNDS[index] if index < len(BOUNDS) else BOUNDS[-1]
                return lower + (upper - lower) * (wanted - reached) / count
            reached += count
        return BOUNDS[-1]
