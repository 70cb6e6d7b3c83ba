"""Medians, ratios and conclusions of a run.

A ratio is the median of the ratios within each round: whatever slows a whole round slows both sides of it.
`conclude` puts the figures into sentences, also where leaf loses.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leaf.gateways import (
    CANONICAL,
    DECODE,
    FAST_CANONICAL,
    FAST_SAMPLED,
    FAST_SHIM,
    NO_IDS,
    NONE_WANTED,
    PACKED,
    SAMPLED,
    SHIM,
    TRUST,
    UNASKED,
    Way,
)
from leaf.measure import BASELINE, Sample, Weight

# The measures of a call, in seconds.
MEASURES: Final[Mapping[str, Callable[[Sample], float]]] = {
    "codec": lambda sample: sample.codec,
    "gateway_cpu": lambda sample: sample.gateway_cpu,
    "server_cpu": lambda sample: sample.server_cpu,
    "total_cpu": lambda sample: sample.gateway_cpu + sample.server_cpu,
    "latency": lambda sample: sample.latency,
}
TINY: Final = 1e-9  # below any clock's resolution; no divisor is smaller
GOAL_SIZE: Final = 32 * 1024
# Goals of packed leaves for the gateway's CPU of the whole call: from this size on, and at a large one.
PACKED_FROM: Final = 4 * 1024
LARGE: Final = 100 * 1024
# A ratio this near to 1 is a draw on a machine that others use too; so is one with middle rounds on both sides of 1.
DRAW: Final = 0.05
ENOUGH: Final = 3  # rounds for a meaningful spread

_TITLES: Final = {
    "codec": "work on ids alone (checking or tokenizing)",
    "gateway_cpu": "the gateway's CPU for the whole call",
    "total_cpu": "CPU of gateway and server together",
    "latency": "time until the answer",
}


@dataclass(frozen=True)
class Spread:
    """The median over the rounds, and the quarter of them that lies below and above."""

    median: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        return {name: _round(value) for name, value in (("median", self.median), ("q1", self.low), ("q3", self.high))}


@dataclass(frozen=True)
class Goal:
    """A limit on a ratio, and the ratio that was measured."""

    way: Way
    measure: str
    most: float
    ratio: Spread
    size: int = GOAL_SIZE
    against: Way = SHIM

    @property
    def is_met(self) -> bool:
        return self.ratio.median <= self.most

    def as_json(self) -> dict[str, Any]:
        subject = {"way": self.way.key, "measure": self.measure, "against": self.against.key, "size": self.size}
        return {**subject, "at_most": self.most, "ratio": self.ratio.as_json(), "met": self.is_met}


class Figures:
    """The samples of one run, by round."""

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
        """Return the gateway's CPU beyond a call without ids. For small calls it is noise and may be negative."""
        pairs = zip(self._each(size, way, "gateway_cpu"), self._each(size, NO_IDS.key, "gateway_cpu"), strict=True)
        return spread([mine - plain for mine, plain in pairs])

    def goals(self) -> list[Goal]:
        """Return the goals of arrays twice, for the work on ids alone and for the whole call; then those of packed ids,
        for the whole call."""
        limits = [(DECODE, 0.25), (FAST_CANONICAL, 0.5)]
        goals = [
            Goal(way, measure, most, self.ratio(GOAL_SIZE, way.key, measure))
            for way, most in limits
            if way.key in self.ways and GOAL_SIZE in self.sizes
            for measure in ("codec", "gateway_cpu")
        ]
        packed = [(size, SHIM, 0.35 if size == LARGE else 0.6) for size in self.sizes if size >= PACKED_FROM]
        packed += [(size, FAST_SHIM, 1.0) for size in self.sizes if size >= PACKED_FROM]
        return goals + [
            Goal(PACKED, "gateway_cpu", most, self.ratio(size, PACKED.key, "gateway_cpu", other.key), size, other)
            for size, other, most in packed
            if {PACKED.key, other.key} <= self.ways
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
        """Return the bytes as a multiple of plain JSON with gzip."""
        return self._sums[size, form, format] / self._sums[size, *BASELINE]


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the quartiles."""
    if len(values) < 2:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def conclude(figures: Figures, weights: Weights) -> list[str]:
    """Return one sentence for each conclusion."""
    words = [*_warning(figures), *(_goal(goal) for goal in figures.goals()), *_floor(figures)]
    duels = [(way, SHIM, "gateway_cpu") for way in (PACKED, SAMPLED, DECODE, TRUST, CANONICAL, FAST_CANONICAL)]
    duels += [(DECODE, SHIM, "total_cpu"), (DECODE, SHIM, "latency")]
    duels += [
        (way, FAST_SHIM, measure) for way in (PACKED, FAST_SAMPLED, DECODE) for measure in ("gateway_cpu", "total_cpu")
    ]
    words += [_compared(figures, *duel) for duel in duels if {way.key for way in duel[:2]} <= figures.ways]
    return [*words, _server(figures), *_unasked(figures), _bytes(figures, weights)]


def main_size(figures: Figures) -> int:
    """Return the size to show where only one is shown."""
    return GOAL_SIZE if GOAL_SIZE in figures.sizes else max(figures.sizes)


def size_words(size: int) -> str:
    for unit, bytes in (("MB", 1024 * 1024), ("KB", 1024)):
        if size >= bytes and size % bytes == 0:
            return f"{size // bytes} {unit}"
    return f"{size} B"


def _warning(figures: Figures) -> Iterator[str]:
    if figures.rounds < ENOUGH:
        yield f"Rounds: {figures.rounds}. With fewer than {ENOUGH} of them, wins and losses below may be noise."


def _goal(goal: Goal) -> str:
    verdict = "met" if goal.is_met else "MISSED"
    return (
        f"Goal {verdict}: {goal.way.title}, {_TITLES[goal.measure]}: {goal.ratio.median:.2f}x of {goal.against.title} "
        f"at {size_words(goal.size)} (at most {goal.most:g}x was wanted; half of the rounds were within "
        f"{goal.ratio.low:.2f} and {goal.ratio.high:.2f})."
    )


def _floor(figures: Figures) -> Iterator[str]:
    """The cost that no leaf can save."""
    if GOAL_SIZE in figures.sizes:
        floor = figures.ratio(GOAL_SIZE, NO_IDS.key, "gateway_cpu").median
        yield (
            f"The same call without any ids is {floor:.2f}x of the tiktoken shim's at {size_words(GOAL_SIZE)}: "
            "transport, the firewall and JSON are paid on every way, and no leaf can take the whole call below that."
        )


def _compared(figures: Figures, way: Way, other: Way, measure: str) -> str:
    """Where a way wins, loses or draws."""
    ratios = {size: figures.ratio(size, way.key, measure, other.key) for size in figures.sizes}
    wins = {size: ratio.median for size, ratio in ratios.items() if ratio.median < 1 - DRAW and ratio.high < 1}
    losses = {size: ratio.median for size, ratio in ratios.items() if ratio.median > 1 + DRAW and ratio.low > 1}
    results = [f"wins at {_list(wins)}"] if wins else []
    results += [f"LOSES at {_list(losses)}"] if losses else []
    draws = [size_words(size) for size in figures.sizes if size not in wins and size not in losses]
    results += [f"is a draw at {', '.join(draws)}"] if draws else []
    return f"{way.title} against {other.title}, {_TITLES[measure]}: {'; '.join(results)}."


def _server(figures: Figures) -> str:
    size = main_size(figures)
    plain, leaf = (figures.value(size, way.key, "server_cpu").median * 1000 for way in (SHIM, DECODE))
    return (
        f"The work moves to the tool's server: at {size_words(size)} it uses {leaf:.2f} ms a call in leaf form, and "
        f"{plain:.2f} ms in plain form."
    )


def _unasked(figures: Figures) -> Iterator[str]:
    size = main_size(figures)
    ratio = figures.ratio(size, UNASKED.key, "gateway_cpu", NO_IDS.key).median
    if ratio > 1 + DRAW:
        yield (
            "A leaf server costs also those who want no ids: where nobody asks, the gateway reads them and drops them, "
            f"{ratio:.2f}x of the CPU of a plain call at {size_words(size)}."
        )
    told = figures.ratio(size, NONE_WANTED.key, "total_cpu", NO_IDS.key).median
    yield (
        f"A leaf server that is told that no ids are wanted makes none: gateway and server together use {told:.2f}x of "
        f"the CPU of a plain call at {size_words(size)}."
    )


def _bytes(figures: Figures, weights: Weights) -> str:
    """With leaf or shim the bytes to the client are the same: the ids make the difference."""
    size = main_size(figures)
    both, ids = weights.ratio(size, "both", "json+gzip"), weights.ratio(size, "ids", "json+gzip")
    packed, text = (_best_packed(weights, size, form) for form in ("ids", "text"))
    alone = "win against" if packed < text * (1 - DRAW) else "LOSE to" if packed > text * (1 + DRAW) else "draw with"
    return (
        f"Bytes at {size_words(size)}, to plain JSON with gzip: text and ids are {both:.2f}x, ids alone {ids:.2f}x, as "
        f"JSON with gzip. As compressed msgpack, ids alone ({packed:.2f}x) {alone} the text alone ({text:.2f}x)."
    )


def _best_packed(weights: Weights, size: int, form: str) -> float:
    return min(weights.ratio(size, form, format) for format in ("msgpack+gzip", "msgpack+zstd"))


def _list(ratios: dict[int, float]) -> str:
    return ", ".join(f"{size_words(size)} ({ratio:.2f}x)" for size, ratio in ratios.items())


def summarize(figures: Figures) -> list[str]:
    """Return what the page says first: whether leaves pay, on this run, and what they are paid for."""
    goals = [goal for goal in figures.goals() if goal.way is PACKED]
    met = sum(goal.is_met for goal in goals)
    size = main_size(figures)
    floor = figures.ratio(size, NO_IDS.key, "gateway_cpu").median
    words = [
        f"**Goals of packed leaves: {met} of {len(goals)} are met.** Each is listed below with what was measured. The "
        f"same call without any ids costs {floor:.2f} of the tiktoken shim's at {size_words(size)}: a goal below that "
        "cannot be met by work on ids."
    ]
    for way in (PACKED, SAMPLED, DECODE):
        ratio, codec = (figures.ratio(size, way.key, measure).median for measure in ("gateway_cpu", "codec"))
        words.append(
            f"**{way.title}** at {size_words(size)}: {ratio:.2f} of the tiktoken shim's whole call; the work on ids "
            f"alone {codec:.2f} of tokenizing."
        )
    if FAST_SHIM.key in figures.ways:
        ratio = figures.ratio(size, PACKED.key, "gateway_cpu", FAST_SHIM.key)
        verdict = "costs less than" if ratio.high < 1 else "costs more than" if ratio.low > 1 else "costs what"
        end = " costs" if verdict == "costs what" else ""
        words.append(
            f"**Against the accelerated shim**, leaf-decode packed {verdict} the shim{end} at {size_words(size)} "
            f"({ratio.median:.2f}; half of the rounds {ratio.low:.2f} to {ratio.high:.2f})."
        )
    words.append(f"**Leaf moves work.** {_server(figures)}")
    words += [f"**Those who want no ids.** {sentence}" for sentence in [*_unasked(figures)][-1:]]
    return words
