"""Put a run's figures into the documentation, and save the run.

    .venv/bin/python bench/leaf/update_docs.py bench/results

The folder is the one that `leafgate bench leaf` wrote. Changes docs/leaf-versus-shim.md between its two pairs of marks,
docs/images/leaf-*.svg and bench/leaf/measured.json.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
MEASURED: Final = Path(__file__).with_name("measured.json")
PAGE: Final = DOCS / "leaf-versus-shim.md"
BEGIN: Final = "<!-- figures: bench/leaf/update_docs.py writes them -->\n"
END: Final = "<!-- end of the figures -->\n"
SHORT: Final = "<!-- in short: bench/leaf/update_docs.py writes it -->\n"
SHORT_END: Final = "<!-- end of it -->\n"


def figures(run: dict[str, Any], tables: str) -> str:
    """Return the conditions of the run, its tables and its sentences."""
    machine = run["machine"]
    conditions = (
        f"Measured on {run['date']}: {machine['rounds']} rounds on {machine['cpus']} shared processors (load "
        f"{machine['load_before']} before, {machine['load_after']} after), Python {machine['python']}, Node "
        f"{machine['node']}, tiktoken {machine['tiktoken']}, gigatoken {machine['gigatoken']}, map `{run['map']}`. "
        "All of it is in [measured.json](../bench/leaf/measured.json)."
    )
    return f"\n{conditions}\n\n{tables}\n"


def replace_between(page: str, begin: str, end: str, text: str) -> str:
    """Return the page with another text between two marks."""
    before, _, rest = page.partition(begin)
    return before + begin + text + end + rest.partition(end)[2]


def main() -> None:
    folder = Path(sys.argv[1])
    latest = max(folder.glob("leaf-*.json")).read_text(encoding="utf-8")
    tables = (folder / "leaf.md").read_text(encoding="utf-8")
    run = json.loads(latest)
    short = "\n" + "".join(f"- {sentence}\n" for sentence in run["short"]) + "\n"
    page = replace_between(PAGE.read_text(encoding="utf-8"), SHORT, SHORT_END, short)
    PAGE.write_text(replace_between(page, BEGIN, END, figures(run, tables)), encoding="utf-8")
    MEASURED.write_text(latest, encoding="utf-8")
    (DOCS / "images").mkdir(exist_ok=True)
    for chart in sorted(folder.glob("leaf-*.svg")):
        shutil.copy(chart, DOCS / "images" / chart.name)


if __name__ == "__main__":
    main()
