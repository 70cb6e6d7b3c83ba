"""From samples to figures and ratios. In: the samples of each round. Out: medians with their spread. Touches nothing.

A ratio is the median of the ratios within each round: what slows a whole round down slows both sides of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.cli.leaf_bench.sampling import Sample
from leafgate.cli.leaf_bench.ways import DECODE, FAST_CANONICAL, NO_IDS, SHIM, Way
from leafgate.cli.leaf_bench.wire_bytes import BASELINE, Weight

# What is looked at of a call, in seconds.
MEASURES: Final[Mapping[str, Callable[[Sample], float]]] = {
    "codec": lambda sample: sample.codec,
    "gateway_cpu": lambda sample: sample.gateway_cpu,
    "server_cpu": lambda sample: sample.server_cpu,
    "total_cpu": lambda sample: sample.gateway_cpu + sample.server_cpu,
    "latency": lambda sample: sample.latency,
}
TINY: Final = 1e-9  # below what any clock tells; nothing is divided by less
GOAL_SIZE: Final = 32 * 1024


@dataclass(frozen=True)
class Spread:
    """The median over the rounds, and the quarter of them that lies below and above."""

    median: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        return {name: _rounded(value) for name, value in (("median", self.median), ("q1", self.low), ("q3", self.high))}


@dataclass(frozen=True)
class Goal:
    """A promise, and what became of it."""

    way: Way
    measure: str
    most: float
    found: Spread

    @property
    def is_met(self) -> bool:
        return self.found.median <= self.most

    def as_json(self) -> dict[str, Any]:
        found = {"way": self.way.key, "measure": self.measure, "against": SHIM.key, "size": GOAL_SIZE}
        return {**found, "at_most": self.most, "ratio": self.found.as_json(), "met": self.is_met}


class Figures:
    """What the rounds of one run say."""

    def __init__(self, rounds: Sequence[Sequence[Sample]]) -> None:
        self._rounds = [{(sample.size, sample.way): sample for sample in samples} for samples in rounds]
        self.rounds = len(self._rounds)
        self.sizes = sorted({size for size, _ in self._rounds[0]})
        self.ways = {way for _, way in self._rounds[0]}

    def value(self, size: int, way: str, measure: str) -> Spread:
        return spread(self._each(size, way, measure))

    def ratio(self, size: int, way: str, measure: str, against: str = SHIM.key) -> Spread:
        pairs = zip(self._each(size, way, measure), self._each(size, against, measure), strict=True)
        return spread([mine / max(other, TINY) for mine, other in pairs])

    def ids_cpu(self, size: int, way: str) -> Spread:
        """What the gateway uses beyond the same call without ids. Of small calls it is noise, and may be below 0."""
        pairs = zip(self._each(size, way, "gateway_cpu"), self._each(size, NO_IDS.key, "gateway_cpu"), strict=True)
        return spread([mine - plain for mine, plain in pairs])

    def goals(self) -> list[Goal]:
        """Each promise measured twice: the work on ids alone, and the whole call with transport and JSON."""
        promises = [(DECODE, 0.25), (FAST_CANONICAL, 0.5)]
        return [
            Goal(way, measure, most, self.ratio(GOAL_SIZE, way.key, measure))
            for way, most in promises
            if way.key in self.ways and GOAL_SIZE in self.sizes
            for measure in ("codec", "gateway_cpu")
        ]

    def _each(self, size: int, way: str, measure: str) -> list[float]:
        return [MEASURES[measure](samples[size, way]) for samples in self._rounds]


class Weights:
    """Bytes of answers, summed over the kinds of text."""

    def __init__(self, weights: Sequence[Weight]) -> None:
        self._sums: dict[tuple[int, str, str], int] = {}
        for weight in weights:
            key = weight.size, weight.form, weight.format
            self._sums[key] = self._sums.get(key, 0) + weight.bytes

    def ratio(self, size: int, form: str, format: str) -> float:
        """To plain JSON with gzip."""
        return self._sums[size, form, format] / self._sums[size, *BASELINE]


def spread(values: Sequence[float]) -> Spread:
    if len(values) < 2:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
