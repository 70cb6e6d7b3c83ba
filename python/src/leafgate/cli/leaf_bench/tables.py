"""The tables of the benchmark: what calls cost, what answers weigh. In: figures. Out: grids, for a terminal or a page.

Touches nothing. Ratios are to the tiktoken shim of the same run and size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.markup import escape
from rich.table import Table

from leafgate.cli.leaf_bench.conclusions import size_words
from leafgate.cli.leaf_bench.figures import Figures, Weights
from leafgate.cli.leaf_bench.ways import NO_IDS, SHIM, WAYS, Way
from leafgate.cli.leaf_bench.wire_bytes import FORMATS, FORMS

_CALLS: Final = "One call: CPU in ms, and in brackets the ratio to the tiktoken shim"
_BYTES: Final = "Bytes of the answer, as a multiple of plain JSON with gzip"
_HEADER: Final = ("size", "way", "work on ids", "gateway", "its range", "for ids", "server", "both", "p50, ms")
_WORDS: Final = 2  # columns that are read from the left


@dataclass(frozen=True)
class Grid:
    """A table before it is drawn, in sections of rows."""

    title: str
    header: Sequence[str]
    sections: Sequence[Sequence[Sequence[str]]]

    def as_rich(self) -> Table:
        table = Table(title=f"\n{escape(self.title)}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for place, name in enumerate(self.header):
            table.add_column(escape(name), justify="right" if place >= _WORDS else "left", no_wrap=True)
        for section in self.sections:
            for row in section:
                table.add_row(*map(escape, row))
            table.add_section()
        return table

    def as_markdown(self) -> str:
        sides = ["---" if place < _WORDS else "---:" for place in range(len(self.header))]
        rows = [row for section in self.sections for row in section]
        return "\n".join([f"**{self.title}**", "", *map(_line, [self.header, sides, *rows])]) + "\n"


def all_grids(figures: Figures, weights: Weights) -> list[Grid]:
    return [_calls_grid(figures), _bytes_grid(figures, weights)]


def _calls_grid(figures: Figures) -> Grid:
    """For each size all ways together: that is what one compares."""
    ways = [way for way in WAYS if way.key in figures.ways]
    return Grid(_CALLS, _HEADER, [[_call(figures, size, way) for way in ways] for size in figures.sizes])


def _call(figures: Figures, size: int, way: Way) -> list[str]:
    """The range holds the middle half of the rounds' ratios of the gateway: a ratio is worth no more than that."""
    ratio = figures.ratio(size, way.key, "gateway_cpu")
    return [
        size_words(size),
        way.title,
        _cell(figures, size, way, "codec") if way.wants_ids else "",
        _cell(figures, size, way, "gateway_cpu"),
        "" if way is SHIM else f"{ratio.low:.2f}–{ratio.high:.2f}",
        "" if way is NO_IDS else _for_ids(figures, size, way),
        _short(figures.value(size, way.key, "server_cpu").median * 1000),
        _cell(figures, size, way, "total_cpu"),
        _cell(figures, size, way, "latency"),
    ]


def _for_ids(figures: Figures, size: int, way: Way) -> str:
    """What the gateway uses beyond a call without ids; without a ratio where one of the two is lost in the noise."""
    mine, other = (figures.ids_cpu(size, key) for key in (way.key, SHIM.key))
    value = _short(mine.median * 1000)
    return f"{value} ({mine.median / other.median:.2f})" if mine.low > 0 and other.low > 0 else value


def _cell(figures: Figures, size: int, way: Way, measure: str) -> str:
    value = figures.value(size, way.key, measure).median * 1000
    return f"{_short(value)} ({figures.ratio(size, way.key, measure).median:.2f})"


def _bytes_grid(figures: Figures, weights: Weights) -> Grid:
    sections = [
        [[form, format, *(f"{weights.ratio(size, form, format):.2f}" for size in figures.sizes)] for format in FORMATS]
        for form in FORMS
    ]
    return Grid(_BYTES, ["form", "format", *map(size_words, figures.sizes)], sections)


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
