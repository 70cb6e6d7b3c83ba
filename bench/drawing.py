"""Tables and bar charts of benchmark reports.

A `Grid` prints as a table in a terminal or as Markdown. `draw` makes a chart of stacked bars as SVG, the same text for
the same bars: it loads no script or font, has a title and a description for screen readers, and follows the reader's
choice of a light or a dark page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from rich import box
from rich.markup import escape as escape_markup
from rich.table import Table

TEXT_COLUMNS: Final = 2  # the first columns of a table are left-aligned text
WIDTH: Final = 760
LEFT: Final = 210
RIGHT: Final = 90
TOP: Final = 64
BAR: Final = 16
STEP: Final = 24
HEAD: Final = 26
COLOURS: Final = (("#2f6f4f", "#6fc79a"), ("#8aa5b8", "#7d97ab"), ("#c98a3b", "#e0a95f"))

_STYLE: Final = """
  .page { fill: #ffffff; } .ink { fill: #1f2328; } .soft { fill: #59636e; } .line { stroke: #59636e; }
  text { font: 13px system-ui, sans-serif; } .big { font-size: 16px; font-weight: 600; } .group { font-weight: 600; }
%s
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .ink { fill: #e6edf3; } .soft { fill: #9198a1; } .line { stroke: #9198a1; }
%s
  }
"""


@dataclass(frozen=True)
class Grid:
    """A table in sections of rows."""

    title: str
    header: Sequence[str]
    sections: Sequence[Sequence[Sequence[str]]]

    def as_rich(self) -> Table:
        table = Table(
            title=f"\n{escape_markup(self.title)}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
        )
        for place, name in enumerate(self.header):
            table.add_column(escape_markup(name), justify="right" if place >= TEXT_COLUMNS else "left", no_wrap=True)
        for section in self.sections:
            for row in section:
                table.add_row(*map(escape_markup, row))
            table.add_section()
        return table

    def as_markdown(self) -> str:
        sides = ["---" if place < TEXT_COLUMNS else "---:" for place in range(len(self.header))]
        rows = [row for section in self.sections for row in section]
        return "\n".join([f"**{self.title}**", "", *map(_row, [self.header, sides, *rows])]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True)
class Bar:
    """One bar of stacked parts, and the label behind it."""

    name: str
    parts: Sequence[float]
    label: str


@dataclass(frozen=True)
class Group:
    """Bars under a heading; an empty name draws no heading."""

    name: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Chart:
    """A chart. `parts` names the parts of every bar; `mark` is a value with a dashed line."""

    title: str
    description: str
    groups: Sequence[Group]
    parts: Sequence[str] = ()
    mark: float | None = None


def draw(chart: Chart) -> str:
    """Return the SVG. Parts below zero have no width."""
    rows = list(_rows(chart))
    bottom = rows[-1][1] + STEP if rows else TOP
    longest = max((_length(bar) for group in chart.groups for bar in group.bars), default=0.0)
    scale = (WIDTH - LEFT - RIGHT) / max(longest, chart.mark or 0.0, 1e-9)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 12}" role="img" '
        'aria-labelledby="title description">',
        f'<title id="title">{escape(chart.title)}</title>',
        f'<desc id="description">{escape(chart.description)}</desc>',
        f"<style>{_style()}</style>",
        f'<rect class="page" width="{WIDTH}" height="{bottom + 12}" rx="6"/>',
        f'<text class="ink big" x="16" y="28">{escape(chart.title)}</text>',
        *_legend(chart.parts),
    ]
    for row, y in rows:
        lines += [_heading(row, y)] if isinstance(row, str) else _bar(row, y, scale)
    lines += [] if chart.mark is None else [_mark(LEFT + chart.mark * scale, bottom)]
    return "\n".join([*lines, "</svg>", ""])


def _rows(chart: Chart) -> Iterator[tuple[str | Bar, int]]:
    y = TOP
    for group in chart.groups:
        if group.name:
            yield group.name, y
            y += HEAD
        for bar in group.bars:
            yield bar, y
            y += STEP


def _length(bar: Bar) -> float:
    return sum(max(part, 0.0) for part in bar.parts)


def _style() -> str:
    light, dark = (
        "\n".join(f"  .part{place} {{ fill: {pair[theme]}; }}" for place, pair in enumerate(COLOURS))
        for theme in (0, 1)
    )
    return _STYLE % (light, dark)


def _legend(parts: Sequence[str]) -> Iterator[str]:
    x = 16
    for place, name in enumerate(parts):
        yield f'<rect class="part{place}" x="{x}" y="40" width="11" height="11" rx="2"/>'
        yield f'<text class="soft" x="{x + 16}" y="50">{escape(name)}</text>'
        x += 40 + 7 * len(name)


def _heading(name: str, y: int) -> str:
    return f'<text class="ink group" x="16" y="{y + 15}">{escape(name)}</text>'


def _bar(bar: Bar, y: int, scale: float) -> list[str]:
    lines = [f'<text class="ink" x="{LEFT - 10}" y="{y + 13}" text-anchor="end">{escape(bar.name)}</text>']
    x = float(LEFT)
    for place, part in enumerate(bar.parts):
        width = max(part, 0.0) * scale
        lines.append(f'<rect class="part{place}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}"/>')
        x += width
    return [*lines, f'<text class="soft" x="{x + 7:.1f}" y="{y + 13}">{escape(bar.label)}</text>']


def _mark(x: float, bottom: int) -> str:
    return f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}" stroke-dasharray="3 3"/>'
