"""The race: leafgate against its peers and a direct connection. Out: one report, bench/results/DATE.json and charts.

    just bench [--quick] [--only library|starts|calls]

Touches processes, loopback, the clock, .tools/peers and bench/results. The full run takes about 25 minutes, most of
it the peer's catalogs of 10,000 tools; --quick takes some minutes and leaves those out. Nothing is asked of another
machine, but for the packages of peers that are not installed yet.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import calls
import in_process
import results
import starts
from charts import draw_charts
from peers import CONTEXTWEAVER, PACKAGES, ROOT, install, ranks_folder
from report import claims, conditions, failures, misses, profile_lines
from rich.console import Console
from tables import all_grids

from leafgate.version import __version__

RESULTS: Final = ROOT / "bench" / "results"
NOTHING: Final[dict[str, Any]] = {
    "library": {"sizes": {}, "calls": {}, "tokens": {}, "recall": {}, "profiles": {}},
    "starts": {},
    "calls": {},
}


def run(quick: bool, only: str | None, progress: in_process.Progress) -> results.Results:
    progress("installing peers, where they are missing")
    installed = {package: install(package) for package in PACKAGES}
    ranks_folder()
    before = os.getloadavg()[0]
    found = {part: _measure(part, quick, installed, progress) for part in NOTHING if only in (None, part)}
    machine = {
        "cpus": os.cpu_count(),
        "load_before": before,
        "load_after": os.getloadavg()[0],
        "python": platform.python_version(),
        "mcp": version("mcp"),
        "leafgate": __version__,
    }
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    return {"date": date, "quick": quick, "machine": machine, "peers": installed, **NOTHING, **found}


def _measure(part: str, quick: bool, installed: dict[str, str | None], progress: in_process.Progress) -> Any:
    if part == "library":
        return _measure_library(in_process.QUICK if quick else in_process.FULL, installed, progress)
    if part == "starts":
        return starts.measure(1 if quick else 3, installed, progress)
    return calls.measure(calls.QUICK if quick else calls.FULL, installed, quick=quick, progress=progress)


def _measure_library(
    sizes: Sequence[in_process.Size], installed: dict[str, str | None], progress: in_process.Progress
) -> Any:
    """With the peer; without it where it does not come to an end, which is then its problem in the report."""
    with tempfile.TemporaryDirectory() as folder:
        if installed[CONTEXTWEAVER] is None:
            try:
                return in_process.measure(sizes, [in_process.OWN, in_process.PEER], Path(folder), progress)
            except in_process.StuckError as error:
                installed[CONTEXTWEAVER] = f"did not come to an end: {error}"
        return in_process.measure(sizes, [in_process.OWN], Path(folder), progress)


def show(found: results.Results, console: Console) -> None:
    console.print(conditions(found), highlight=False)
    for grid in all_grids(found):
        console.print(grid.as_rich())
    for title, lines in (
        ("In ratios", claims(found)),
        ("Missed, and why", misses(found)),
        ("Profiles", profile_lines(found)),
        ("Not measured", failures(found)),
    ):
        if lines:
            console.print(f"\n[bold]{title}[/bold]")
            for line in lines:
                console.print(f"- {line}", highlight=False, markup=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds, no catalog of 10,000 tools")
    parser.add_argument("--only", choices=tuple(NOTHING), help="one part of the race")
    chosen = parser.parse_args()
    # So that an ended run ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.monotonic()

    def progress(words: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {words}", file=sys.stderr, flush=True)

    found = run(chosen.quick, chosen.only, progress)
    name = f"{found['date']}{'-quick' if chosen.quick else ''}{f'-{chosen.only}' if chosen.only else ''}"
    results.write(found, RESULTS / f"{name}.json")
    for chart, text in draw_charts(found).items():
        (RESULTS / chart).write_text(text, encoding="utf-8")
    show(results.read(RESULTS / f"{name}.json"), Console(width=None if sys.stdout.isatty() else 200))


if __name__ == "__main__":
    main()
