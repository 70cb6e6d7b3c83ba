"""The charts of the benchmark. In: figures. Out: SVG texts by file name. Touches nothing."""

from __future__ import annotations

from leafgate.cli.leaf_bench.bar_chart import Bar, Chart, Group, draw
from leafgate.cli.leaf_bench.conclusions import main_size, size_words
from leafgate.cli.leaf_bench.figures import Figures, Weights
from leafgate.cli.leaf_bench.ways import SHIM, WAYS, Way
from leafgate.cli.leaf_bench.wire_bytes import FORMATS, FORMS


def draw_charts(figures: Figures, weights: Weights) -> dict[str, str]:
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
    told = "; ".join(f"{bar.name} {bar.label}" for bar in bars)
    parts = ("gateway: work on ids", "gateway: all else", "tool's server")
    return Chart(title, f"Gateway and server together: {told}.", [Group("", bars)], parts)


def _stacked(figures: Figures, size: int, way: Way) -> Bar:
    codec, gateway, server = (
        figures.value(size, way.key, measure).median * 1000 for measure in ("codec", "gateway_cpu", "server_cpu")
    )
    return Bar(way.title, (codec, gateway - codec, server), f"{gateway + server:.1f} ms")


def _sizes(figures: Figures) -> Chart:
    ways = [way for way in WAYS if way.key in figures.ways and way.wants_ids and way is not SHIM]
    groups = [Group(size_words(size), [_ratio(figures, size, way) for way in ways]) for size in figures.sizes]
    told = ". ".join(f"{group.name}: " + ", ".join(f"{bar.name} {bar.label}" for bar in group.bars) for group in groups)
    title = "The gateway's CPU for a whole call, to the tiktoken shim (dashed: 1)"
    return Chart(title, f"{told}.", groups, mark=1.0)


def _ratio(figures: Figures, size: int, way: Way) -> Bar:
    ratio = figures.ratio(size, way.key, "gateway_cpu").median
    return Bar(way.title, (ratio,), f"{ratio:.2f}x")


def _bytes(weights: Weights, size: int) -> Chart:
    names = {"text": "text, no ids", "both": "text and ids", "ids": "ids alone"}
    groups = [Group(names[form], [_weight(weights, size, form, format) for format in FORMATS]) for form in FORMS]
    told = ". ".join(f"{group.name}: " + ", ".join(f"{bar.name} {bar.label}" for bar in group.bars) for group in groups)
    title = f"Bytes of an answer of {size_words(size)}, to plain JSON with gzip (dashed: 1)"
    return Chart(title, f"{told}.", groups, mark=1.0)


def _weight(weights: Weights, size: int, form: str, format: str) -> Bar:
    ratio = weights.ratio(size, form, format)
    return Bar(format, (ratio,), f"{ratio:.2f}x")
