"""Times routing over a generated catalog. In: a real catalog and its queries. Out: printed figures, nothing asserted.

python bench_routing.py [--tools 10000]
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from generate import generate

from leafgate.browse.measure import percentile
from leafgate.browse.rank import Router
from leafgate.catalog.snapshot_file import load_catalog_file
from leafgate.meaning import bundled_embedder
from leafgate.model.tool import SelectableItem
from leafgate.state.routing import IndexFiles

DATA = Path(__file__).parents[2] / "tests" / "data" / "routing"


def resident() -> float:
    """Megabytes of memory in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def timed(make: Callable[[], Router]) -> tuple[Router, float]:
    began = time.perf_counter()
    made = make()
    return made, time.perf_counter() - began


def generated_items(tools: int, directory: Path) -> tuple[SelectableItem, ...]:
    path = directory / "generated.json"
    path.write_text(json.dumps(generate(json.loads((DATA / "dev_catalog.json").read_text()), tools)))
    return tuple(load_catalog_file(path).catalog.all())


def latencies(router: Router, queries: list[str]) -> str:
    times = []
    for query in queries * 3:
        began = time.perf_counter()
        router.route(query)
        times.append((time.perf_counter() - began) * 1000)
    return f"p50 {percentile(times, 0.5):.2f} ms, p99 {percentile(times, 0.99):.2f} ms"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--tools", type=int, default=10_000)
    tools = options.parse_args().tools
    queries = [json.loads(line)["query"] for line in (DATA / "dev_queries.jsonl").read_text().splitlines()]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        items = generated_items(tools, directory)
        gc.collect()
        before = resident()
        began = time.perf_counter()
        bundled_embedder()
        print(f"model read in {time.perf_counter() - began:.3f} s")
        store = IndexFiles(directory / "cache")
        fused, cold = timed(lambda: Router(items, store=store))
        print(f"{tools} tools: cold index {cold:.2f} s, cache written; memory grew by {resident() - before:.0f} MB")
        print("fused  ", latencies(fused, queries))
        lexical, _ = timed(lambda: Router(items, embedder=None))
        print("lexical", latencies(lexical, queries))
        _, warm = timed(lambda: Router(items, store=store))
        size = sum(path.stat().st_size for path in (directory / "cache").iterdir())
        print(f"reload from cache {warm:.3f} s, {size / 1e6:.1f} MB")
        _, changed = timed(lambda: Router(items[100:], earlier=fused))
        print(f"rebuilt without 100 of them {changed:.2f} s")


if __name__ == "__main__":
    main()
