"""The tables and charts of the leaf benchmark, and how bars are drawn."""

from io import StringIO
from xml.etree import ElementTree

import pytest
from drawing import LEFT, RIGHT, WIDTH, Bar, Chart, Grid, Group, draw
from leaf.figures import Figures
from leaf.gateways import WAYS
from leaf.report import all_grids, draw_charts
from leaf_samples import KB32, figures, samples, weights
from rich.console import Console


def rows(grid: Grid) -> dict[tuple[str, str], dict[str, str]]:
    """Cells by the names of their columns, of each row by its first two."""
    listed = [row for section in grid.sections for row in section]
    return {(row[0], row[1]): dict(zip(grid.header, row, strict=True)) for row in listed}


def test_every_way_has_a_row_for_each_size_with_milliseconds_and_ratios() -> None:
    calls, _ = all_grids(figures(100, KB32, leaf_decode=2.0), weights(100, KB32))
    found = rows(calls)
    assert [*found] == [(size, way.title) for size in ("100 B", "32 KB") for way in WAYS]
    decode = found["32 KB", "leaf-decode"]
    assert decode["gateway"] == "2.00 (0.50)"
    assert decode["its range"] == "0.50–0.50"
    assert decode["work on ids"] == "0.500 (0.50)"
    assert decode["server"] == "1.00"
    assert decode["both"] == "3.00 (0.60)"
    assert decode["p50, ms"] == "10 (1.00)"
    assert found["32 KB", "no ids"]["work on ids"] == ""


def test_what_ids_cost_has_no_ratio_where_it_is_lost_in_the_noise() -> None:
    calls, _ = all_grids(figures(no_ids=3.0, shim_tiktoken=5.0, leaf_trust=2.5), weights())
    found = rows(calls)
    assert found["32 KB", "leaf-trust"]["for ids"] == "-0.500"
    assert found["32 KB", "leaf-decode"]["for ids"] == "1.00 (0.50)"
    rounds = [samples(no_ids=3.0, shim_tiktoken=ms) for ms in (2.0, 3.1, 5.0)]
    noisy, _ = all_grids(Figures(rounds), weights())
    assert rows(noisy)["32 KB", "leaf-decode"]["for ids"] == "1.00"


def test_bytes_have_every_form_and_format() -> None:
    _, bytes_of_answers = all_grids(figures(), weights(both_json=2500))
    found = rows(bytes_of_answers)
    assert len(found) == 15
    assert found["both", "json"]["32 KB"] == "2.50"


def test_they_print_whole_and_as_markdown() -> None:
    sizes = (100, 1024, 4096, KB32, 102_400, 1 << 20)
    console = Console(width=130, record=True, file=StringIO())
    for one in all_grids(figures(*sizes), weights(*sizes)):
        console.print(one.as_rich())
        lines = one.as_markdown().splitlines()
        assert {line.count("|") for line in lines[2:]} == {len(one.header) + 1}
    assert "…" not in console.export_text()


def texts(drawn: str) -> list[str]:
    root = ElementTree.fromstring(drawn)
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_cpu_of_both_processes_is_drawn_for_every_way() -> None:
    shown = texts(draw_charts(figures(leaf_decode=2.0), weights())["leaf-cpu.svg"])
    assert {way.title for way in WAYS} <= {*shown}
    assert shown[shown.index("leaf-decode") + 1] == "3.0 ms"


def test_ratios_are_drawn_for_every_size() -> None:
    shown = texts(draw_charts(figures(100, 1024, leaf_decode=2.0), weights(100, 1024))["leaf-sizes.svg"])
    assert shown.count("leaf-decode") == shown.count("0.50x") == 2
    assert "shim (tiktoken)" not in shown  # it is what the others are measured by
    assert {"100 B", "1 KB"} <= {*shown}


def test_bytes_are_drawn_for_every_form_and_format() -> None:
    shown = texts(draw_charts(figures(), weights(both_json=3000))["leaf-bytes.svg"])
    assert shown[shown.index("text and ids") + 1 :][:2] == ["json", "3.00x"]
    assert shown.count("msgpack+zstd") == 3


def test_the_description_tells_what_is_drawn() -> None:
    for drawn in draw_charts(figures(leaf_decode=2.0), weights()).values():
        told = ElementTree.fromstring(drawn).findtext("{http://www.w3.org/2000/svg}desc") or ""
        assert "leaf-decode" in told or "msgpack" in told


SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<b> & \"quotes\" 'and' ]]>"


def rects(chart: Chart) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(draw(chart))
    return [rect for rect in root.iter(f"{SVG}rect") if rect.get("height") == "16"]


def test_the_same_bars_give_the_same_bytes() -> None:
    chart = Chart("t", "d", [Group("g", [Bar("a", (1 / 3, 2.0), "x")])], ("one", "two"), 1.0)
    assert draw(chart) == draw(chart)


def test_it_is_well_formed_and_tells_itself_to_those_who_hear_it() -> None:
    root = ElementTree.fromstring(draw(Chart(HOSTILE, HOSTILE, [Group(HOSTILE, [Bar(HOSTILE, (1.0,), HOSTILE)])])))
    assert root.get("role") == "img"
    told = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert [part.text for part in told if part is not None] == [HOSTILE, HOSTILE]
    assert {part.get("id") for part in told if part is not None} == {*(root.get("aria-labelledby") or "").split()}
    assert [text.text for text in root.iter(f"{SVG}text")] == [HOSTILE] * 4


def test_the_longest_bar_fills_the_width_and_others_are_in_proportion() -> None:
    bars = rects(Chart("t", "d", [Group("", [Bar("a", (2.0, 2.0), ""), Bar("b", (1.0,), "")])], ("one", "two")))
    widths = [float(bar.get("width") or 0) for bar in bars]
    room = WIDTH - LEFT - RIGHT
    assert widths == [room / 2, room / 2, room / 4]
    assert [bar.get("class") for bar in bars] == ["part0", "part1", "part0"]


@pytest.mark.parametrize("parts", [(0.0,), (-3.0,), (-1.0, 0.0)])
def test_what_is_below_nothing_is_drawn_as_nothing(parts: tuple[float, ...]) -> None:
    assert {bar.get("width") for bar in rects(Chart("t", "d", [Group("", [Bar("a", parts, "")])]))} == {"0.0"}


def test_no_bars_make_an_empty_chart() -> None:
    assert rects(Chart("t", "d", [])) == []


def test_the_mark_stands_at_its_value() -> None:
    root = ElementTree.fromstring(draw(Chart("t", "d", [Group("", [Bar("a", (4.0,), "")])], mark=1.0)))
    (line,) = root.iter(f"{SVG}line")
    assert float(line.get("x1") or 0) == LEFT + (WIDTH - LEFT - RIGHT) / 4


def test_it_loads_nothing_and_follows_the_page() -> None:
    drawn = draw(Chart("t", "d", []))
    assert "prefers-color-scheme: dark" in drawn
    assert not {"<script", "<image", "@import", "url(", "href"} & {*drawn.split()}
    assert drawn.count("http") == 1  # the name of SVG itself
