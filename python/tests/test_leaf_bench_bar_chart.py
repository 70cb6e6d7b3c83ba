from xml.etree import ElementTree

import pytest

from leafgate.cli.leaf_bench.bar_chart import LEFT, RIGHT, WIDTH, Bar, Chart, Group, draw

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
