"""The tables of the race. In: results. Out: grids, for a terminal or a page. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from drawing import Grid
from goals import WAYS, judge
from results import Results

OWN: Final = "leafgate"
PEER: Final = "contextweaver"
MEASURES: Final = {
    "browse": "browse, p50",
    "first": "first query after a refresh",
    "refresh": "refresh, cold",
    "unchanged": "refresh, nothing changed",
}


def all_grids(results: Results) -> list[Grid]:
    single = (_goals, _catalogs, _reading, _recall, _starts)
    return [*(make(results) for make in single), *_calls(results)]


def _goals(results: Results) -> Grid:
    rows = [[goal.words, goal.limit, goal.verdict, goal.figure] for goal in judge(results)]
    return Grid("Goals", ["what", "goal", "", "found"], [rows])


def _catalogs(results: Results) -> Grid:
    """Time on the clock, and of the processor in brackets."""
    sections = [list(_catalog_rows(tools, found)) for tools, found in results["library"]["sizes"].items()]
    title = "Catalogs, in process: ms on the clock (of the processor)"
    return Grid(title, ["tools", "what", OWN, PEER, "contextweaver / leafgate"], sections)


def _catalog_rows(tools: str, found: Mapping[str, Any]) -> Iterator[list[str]]:
    for key, words in MEASURES.items():
        figures = [_time(found.get(name, {}).get(key)) for name in (OWN, PEER)]
        yield [f"{int(tools):,}", words, *figures, _times(found.get("ratio", {}).get(key))]


def _reading(results: Results) -> Grid:
    library = results["library"]
    calls, tokens = library["calls"], library["tokens"]
    rows = []
    for key, words in (("small", "small result"), ("large", "1 MB result")):
        figures = [_time(calls.get(name, {}).get(key)) for name in (OWN, PEER)]
        rows.append([words, "ms on the clock (processor)", *figures, _times(calls.get("ratio", {}).get(key))])
    for words in ("small result", "1 MB result", "ten cards", "ten cards, most"):
        own, peer = (tokens.get(name, {}).get(words) for name in (OWN, PEER))
        ratio = peer / own if own and peer else None
        rows.append([words, "cl100k tokens", _count(own), _count(peer), _times(ratio)])
    title = "A call in process, and what a model reads of results and cards"
    return Grid(title, ["what", "measured", OWN, PEER, "contextweaver / leafgate"], [rows])


def _recall(results: Results) -> Grid:
    rows = []
    for name, found in results["library"]["recall"].items():
        who, _, setting = name.partition(", ")
        rows.append([who, setting or "defaults", *(f"{found[f'hit@{k}']:.3f}" for k in (1, 5, 10))])
    count = next((found["queries"] for found in results["library"]["recall"].values()), 0)
    title = f"Routing: the share of {count} queries with a right tool among the first 1, 5, 10 of 304"
    return Grid(title, ["who", "setting", "1", "5", "10"], [rows])


def _starts(results: Results) -> Grid:
    sections = []
    for key, words in (("list_s", "first tools/list"), ("tools_s", "first answer that knows the tools")):
        own = results["starts"].get("leafgate gateway", {}).get(key)
        rows = [[words, name, *_start_cells(found, key, own)] for name, found in results["starts"].items()]
        sections.append(rows)
    return Grid("Start, 1,000 tools behind", ["until", "who", "seconds", "to leafgate gateway"], sections)


def _start_cells(found: Mapping[str, Any], key: str, own: float | None) -> list[str]:
    if key not in found:
        return ["; ".join(found["failures"]) or "-", "-"]
    return [f"{found[key]:.2f}", "-" if own is None else f"{found[key] / own:.2f}"]


def _calls(results: Results) -> Iterator[Grid]:
    header = ["protocol", "through", "p50 ms", "ratio", "p99 ms", "16: /s", "ratio", "64: /s", "ratio"]
    header += ["1 MB ms", "ratio", "KB", "CPU ms"]
    for way, found in results["calls"].items():
        sections = [
            [[era, name, *_call_cells(row)] for name, row in targets.items()] for era, targets in found["eras"].items()
        ]
        rounds = max((row["rounds"] for targets in found["eras"].values() for row in targets.values()), default=0)
        title = f"Calls, {WAYS[way]}; ratios to direct, above 1 is slower; medians of {rounds} rounds"
        yield Grid(title, header, sections)


def _call_cells(row: Mapping[str, Any]) -> list[str]:
    cells = [f"{row['p50_ms']:.2f}", f"{row['p50_ratio']:.2f}", f"{row['p99_ms']:.1f}"]
    for crowd in (16, 64):
        cells += [f"{row[f'per_second_{crowd}']:.0f}", f"{row[f'per_second_{crowd}_ratio']:.2f}"]
    cells += [f"{row['large_ms']:.1f}", f"{row['large_ratio']:.2f}", f"{row['large_bytes'] / 1e3:,.0f}"]
    return [*cells, "-" if row["cpu_ms"] is None else f"{row['cpu_ms']:.2f}"]


def _time(found: Mapping[str, float] | None) -> str:
    return "-" if found is None else f"{_short(found['clock'] * 1e3)} ({_short(found['cpu'] * 1e3)})"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.0f}"
