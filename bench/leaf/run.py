"""The leaf benchmark: ids that a tool's server makes (leaf) against ids that the gateway makes (shim).

    leafgate bench leaf        # in a checkout; or: just bench-leaf

Writes leaf-DATE.json, leaf.md with the tables, and three charts into a folder, bench/results by default.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click
from leaf.figures import MEASURES, Figures, Weights, conclude, summarize
from leaf.gateways import MAP, SHIM, WAYS, Program, Tokenizer, can_measure, start_gateway, ways_with
from leaf.measure import WARM_SIZE, Bench, Progress, Sample, Weight, weigh_answers
from leaf.report import all_grids, draw_charts
from leaf.texts import make_text, make_texts, read_sources
from rich.console import Console

from leafgate.maps.files import MapFiles
from leafgate.model.errors import LeafgateError
from leafgate.version import __version__

CHECKOUT: Final = Path(__file__).resolve().parents[2]
SIZES: Final = (100, 1024, 4 * 1024, 32 * 1024, 100 * 1024, 1024 * 1024)
QUICK_SIZES: Final = (100, 4 * 1024, 32 * 1024)
WARM: Final = "warm"
WIDTH: Final = 130


@dataclass(frozen=True)
class Plan:
    """How much is measured. Bounded by rounds, and by time: no round begins after `seconds`."""

    sizes: Sequence[int] = SIZES
    rounds: int = 9
    seconds: float = 120


FULL: Final = Plan()
QUICK: Final = Plan(QUICK_SIZES, rounds=3, seconds=10)


@dataclass(frozen=True)
class Report:
    """The results of a run."""

    figures: Figures
    weights: Weights
    words: Sequence[str]
    machine: dict[str, Any]
    single_weights: Sequence[Weight]

    def as_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "machine": self.machine,
            "map": MAP,
            "against": SHIM.key,
            "ways": [asdict(way) for way in WAYS if way.key in self.figures.ways],
            "calls": [
                {
                    "size": size,
                    "way": way.key,
                    "seconds": self._values(size, way.key),
                    "ratio": self._ratios(size, way.key),
                }
                for size in self.figures.sizes
                for way in WAYS
                if way.key in self.figures.ways
            ],
            "bytes": [asdict(weight) for weight in self.single_weights],
            "goals": [goal.as_json() for goal in self.figures.goals()],
            "words": list(self.words),
            "short": summarize(self.figures),
        }

    def _values(self, size: int, way: str) -> dict[str, Any]:
        values = {measure: self.figures.value(size, way, measure) for measure in MEASURES}
        return {
            measure: spread.as_json()
            for measure, spread in {**values, "ids_cpu": self.figures.ids_cpu(size, way)}.items()
        }

    def _ratios(self, size: int, way: str) -> dict[str, Any]:
        return {measure: self.figures.ratio(size, way, measure).as_json() for measure in MEASURES}


def find_program(checkout: Path = CHECKOUT) -> Program:
    """Find Node and the benchmark's server. A LeafgateError names what is missing and what to do."""
    script = checkout / "bench" / "leaf" / "server.mjs"
    node = shutil.which("node")
    if not can_measure():
        raise LeafgateError("the benchmark reads the CPU time of other processes, which only Linux reports")
    if node is None:
        raise LeafgateError("the benchmark's server needs Node.js 20 or later, and there is no `node` on the PATH")
    if not (checkout / "typescript" / "dist" / "src" / "index.js").is_file():
        raise LeafgateError("the TypeScript package is not built; run `just setup`, or `npm run build` in typescript/")
    if not (checkout / "typescript" / "node_modules" / "@modelcontextprotocol" / "sdk").is_dir():
        raise LeafgateError("the TypeScript package's dependencies are not installed; run `just setup`")
    return Program(node, script)


def installed_tokenizers() -> frozenset[Tokenizer]:
    """Return tiktoken, and the accelerated one if its extra is installed."""
    fast = importlib.util.find_spec("gigatoken") is not None
    return frozenset(("tiktoken", "accelerated") if fast else ("tiktoken",))


def run(plan: Plan, progress: Progress) -> Report:
    """Start everything, measure in rounds, stop everything."""
    program, tokenizers = find_program(), installed_tokenizers()
    if "accelerated" not in tokenizers:
        progress("without the accelerated ways: gigatoken, of the extra `fast`, is not installed")
    sources, encoder = read_sources(), MapFiles().load(MAP)
    texts = make_texts(plan.sizes, sources)
    by_name = {name: text for group in texts.values() for name, text in group.items()}
    by_name[WARM] = make_text("mixed", WARM_SIZE, sources)
    with tempfile.TemporaryDirectory(prefix="leafgate-bench-") as folder, ExitStack() as stack:
        file = Path(folder) / "texts.json"
        file.write_text(json.dumps(by_name), encoding="utf-8")
        progress("starting the gateways and their servers")
        gateways = {name: stack.enter_context(start_gateway(name, program, file)) for name in sorted(tokenizers)}
        bench = Bench(gateways, ways_with(tokenizers), texts, encoder)
        bench.warm_up(WARM, progress)
        load = os.getloadavg()[0]
        rounds = _measure(bench, plan, progress)
        progress("weighing the answers")
        weights = weigh_answers(gateways["tiktoken"], texts, encoder.map.digest)
    figures, sums = Figures(rounds), Weights(weights)
    machine = _machine(program, by_name, len(rounds), load, tokenizers)
    return Report(figures, sums, conclude(figures, sums), machine, weights)


def _measure(bench: Bench, plan: Plan, progress: Progress) -> list[list[Sample]]:
    deadline = time.monotonic() + plan.seconds
    rounds: list[list[Sample]] = []
    while len(rounds) < plan.rounds and (not rounds or time.monotonic() < deadline):
        progress(f"round {len(rounds) + 1} of at most {plan.rounds}")
        rounds.append(bench.round(len(rounds)))
    return rounds


def _machine(
    program: Program, texts: dict[str, str], rounds: int, load: float, tokenizers: frozenset[Tokenizer]
) -> dict[str, Any]:
    node = subprocess.run([program.node, "--version"], capture_output=True, text=True, timeout=10, check=False)
    return {
        "cpus": os.cpu_count(),
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "node": node.stdout.strip(),
        "leafgate": __version__,
        "tiktoken": version("tiktoken"),
        "gigatoken": version("gigatoken") if "accelerated" in tokenizers else None,
        "rounds": rounds,
        "texts_sha256": hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest(),
    }


def main(*, as_json: bool, quick: bool, out: Path | None, sizes: Sequence[int], rounds: int | None) -> None:
    """Run `leafgate bench leaf`: measure, print tables or JSON, write the files."""
    plan = QUICK if quick else FULL
    plan = replace(plan, sizes=sorted({*sizes}) or plan.sizes, rounds=rounds or plan.rounds)
    find_program()  # reports what is missing before a folder is made
    folder = _make_folder(out or CHECKOUT / "bench" / "results")
    report = run(plan, lambda line: click.echo(line, err=True))
    files = _write(report, folder)
    if as_json:
        click.echo(json.dumps(report.as_json(), ensure_ascii=False))
        return
    console = Console(highlight=False, width=WIDTH)
    for grid in all_grids(report.figures, report.weights):
        console.print(grid.as_rich())
    console.print()
    for sentence in report.words:
        console.print(f"- {sentence}", markup=False)
    console.print(f"\nwritten to {folder}: {', '.join(files)}", markup=False)


def _make_folder(folder: Path) -> Path:
    """Make it before minutes are spent on results that could not be saved."""
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
