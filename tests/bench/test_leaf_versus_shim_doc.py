"""The page on leaf against shim shows the run that is kept: figures of every way, and charts that exist."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

from leaf.figures import size_words
from leaf.gateways import WAYS
from leaf.run import SIZES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "leaf-versus-shim.md").read_text(encoding="utf-8")
RUN = json.loads((DOCS.parent / "bench" / "leaf" / "measured.json").read_text(encoding="utf-8"))
FIGURES = PAGE.partition("<!-- figures")[2].partition("<!-- end of the figures")[0]


def test_its_figures_are_of_a_full_run_with_every_way() -> None:
    assert {(call["size"], call["way"]) for call in RUN["calls"]} == {(size, way.key) for size in SIZES for way in WAYS}
    for size in SIZES:
        for way in WAYS:
            assert f"| {size_words(size)} | {way.title} | " in FIGURES


def test_it_shows_the_run_that_is_kept() -> None:
    assert f"Measured on {RUN['date']}: {RUN['machine']['rounds']} rounds" in FIGURES
    assert [line[2:] for line in FIGURES.splitlines() if line.startswith("- ")] == RUN["words"]


def test_it_says_what_became_of_each_goal() -> None:
    goals = re.findall(r"^- Goal (met|MISSED): (leaf-decode|leaf-canonical \(accelerated\)),", FIGURES, re.MULTILINE)
    assert len(goals) == 4


def test_its_charts_are_there() -> None:
    shown = re.findall(r"!\[[^\]]+\]\((images/[^)]+\.svg)\)", PAGE)
    assert len(shown) == 3
    for name in shown:
        assert ElementTree.fromstring((DOCS / name).read_text(encoding="utf-8")).tag.endswith("}svg")
