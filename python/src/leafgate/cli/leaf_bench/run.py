"""One run of the benchmark, from nothing to a report. In: a plan. Out: a Report. Touches processes, disk, clock."""

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
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from leafgate.cli.leaf_bench.conclusions import conclude
from leafgate.cli.leaf_bench.figures import MEASURES, Figures, Weights
from leafgate.cli.leaf_bench.processes import Program, can_measure, running
from leafgate.cli.leaf_bench.sampling import WARM_SIZE, Bench, Progress, Sample
from leafgate.cli.leaf_bench.texts import make_text, make_texts, read_sources
from leafgate.cli.leaf_bench.ways import MAP, SHIM, WAYS, Tokenizer, ways_with
from leafgate.cli.leaf_bench.wire_bytes import Weight, weigh_answers
from leafgate.model.errors import LeafgateError
from leafgate.storage.map_files import MapFiles
from leafgate.version import __version__

CHECKOUT: Final = Path(__file__).resolve().parents[5]
SIZES: Final = (100, 1024, 4 * 1024, 32 * 1024, 100 * 1024, 1024 * 1024)
QUICK_SIZES: Final = (100, 4 * 1024, 32 * 1024)
WARM: Final = "warm"


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
    """What a run found."""

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
        }

    def _values(self, size: int, way: str) -> dict[str, Any]:
        values = {measure: self.figures.value(size, way, measure) for measure in MEASURES}
        return {
            measure: found.as_json()
            for measure, found in {**values, "ids_cpu": self.figures.ids_cpu(size, way)}.items()
        }

    def _ratios(self, size: int, way: str) -> dict[str, Any]:
        return {measure: self.figures.ratio(size, way, measure).as_json() for measure in MEASURES}


def find_program(checkout: Path = CHECKOUT) -> Program:
    """Node and the benchmark's server. LeafgateError, with what to do, where one of them is missing."""
    script = checkout / "bench" / "leaf" / "server.mjs"
    node = shutil.which("node")
    if not can_measure():
        raise LeafgateError("the benchmark reads what other processes use, which only Linux tells")
    if not script.is_file():
        raise LeafgateError(
            "the benchmark needs a checkout of leafgate, for the Node server in it; run `just bench-leaf` there"
        )
    if node is None:
        raise LeafgateError("the benchmark's server needs Node.js 20 or later, and there is no `node` on the PATH")
    if not (checkout / "typescript" / "dist" / "src" / "index.js").is_file():
        raise LeafgateError("the TypeScript package is not built; run `just setup`, or `npm run build` in typescript/")
    if not (checkout / "typescript" / "node_modules" / "@modelcontextprotocol" / "sdk").is_dir():
        raise LeafgateError("the TypeScript package's dependencies are not installed; run `just setup`")
    return Program(node, script)


def tokenizers_at_hand() -> frozenset[Tokenizer]:
    """The faster one is an extra."""
    fast = importlib.util.find_spec("gigatoken") is not None
    return frozenset(("tiktoken", "accelerated") if fast else ("tiktoken",))


def run(plan: Plan, progress: Progress) -> Report:
    """Starts everything, measures in rounds, ends everything."""
    program, tokenizers = find_program(), tokenizers_at_hand()
    if "accelerated" not in tokenizers:
        progress("without the accelerated ways: gigatoken, of the extra `fast`, is not installed")
    sources, encoder = read_sources(), MapFiles().load(MAP)
    texts = make_texts(plan.sizes, sources)
    named = {name: text for by_name in texts.values() for name, text in by_name.items()}
    named[WARM] = make_text("mixed", WARM_SIZE, sources)
    with tempfile.TemporaryDirectory(prefix="leafgate-bench-") as folder, ExitStack() as stack:
        file = Path(folder) / "texts.json"
        file.write_text(json.dumps(named), encoding="utf-8")
        progress("starting the gateways and their servers")
        gateways = {name: stack.enter_context(running(name, program, file)) for name in sorted(tokenizers)}
        bench = Bench(gateways, ways_with(tokenizers), texts, encoder)
        bench.warm_up(WARM, progress)
        load = os.getloadavg()[0]
        rounds = _measure(bench, plan, progress)
        progress("weighing the answers")
        weights = weigh_answers(gateways["tiktoken"], texts, encoder.map.digest)
    figures, summed = Figures(rounds), Weights(weights)
    machine = _machine(program, named, len(rounds), load, tokenizers)
    return Report(figures, summed, conclude(figures, summed), machine, weights)


def _measure(bench: Bench, plan: Plan, progress: Progress) -> list[list[Sample]]:
    until = time.monotonic() + plan.seconds
    rounds: list[list[Sample]] = []
    while len(rounds) < plan.rounds and (not rounds or time.monotonic() < until):
        progress(f"round {len(rounds) + 1} of at most {plan.rounds}")
        rounds.append(bench.round(len(rounds)))
    return rounds


def _machine(
    program: Program, texts: dict[str, str], rounds: int, load: float, tokenizers: frozenset[Tokenizer]
) -> dict[str, Any]:
    told = subprocess.run([program.node, "--version"], capture_output=True, text=True, timeout=10, check=False)
    return {
        "cpus": os.cpu_count(),
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "node": told.stdout.strip(),
        "leafgate": __version__,
        "tiktoken": version("tiktoken"),
        "gigatoken": version("gigatoken") if "accelerated" in tokenizers else None,
        "rounds": rounds,
        "texts_sha256": hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest(),
    }
