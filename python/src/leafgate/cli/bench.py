"""`leafgate bench`: measure the gateway against itself. In: how much. Out: tables or JSON, and files.

Touches processes, the clock and the folder of the results. It runs from a checkout, where its Node server is.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from leafgate.cli.leaf_bench.charts import draw_charts
from leafgate.cli.leaf_bench.run import CHECKOUT, FULL, QUICK, Report, find_program, run
from leafgate.cli.leaf_bench.tables import all_grids
from leafgate.model.errors import LeafgateError

LARGEST: Final = 4 * 1024 * 1024
WIDTH: Final = 130


@click.group()
def command() -> None:
    """Measure the gateway against itself, through real processes. Needs a checkout and Node.js."""


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print the JSON in place of the tables.")
@click.option("--quick", is_flag=True, help="Three sizes, and three rounds at most: for a first look.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Where files go; else bench/results.")
@click.option("--size", "sizes", type=click.IntRange(1, LARGEST), multiple=True, help="Bytes of a text; repeatable.")
@click.option("--rounds", type=click.IntRange(1, 100), help="Rounds at most; fewer where time runs out.")
def leaf(as_json: bool, quick: bool, out: Path | None, sizes: tuple[int, ...], rounds: int | None) -> None:
    """Compare ids that a tool's server makes (leaf) with ids that the gateway makes (shim).

    Writes leaf-DATE.json, leaf.md with the tables, and three charts.
    """
    plan = QUICK if quick else FULL
    plan = replace(plan, sizes=sorted({*sizes}) or plan.sizes, rounds=rounds or plan.rounds)
    find_program()  # whatever is missing is told before a folder is made
    folder = _made(out or CHECKOUT / "bench" / "results")
    report = run(plan, lambda line: click.echo(line, err=True))
    written = _write(report, folder)
    if as_json:
        click.echo(json.dumps(report.as_json(), ensure_ascii=False))
        return
    console = Console(highlight=False, width=WIDTH)
    for grid in all_grids(report.figures, report.weights):
        console.print(grid.as_rich())
    console.print()
    for sentence in report.words:
        console.print(f"- {sentence}", markup=False)
    console.print(f"\nwritten to {folder}: {', '.join(written)}", markup=False)


def _made(folder: Path) -> Path:
    """Before minutes are spent on what could not be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LeafgateError(f"the folder of the results cannot be made: {error}") from None
    return folder


def _write(report: Report, folder: Path) -> list[str]:
    today = datetime.now(UTC).date().isoformat()
    files = {
        f"leaf-{today}.json": json.dumps({"date": today, **report.as_json()}, ensure_ascii=False, indent=1) + "\n",
        "leaf.md": _markdown(report),
        **draw_charts(report.figures, report.weights),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [*files]


def _markdown(report: Report) -> str:
    tables = [grid.as_markdown() for grid in all_grids(report.figures, report.weights)]
    return "\n".join([*tables, *(f"- {sentence}" for sentence in report.words), ""])
