from io import StringIO

from leaf_bench_samples import KB32, figures, samples, weights
from rich.console import Console

from leafgate.cli.leaf_bench.figures import Figures
from leafgate.cli.leaf_bench.tables import Grid, all_grids
from leafgate.cli.leaf_bench.ways import WAYS


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
