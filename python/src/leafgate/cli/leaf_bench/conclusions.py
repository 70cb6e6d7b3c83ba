"""What the figures mean, in words, also where leaf loses. In: figures. Out: sentences. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from leafgate.cli.leaf_bench.figures import GOAL_SIZE, Figures, Goal, Weights
from leafgate.cli.leaf_bench.ways import CANONICAL, DECODE, FAST_CANONICAL, FAST_SHIM, NO_IDS, SHIM, TRUST, UNASKED, Way

# A ratio this near to 1 is a draw on a machine that others use too; so is one with middle rounds on both sides of 1.
DRAW: Final = 0.05
ENOUGH: Final = 3  # rounds, for a spread that says something

_OF: Final = {
    "codec": "work on ids alone (checking or tokenizing)",
    "gateway_cpu": "the gateway's CPU for the whole call",
    "total_cpu": "CPU of gateway and server together",
    "latency": "time until the answer",
}


def conclude(figures: Figures, weights: Weights) -> list[str]:
    """One sentence for each thing that a reader should take home."""
    words = [*_warning(figures), *(_goal(goal) for goal in figures.goals()), *_floor(figures)]
    duels = [(way, SHIM, "gateway_cpu") for way in (DECODE, TRUST, CANONICAL, FAST_CANONICAL)]
    duels += [(DECODE, SHIM, "total_cpu"), (DECODE, SHIM, "latency")]
    duels += [(way, FAST_SHIM, measure) for way in (DECODE, FAST_CANONICAL) for measure in ("gateway_cpu", "total_cpu")]
    words += [_compared(figures, *duel) for duel in duels if {way.key for way in duel[:2]} <= figures.ways]
    return [*words, _server(figures), *_unasked(figures), _bytes(figures, weights)]


def main_size(figures: Figures) -> int:
    """The one to tell where only one is told."""
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
        f"Goal {verdict}: {goal.way.title}, {_OF[goal.measure]}: {goal.found.median:.2f}x of the tiktoken shim at "
        f"{size_words(GOAL_SIZE)} (at most {goal.most:g}x was wanted; half of the rounds were within "
        f"{goal.found.low:.2f} and {goal.found.high:.2f})."
    )


def _floor(figures: Figures) -> Iterator[str]:
    """What no leaf can save."""
    if GOAL_SIZE in figures.sizes:
        floor = figures.ratio(GOAL_SIZE, NO_IDS.key, "gateway_cpu").median
        yield (
            f"The same call without any ids is {floor:.2f}x of the tiktoken shim's at {size_words(GOAL_SIZE)}: "
            "transport, the firewall and JSON are paid on every way, and no leaf can take the whole call below that."
        )


def _compared(figures: Figures, way: Way, other: Way, measure: str) -> str:
    """Where a way wins and where it loses, at a glance."""
    found = {size: figures.ratio(size, way.key, measure, other.key) for size in figures.sizes}
    wins = {size: ratio.median for size, ratio in found.items() if ratio.median < 1 - DRAW and ratio.high < 1}
    losses = {size: ratio.median for size, ratio in found.items() if ratio.median > 1 + DRAW and ratio.low > 1}
    told = [f"wins at {_listed(wins)}"] if wins else []
    told += [f"LOSES at {_listed(losses)}"] if losses else []
    draws = [size_words(size) for size in figures.sizes if size not in wins and size not in losses]
    told += [f"is a draw at {', '.join(draws)}"] if draws else []
    return f"{way.title} against {other.title}, {_OF[measure]}: {'; '.join(told)}."


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


def _bytes(figures: Figures, weights: Weights) -> str:
    """Leaf or shim, the bytes to the client are the same: it is the ids that weigh."""
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


def _listed(ratios: dict[int, float]) -> str:
    return ", ".join(f"{size_words(size)} ({ratio:.2f}x)" for size, ratio in ratios.items())
