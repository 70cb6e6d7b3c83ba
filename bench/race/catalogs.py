"""The catalogs and queries that everybody gets. In: sizes, a folder. Out: files of [{server, tool}], and queries.

Touches the folder. The large catalogs are recombined from the routing development set, by the generator that the
routing research uses; recall is measured on the set itself.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from peers import ROOT

sys.path.insert(0, str(ROOT / "python" / "research" / "routing"))
from generate import generate  # the research folder is no package

DATA: Final = ROOT / "python" / "tests" / "data" / "routing"
DEV_CATALOG: Final = DATA / "dev_catalog.json"

Name = tuple[str, str]  # server, tool


@dataclass(frozen=True)
class Gold:
    """A query, and the tools that are a right answer to it."""

    query: str
    relevant: frozenset[Name]


def gold_queries() -> list[Gold]:
    lines = (DATA / "dev_queries.jsonl").read_text(encoding="utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    return [Gold(each["query"], frozenset((server, tool) for server, tool in each["relevant"])) for each in read]


def catalog_file(tools: int, folder: Path) -> Path:
    """A catalog of so many tools."""
    file = folder / f"catalog-{tools}.json"
    made: list[dict[str, Any]] = generate(json.loads(DEV_CATALOG.read_text(encoding="utf-8")), tools)
    file.write_text(json.dumps(made), encoding="utf-8")
    return file
