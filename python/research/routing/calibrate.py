"""Fits browse/confidence.py. In: catalogs, their queries, queries nobody can answer. Out: coefficients and their tests.

    python calibrate.py [--lexical] CATALOG:QUERIES [CATALOG:QUERIES ...]

Every catalog is tried whole, all together, drowned in 10,000 generated tools, and cut down to 1, 10 and 50 tools, since
the best of many wrong tools looks better than the best of few. Each such setting is tested on a fit to the others.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench_routing import generated_items

from leafgate.browse import rank
from leafgate.browse.rank import BUNDLED, Evidence, Router
from leafgate.catalog.snapshot_file import load_catalog_file
from leafgate.model.tool import SelectableItem

HERE = Path(__file__).parent
EMBEDDER = None if "--lexical" in sys.argv else BUNDLED
UNANSWERABLE = (HERE / "unanswerable.txt").read_text().splitlines()
FEATURES = ("bias", "score", "found", "log size")

Setting = tuple[np.ndarray, np.ndarray]


def features(evidence: Evidence) -> list[float]:
    return [1.0, evidence.score, evidence.coverage, float(np.log10(max(evidence.size, 1)))]


def observe(router: Router, queries: Sequence[str]) -> np.ndarray:
    """What the judge is shown for each query; queries that name a tool are left out, being certain."""
    seen: list[Evidence] = []
    real = rank.assess

    def watch(evidence: Evidence) -> tuple[float, rank.Signal]:
        seen.append(evidence)
        return real(evidence)

    rank.assess = watch
    for query in queries:
        router.route(query)
    rank.assess = real
    return np.array([features(evidence) for evidence in seen if not evidence.exact])


def fit(settings: Sequence[Setting]) -> np.ndarray:
    """Logistic regression by Newton's method, every setting and both classes weighing the same."""
    rows = np.vstack([part for setting in settings for part in setting])
    truth = np.concatenate(
        [np.full(len(part), float(i == 0)) for setting in settings for i, part in enumerate(setting)]
    )
    weight = np.concatenate([np.full(len(part), 100 / len(part)) for setting in settings for part in setting])
    found = np.zeros(rows.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-rows @ found))
        slope = rows.T @ (weight * (truth - chance)) - 0.1 * found
        bend = (rows * (weight * chance * (1 - chance))[:, None]).T @ rows + 0.1 * np.eye(rows.shape[1])
        found = found + np.linalg.solve(bend, slope)
    return found


def recall(setting: Setting, found: np.ndarray) -> tuple[float, float]:
    """Share of unanswerable queries found out at 5 % false alarms, and the probability where that threshold lies."""
    right, wrong = (part @ found for part in setting)
    threshold = np.sort(right)[int(0.05 * len(right))]
    return float((wrong < threshold).mean()), float(1 / (1 + np.exp(-threshold)))


def settings_of(given: list[tuple[tuple[SelectableItem, ...], list[dict]]]) -> dict[str, Setting]:
    chance = random.Random(4)
    everything = [item for items, _ in given for item in items]
    asked = [(row, items) for items, rows in given for row in rows]
    found: dict[str, Setting] = {}
    for number, (items, rows) in enumerate(given, 1):
        router = Router(items, embedder=EMBEDDER)
        found[f"catalog {number}"] = observe(router, [r["query"] for r in rows]), observe(router, UNANSWERABLE)
    with tempfile.TemporaryDirectory() as name:
        many = Router([*everything, *generated_items(10_000, Path(name))], embedder=EMBEDDER)
    for title, router in (("together", Router(everything, embedder=EMBEDDER)), ("drowned", many)):
        found[title] = observe(router, [row["query"] for row, _ in asked]), observe(router, UNANSWERABLE)
    for size in (1, 10, 50):
        right, wrong = [], []
        for row, items in chance.sample(asked, 150):
            names = {tuple(pair) for pair in row["relevant"]}
            kept = [item for item in items if (item.server, item.upstream_name) in names][:1]
            others = chance.sample([item for item in everything if item not in kept], size - 1)
            router = Router([*kept, *others], embedder=EMBEDDER)
            right.append(observe(router, [row["query"]]))
            wrong.append(observe(router, [chance.choice(UNANSWERABLE)]))
        found[f"{size} tools"] = tuple(np.vstack([row for row in rows if len(row)]) for rows in (right, wrong))
    return found


def main() -> None:
    given = []
    for argument in [argument for argument in sys.argv[1:] if ":" in argument]:
        catalog, queries = argument.split(":")
        rows = [json.loads(line) for line in Path(queries).read_text().splitlines()]
        given.append((tuple(load_catalog_file(catalog).catalog.all()), rows))
    settings = settings_of(given)
    for name, setting in settings.items():
        mixed = ("together", "drowned") if name.startswith("catalog") else ()
        others = [other for title, other in settings.items() if title != name and title not in mixed]
        share, threshold = recall(setting, fit(others))
        print(f"{name:10} recall at 5 % false alarms {share:.2f}, threshold {threshold:.2f}")
    final = fit(list(settings.values()))
    print({name: round(float(value), 2) for name, value in zip(FEATURES, final, strict=True)})
    for name, setting in settings.items():
        right, wrong = (1 / (1 + np.exp(-part @ final)) for part in setting)
        shown = [f"{cut}: {np.mean(right < cut):.2f}/{np.mean(wrong < cut):.2f}" for cut in (0.3, 0.4, 0.5)]
        print(f"{name:10} called no_match, answerable/unanswerable, below", *shown)


if __name__ == "__main__":
    main()
