"""The firewall's goals, measured: speed of 1 MB results, price of a small one, bounded memory. Out: a table and a file.

    .venv/bin/python bench/firewall/run.py [--quick]

Touches: the clock, memory, bench/results/firewall.json. One way is cleaning, screening, digest and storing, as
gateway/deliver runs them; no ids are made, because the client asked for none. Memory has a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.deliver import Delivery, deliver_result, view
from leafgate.gateway.leaf_checks import LeafChecks
from leafgate.maps.files import CARD_MAP, MapFiles
from leafgate.model.envelope import Origin
from leafgate.model.request import Request
from leafgate.state.memory import MemoryArtifactStore
from leafgate.state.records import ArtifactLimits
from leafgate.telemetry.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "firewall.json"
MB = 1 << 20
GOAL_MS = 15.0
GOAL_SMALL = 46
GOAL_RSS = ArtifactLimits.capacity + 200 * MB
ORIGIN = Origin("bench", "read")
ME = Request("me")
SENTENCE = "The gateway reads a long report about rivers, bridges and the people who built them. Nobody knew why."
WORDS = SENTENCE.split()


def make_door(count: Callable[[str], int]) -> Delivery:
    return Delivery(
        artifacts=MemoryArtifactStore(),
        recorder=Metrics(lambda: "today"),
        clean=Cleaner(),
        count=count,
        budget=800,
        checks=LeafChecks("canonical"),
        encoder_of=MapFiles().prepare,
    )


def filled(line: Callable[[int], str], joint: str = "\n") -> str:
    """Lines until there is a megabyte."""
    lines: list[str] = []
    size = 0
    while size < MB:
        lines.append(line(len(lines)))
        size += len(lines[-1]) + len(joint)
    return joint.join(lines)


def texts(seed: int) -> dict[str, str]:
    """A megabyte of each kind that tools return."""
    draw = random.Random(seed)
    return {
        "prose": filled(lambda n: " ".join(draw.choices(WORDS, k=12)), " "),
        "log": filled(
            lambda n: (
                f"2024-05-01T10:00:{n % 60:02d} {'INFO' if n % 500 else 'ERROR'} request {n} took {draw.random():.3f}"
            )
        ),
        "CSV": "id,name,score\n" + filled(lambda n: f"{n},name {n},{draw.random():.5f}"),
        "JSON records": "["
        + filled(lambda n: json.dumps({"id": n, "name": f"n {n}", "ok": n % 2 == 0, "s": draw.random()}), ",")
        + "]",
        "JSON nested": '{"count": 5, "items": ['
        + filled(
            lambda n: json.dumps({"id": n, "owner": {"login": f"u{n}", "tags": ["a"] * (n % 4)}, "body": "x y " * 8}),
            ",",
        )
        + "]}",
        "source code": filled(
            lambda n: (
                f"    def method_{n}(self, value: int) -> int:\n        return value * {n} + self._offset[{n % 7}]\n"
            )
        ),
    }


async def speed(door: Delivery, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds by kind of text, on the clock and of the processor: on a busy machine they differ.

    Each round has texts of its own: nothing is found in the store.
    """
    taken: dict[str, list[float]] = {}
    worked: dict[str, list[float]] = {}
    for seed in range(rounds + 1):
        for kind, text in texts(seed).items():
            raw = {"content": [{"type": "text", "text": text}]}
            start, began = time.perf_counter(), time.process_time()
            await deliver_result(door, ME, ORIGIN, raw)
            if seed:  # the first round warms up
                taken.setdefault(kind, []).append((time.perf_counter() - start) * 1e3)
                worked.setdefault(kind, []).append((time.process_time() - began) * 1e3)
    return {
        kind: {
            "p50": statistics.median(times),
            "p95": sorted(times)[int(len(times) * 0.95)],
            "best": min(times),
            "cpu_p50": statistics.median(worked[kind]),
        }
        for kind, times in taken.items()
    }


async def views(door: Delivery) -> dict[str, float]:
    """Milliseconds of a page of 1 MB, by selector."""
    made = texts(99)
    taken: dict[str, float] = {}
    for kind, selector in (
        ("log", {"type": "lines", "start": 5000}),
        ("log", {"type": "search", "text": "error"}),
        ("CSV", {"type": "rows", "start": 9000}),
        ("JSON nested", {"type": "json", "pointer": "/items", "start": 700}),
        ("log", {"type": "stats"}),
    ):
        result = (await deliver_result(door, ME, ORIGIN, {"content": [{"type": "text", "text": made[kind]}]})).as_mcp()
        handle = result["_meta"]["leafgate/envelope"]["artifacts"][0]["handle"]
        times = []
        for _ in range(5):
            start = time.perf_counter()
            await view(door, ME, handle, selector)
            times.append((time.perf_counter() - start) * 1e3)
        taken[f"{selector['type']} of a {kind}"] = statistics.median(times)
    return taken


async def small(door: Delivery, count: Callable[[str], int]) -> int:
    """What a model pays for a result of six tokens."""
    raw = {"content": [{"type": "text", "text": "It is half past two."}]}
    result = (await deliver_result(door, ME, ORIGIN, raw)).as_mcp()
    return sum(count(block["text"]) for block in result["content"])


async def fill_memory(results: int) -> dict[str, Any]:
    """Distinct results of 1 MB through one gateway, for owners who come and go."""
    cards = MapFiles().load(CARD_MAP)
    door = make_door(lambda text: len(cards.encode(text)))
    draw = random.Random(1)
    body = filled(lambda n: " ".join(draw.choices(WORDS, k=12)))
    before = resident()
    for number in range(results):
        raw = {"content": [{"type": "text", "text": f"result {number}\n{body}"}]}
        await deliver_result(door, Request(f"owner {number % 40}"), ORIGIN, raw)
    assert isinstance(door.artifacts, MemoryArtifactStore)
    return {"results": results, "before": before, "rss": resident(), "peak": peak(), "stored": door.artifacts.used}


def resident() -> int:
    return _status("VmRSS")


def peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def memory(results: int) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, __file__, "--memory", str(results)], capture_output=True, text=True, check=True, timeout=600
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, 300 results for memory")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        print(json.dumps(asyncio.run(fill_memory(asked.memory))))
        return
    cards = MapFiles().load(CARD_MAP)

    def count(text: str) -> int:
        return len(cards.encode(text))

    door = make_door(count)
    measured = asyncio.run(speed(door, 5 if asked.quick else 15))
    print(f"1 MB result, clean + screen + digest + store, ms (goal: p50 under {GOAL_MS:g})")
    for kind, times in measured.items():
        print(
            f"  {kind:14} p50 {times['p50']:6.1f}   p95 {times['p95']:6.1f}   best {times['best']:6.1f}"
            f"   processor p50 {times['cpu_p50']:6.1f}"
        )
    pages = asyncio.run(views(door))
    print("A page of a 1 MB result, ms")
    for kind, taken in pages.items():
        print(f"  {kind:26} {taken:6.1f}")
    price = asyncio.run(small(door, count))
    print(f"A result of 6 tokens costs the model {price} (goal: at most {GOAL_SMALL})")
    held = memory(300 if asked.quick else 2000)
    print(
        f"{held['results']} distinct 1 MB results: RSS {held['rss'] / MB:.0f} MB, peak {held['peak'] / MB:.0f} MB, "
        f"stored {held['stored'] / MB:.0f} MB (goal: under {GOAL_RSS / MB:.0f} MB)"
    )
    whole = {
        "speed_ms": measured,
        "view_ms": pages,
        "small_result_tokens": price,
        "memory": held,
        "goals": {"p50_ms": GOAL_MS, "small_result_tokens": GOAL_SMALL, "rss": GOAL_RSS, "quota": ArtifactLimits.quota},
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
