"""The security figures: one command, one report. Out: tables, bench/results/security-DATE.json.

    just bench-security [--only NAME] [--data DIR] [--keep]

With --keep the sections measured replace those in bench/security/measured.json, and docs/security-figures.md is made of
that file; a test compares the two. Each part is a module of this folder with `measure() -> Section`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
KEPT: Final = HERE / "measured.json"
PAGE: Final = ROOT / "docs" / "security-figures.md"
PARTS: Final = ("sanitize", "redaction", "instructions", "flows", "isolation")
HEAD: Final = """# Security figures

<!-- Made by bench/security/run.py from bench/security/measured.json; edit those, not this. -->

How often the firewall is right, and what hostile servers cost. `just bench-security` measures on your machine;
`--only NAME` measures one part. What is promised is in [security](security.md) and in
[spec 4](../spec/4-envelope-and-views.md).
"""


def page(sections: Mapping[str, Any]) -> str:
    """Return docs/security-figures.md for the sections that were measured."""
    parts = [HEAD]
    for name in PARTS:
        if section := sections.get(name):
            parts.append(f"## {section['title']}\n\nMeasured on {section['date']}. {section['method']}\n")
            rows = [section["headers"], ["---"] * len(section["headers"]), *section["rows"]]
            parts.append("\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows) + "\n")
            if section["notes"]:
                parts.append("\n".join(f"- {note}" for note in section["notes"]) + "\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def read_kept() -> dict[str, Any]:
    """Return the sections that are kept, by the name of their part."""
    kept: dict[str, Any] = json.loads(KEPT.read_text("utf-8")) if KEPT.is_file() else {}
    return kept


def run(names: tuple[str, ...], data: Path | None) -> dict[str, Any]:
    """Measure the parts of these names that exist."""
    sections: dict[str, Any] = {}
    console = Console()
    for name in names:
        if importlib.util.find_spec(f"security.{name}") is None:
            console.print(f"{name}: this part does not exist")
            continue
        measure = importlib.import_module(f"security.{name}").measure
        section = measure(data) if data and name == "redaction" else measure()
        sections[name] = json.loads(json.dumps({"date": f"{datetime.now(UTC):%Y-%m-%d}", **asdict(section)}))
        table = Table(*section.headers, title=section.title)
        for row in section.rows:
            table.add_row(*row)
        console.print(table)
        for note in section.notes:
            console.print(f"- {note}", markup=False)
    return sections


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the firewall: one table a part.")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part; may be repeated")
    parser.add_argument("--data", type=Path, help="a folder with secrets_dev.jsonl (default: ../shared/security)")
    parser.add_argument("--keep", action="store_true", help="keep the figures and make docs/security-figures.md")
    options = parser.parse_args()
    sections = run(tuple(options.only or PARTS), options.data)
    results = ROOT / "bench" / "results" / f"security-{datetime.now(UTC):%Y-%m-%d}.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(sections, indent=1) + "\n", "utf-8")
    if options.keep:
        kept = read_kept() | sections
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        PAGE.write_text(page(kept), "utf-8")


if __name__ == "__main__":
    main()
