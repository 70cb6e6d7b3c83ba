"""`just load`: 200 clients for 60 s, browse, execute and view, over two gateways on one Redis; every answer is checked.

Prints what came of it, and writes bench/results/load-DATE.json. Ends with 1 where an answer was wrong, lost or refused.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from replicas import Usage, commit, replicas, usage_of
from traffic import Tally, send_traffic

RESULTS = Path(__file__).resolve().parents[1] / "results"
SAMPLE_SECONDS = 2.0


class Watch(threading.Thread):
    """Samples what the gateways use, until it is told to stop."""

    def __init__(self, pids: list[int], say: bool) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, list[Usage]]] = []
        self.over = threading.Event()
        self._pids = pids
        self._say = say
        self.before = [usage_of(pid) for pid in pids]

    def run(self) -> None:
        started = time.monotonic()
        while not self.over.wait(SAMPLE_SECONDS):
            now = [usage_of(pid) for pid in self._pids]
            self.samples.append((time.monotonic() - started, now))
            if self._say and len(self.samples) % 5 == 0:
                told = ", ".join(f"{use.resident / 1e6:.0f} MB, {use.handles} handles" for use in now)
                print(f"{self.samples[-1][0]:6.0f} s  {told}", file=sys.stderr, flush=True)

    def near(self, seconds: float) -> list[Usage]:
        """The sample that was taken nearest to this time."""
        return min(self.samples, key=lambda sample: abs(sample[0] - seconds))[1]


def measure(clients: int, seconds: float, number: int, *, say: bool = True) -> tuple[Tally, Watch]:
    """Traffic over so many gateways, checked; and what they used meanwhile."""
    with tempfile.TemporaryDirectory() as folder, replicas(Path(folder), number) as gateways:
        watch = Watch([gateway.process.pid for gateway in gateways], say)
        watch.start()
        addresses = [lambda url=gateway.url: url for gateway in gateways]
        tally = anyio.run(send_traffic, addresses, clients, seconds)
        watch.over.set()
        watch.join()
        tally.check_calls(Path(folder) / "calls")
    return tally, watch


def report(tally: Tally, watch: Watch, asked: dict[str, Any]) -> dict[str, Any]:
    seconds = asked["seconds"]
    quarter, end = watch.near(seconds / 4), watch.samples[-1][1]
    cpu = sum(late.cpu_seconds - early.cpu_seconds for early, late in zip(watch.before, end, strict=True))
    return {
        **asked,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "right": tally.right,
        "per_second": round(tally.right / seconds, 1),
        "wrong": len(tally.wrong),
        "lost": len(tally.lost),
        "refused": dict(tally.refused),
        "cut_off": dict(tally.cut_off),
        "gateway_cpu_ms_per_answer": round(1_000 * cpu / max(1, tally.right), 2),
        "milliseconds": {
            operation: {
                f"p{share}": round(1_000 * tally.percentile(operation, share / 100), 1) for share in (50, 95, 99)
            }
            for operation in sorted(tally.seconds)
        },
        "resident_mb": [[round(use.resident / 1e6, 1) for use in sample] for sample in (quarter, end)],
        "handles": [[use.handles for use in sample] for sample in (quarter, end)],
    }


def is_sound(found: dict[str, Any]) -> bool:
    return not (found["wrong"] or found["lost"] or found["refused"] or found["cut_off"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--replicas", type=int, default=2)
    options = parser.parse_args()
    asked = {"clients": options.clients, "seconds": options.seconds, "replicas": options.replicas}
    found = report(*measure(options.clients, options.seconds, options.replicas), asked)
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(found, indent=2)
    (RESULTS / f"load-{found['date'][:10]}.json").write_text(text + "\n")
    print(text)
    return 0 if is_sound(found) else 1


if __name__ == "__main__":
    sys.exit(main())
