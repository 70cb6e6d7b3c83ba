"""The tables and charts of the benchmark. Ratios are to the tiktoken shim of the same run and size."""

from __future__ import annotations

from typing import Final

from drawing import Bar, Chart, Grid, Group, draw
from leaf.figures import Figures, Weights, main_size, size_words
from leaf.gateways import NO_IDS, SHIM, WAYS, Way
from leaf.measure import FORMATS, FORMS

_CALLS: Final = "One call: CPU in ms, and in brackets the ratio to the tiktoken shim"
_BYTES: Final = "Bytes of the answer, as a multiple of plain JSON with gzip"
_HEADER: Final = ("size", "way", "work on ids", "gateway", "its range", "for ids", "server", "both", "p50, ms")


def all_grids(figures: Figures, weights: Weights) -> list[Grid]:
    return [_calls_grid(figures), _bytes_grid(figures, weights)]


def _calls_grid(figures: Figures) -> Grid:
    """All ways of a size stand together, to be compared."""
    ways = [way for way in WAYS if way.key in figures.ways]
    return Grid(_CALLS, _HEADER, [[_call(figures, size, way) for way in ways] for size in figures.sizes])


def _call(figures: Figures, size: int, way: Way) -> list[str]:
    """The range holds the middle half of the rounds' gateway ratios: the ratio is no more exact than that."""
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
    """The gateway's CPU beyond a call without ids; without a ratio where one of the two is within the noise."""
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


def draw_charts(figures: Figures, weights: Weights) -> dict[str, str]:
    """Return the SVG files by name."""
    size = main_size(figures)
    charts = {
        "leaf-cpu.svg": _cpu(figures, size),
        "leaf-sizes.svg": _sizes(figures),
        "leaf-bytes.svg": _bytes(weights, size),
    }
    return {name: draw(chart) for name, chart in charts.items()}


def _cpu(figures: Figures, size: int) -> Chart:
    bars = [_stacked(figures, size, way) for way in WAYS if way.key in figures.ways]
    title = f"CPU of one call with a text of {size_words(size)}"
    values = "; ".join(f"{bar.name} {bar.label}" for bar in bars)
    parts = ("gateway: work on ids", "gateway: all else", "tool's server")
    return Chart(title, f"Gateway and server together: {values}.", [Group("", bars)], parts)


def _stacked(figures: Figures, size: int, way: Way) -> Bar:
    codec, gateway, server = (
        figures.value(size, way.key, measure).median * 1000 for measure in ("codec", "gateway_cpu", "server_cpu")
    )
    return Bar(way.title, (codec, gateway - codec, server), f"{gateway + server:.1f} ms")


def _sizes(figures: Figures) -> Chart:
    ways = [way for way in WAYS if way.key in figures.ways and way.wants_ids and way is not SHIM]
    groups = [Group(size_words(size), [_ratio(figures, size, way) for way in ways]) for size in figures.sizes]
    title = "The gateway's CPU for a whole call, to the tiktoken shim (dashed: 1)"
    return Chart(title, _describe(groups), groups, mark=1.0)


def _ratio(figures: Figures, size: int, way: Way) -> Bar:
    ratio = figures.ratio(size, way.key, "gateway_cpu").median
    return Bar(way.title, (ratio,), f"{ratio:.2f}x")


def _bytes(weights: Weights, size: int) -> Chart:
    names = {"text": "text, no ids", "both": "text and ids", "ids": "ids alone"}
    groups = [Group(names[form], [_weight(weights, size, form, format) for format in FORMATS]) for form in FORMS]
    title = f"Bytes of an answer of {size_words(size)}, to plain JSON with gzip (dashed: 1)"
    return Chart(title, _describe(groups), groups, mark=1.0)


def _weight(weights: Weights, size: int, form: str, format: str) -> Bar:
    ratio = weights.ratio(size, form, format)
    return Bar(format, (ratio,), f"{ratio:.2f}x")


def _describe(groups: list[Group]) -> str:
    """Return the chart's values as text, for screen readers."""
    parts = (f"{group.name}: " + ", ".join(f"{bar.name} {bar.label}" for bar in group.bars) for group in groups)
    return ". ".join(parts) + "."
