"""The charts of the race. In: results. Out: SVG texts by file name. Touches nothing."""

from __future__ import annotations

import math
from typing import Final

from drawing import Bar, Chart, Group, draw
from goals import DIRECT_LIMIT, WAYS
from results import Results
from tables import OWN, PEER

ERA: Final = "session"  # the protocol that everybody speaks


def draw_charts(results: Results) -> dict[str, str]:
    charts = {
        "race-browse.svg": _browse(results),
        "race-tokens.svg": _tokens(results),
        "race-recall.svg": _recall(results),
        "race-calls.svg": _calls(results),
    }
    return {name: draw(chart) for name, chart in charts.items()}


def _browse(results: Results) -> Chart:
    """Bars on a logarithmic scale: the shortest would not be seen otherwise."""
    groups = []
    for tools, found in results["library"]["sizes"].items():
        times = [(name, found[name]["browse"]["clock"] * 1e3) for name in (OWN, PEER) if name in found]
        bars = [
            Bar(name, (math.log10(max(ms, 0.01)) + 2,), f"{ms:,.0f} ms" if ms > 100 else f"{ms:.1f} ms")
            for name, ms in times
        ]
        groups.append(Group(f"{int(tools):,} tools", bars))
    return Chart("Time of one browse, in process, p50 (logarithmic)", _told(groups), groups)


def _tokens(results: Results) -> Chart:
    kinds = ("ten cards", "small result")
    groups = [
        Group(kind, [Bar(name, (found[kind],), f"{found[kind]:,.0f}") for name, found in _by_name(results, "tokens")])
        for kind in kinds
    ]
    return Chart("Tokens that a model reads (cl100k)", _told(groups), groups)


def _recall(results: Results) -> Chart:
    bars = [Bar(name, (found["hit@5"],), f"{found['hit@5']:.2f}") for name, found in _by_name(results, "recall")]
    groups = [Group("", bars)]
    return Chart("Queries with a right tool among the first five", _told(groups), groups)


def _by_name(results: Results, what: str) -> list[tuple[str, dict[str, float]]]:
    return list(results["library"][what].items())


def _calls(results: Results) -> Chart:
    groups = []
    for way, found in results["calls"].items():
        rows = found["eras"].get(ERA, {})
        bars = [Bar(name, (row["p50_ratio"],), f"{row['p50_ratio']:.2f}x") for name, row in rows.items()]
        groups.append(Group(WAYS[way], bars))
    title = "A small call with a session, p50, to a direct one (dashed: the goal, 2)"
    return Chart(title, _told(groups), groups, mark=DIRECT_LIMIT)


def _told(groups: list[Group]) -> str:
    """The chart in words."""
    told = (f"{group.name}: " + ", ".join(f"{bar.name} {bar.label}" for bar in group.bars) for group in groups)
    return ". ".join(told).removeprefix(": ") + "."
