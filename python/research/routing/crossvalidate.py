"""Honest figures for servers nobody tuned on. In: a catalog and queries. Out: scores of each fold's held-out servers.

    python crossvalidate.py CATALOG QUERIES

Servers are dealt into five folds. For each, the few free numbers are chosen on the queries of the other folds only, and
the fold's own queries, over the whole catalog, are scored with them.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

from leafgate.browse import index, lexical, rank
from leafgate.browse.rank import Router
from leafgate.catalog.snapshot_file import load_catalog_file
from leafgate.cli.routing import Answer, GoldQuery, scores

GRID = {
    "meaning": (1.0, 1.5, 2.0),
    "saturation": (0.5, 0.8, 1.2),
    "server": (0.2, 0.4),
    "names": (2.0, 3.0, 4.0),
}


def answers(items: tuple, queries: list[GoldQuery], values: tuple[float, ...]) -> list[Answer]:
    rank.MEANING, lexical.SATURATION, index.SERVER = values[:3]
    lexical.WEIGHTS[0] = values[3]
    router = Router(items)
    found = []
    for query in queries:
        ranking = [(c.item.server, c.item.upstream_name) for c in router.route(query.query).candidates]
        found.append(Answer(query, tuple(ranking), 0.0, 0.0))
    return found


def main() -> None:
    items = tuple(load_catalog_file(sys.argv[1]).catalog.all())
    rows = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]
    queries = [GoldQuery(r["query"], frozenset((s, t) for s, t in r["relevant"]), r["style"]) for r in rows]
    servers = sorted({item.server for item in items})
    fold_of = {server: number % 5 for number, server in enumerate(servers)}
    fold = [min(fold_of[server] for server, _ in query.relevant) for query in queries]
    tried = {values: answers(items, queries, values) for values in itertools.product(*GRID.values())}
    held_out: list[Answer] = []
    for number in range(5):

        def merit(found: list[Answer], number: int = number) -> float:
            others = scores([answer for answer, f in zip(found, fold, strict=True) if f != number])
            return others["mrr"] + others["hit@5"]

        best = max(tried, key=lambda values: merit(tried[values]))
        mine = [answer for answer, f in zip(tried[best], fold, strict=True) if f == number]
        held_out += mine
        print(f"fold {number}: chose {dict(zip(GRID, best, strict=True))}, {len(mine)} queries")
    print("held out:", {key: round(value, 3) for key, value in scores(held_out).items()})
    merits = sorted(scores(found)["hit@5"] for found in tried.values())
    middle = merits[len(merits) // 2]
    print(f"hit@5 over all {len(tried)} choices: {merits[0]:.3f} to {merits[-1]:.3f}, median {middle:.3f}")


if __name__ == "__main__":
    main()
