"""`leafgate bench`: measure the gateway against itself.

The benchmark starts the Node server of a checkout, so it lives in the checkout's bench/leaf and not in the package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from leafgate.model.errors import LeafgateError

BENCHMARKS: Final = Path(__file__).resolve().parents[4] / "bench"
LARGEST: Final = 4 * 1024 * 1024


@click.group()
def command() -> None:
    """Measure the gateway against itself, through real processes. Needs a checkout and Node.js."""


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--quick", is_flag=True, help="Three sizes, and at most three rounds: for a first look.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to write to; else bench/results.")
@click.option("--size", "sizes", type=click.IntRange(1, LARGEST), multiple=True, help="Bytes of a text; repeatable.")
@click.option("--rounds", type=click.IntRange(1, 100), help="Maximum number of rounds; fewer if time runs out.")
def leaf(as_json: bool, quick: bool, out: Path | None, sizes: tuple[int, ...], rounds: int | None) -> None:
    """Compare ids that a tool's server makes (leaf) with ids that the gateway makes (shim).

    Writes leaf-DATE.json, leaf.md with the tables, and three charts.
    """
    if not (BENCHMARKS / "leaf" / "run.py").is_file():
        raise LeafgateError(
            "the benchmark is part of leafgate's source, not of the installed package; "
            "get a checkout of leafgate and run `just bench-leaf` there"
        )
    sys.path.insert(0, str(BENCHMARKS))
    import_module("leaf.run").main(as_json=as_json, quick=quick, out=out, sizes=sizes, rounds=rounds)
