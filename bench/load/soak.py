"""`just soak`: ten minutes of checked traffic over two gateways on one Redis; memory and handles must not grow.

Ends with 1 where either is more than 5 % above minute two at the end, or where an answer was wrong, lost or refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median

from replicas import Usage
from run import RESULTS, Watch, is_sound, measure, report

GROWTH = 1.05
WINDOW = 15.0  # seconds on each side of a moment, of which the middle value counts: connections come and go


def level(watch: Watch, at: float, read: str) -> list[float]:
    """What each gateway held round this moment."""
    samples = [uses for seconds, uses in watch.samples if abs(seconds - at) <= WINDOW] or [watch.near(at)]
    return [median(getattr(use, read) for use in uses) for uses in zip(*samples, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=40)
    options = parser.parse_args()
    seconds = options.minutes * 60
    tally, watch = measure(options.clients, seconds, 2)
    found = report(tally, watch, {"clients": options.clients, "seconds": seconds, "replicas": 2})
    grown = {}
    for read in Usage.__dataclass_fields__:
        if read != "cpu_seconds":
            before, after = level(watch, min(120, seconds / 2), read), level(watch, seconds, read)
            grown[read] = [round(late / early, 3) for early, late in zip(before, after, strict=True)]
    found["grown"] = grown
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(found, indent=2)
    Path(RESULTS / f"soak-{found['date'][:10]}.json").write_text(text + "\n")
    print(text)
    is_flat = all(ratio <= GROWTH for ratios in grown.values() for ratio in ratios)
    print("flat" if is_flat else f"GROWN by more than {GROWTH - 1:.0%}")
    return 0 if is_flat and is_sound(found) else 1


if __name__ == "__main__":
    sys.exit(main())
