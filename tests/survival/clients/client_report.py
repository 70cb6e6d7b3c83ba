"""The client matrix: `just survival-clients [NAME ...]` installs libraries, runs them, and prints what is wrong.

Writes bench/results/clients-DATE.json. `--keep` stores the results in results.json, from which docs/clients.md is made
(a test compares them). Ends with 1 if a check fails that is not a known fault of the library.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from client_environments import HERE, ROOT, Library, load_libraries
from client_matrix import SIDES, TRANSPORTS, Check, Target, run_library, targets

from leafgate.version import __version__

KEPT: Final = HERE / "results.json"
PAGE: Final = ROOT / "docs" / "clients.md"
AT_ONCE: Final = 2
PLACES: Final = [f"{side}/{transport}" for side in SIDES[:2] for transport in TRANSPORTS]
COLUMNS: Final = {
    "list": ("list",),
    "call": ("call", "structured"),
    "view": ("large", "large-record", "view", "view-record"),
}
HEAD: Final = """# Clients

<!-- Made by tests/survival/clients/client_report.py from results.json beside it; edit those, not this. -->

Client libraries that were run against `leafgate serve`, each at the pinned version, in a separate environment.
`just survival-clients [NAME ...]` does it again. No model is called: a library's MCP layer is used as its documentation
says, up to the value that it would hand to the model.

- **list**: the model would get the meta-tools in mode `gateway`, and every tool in mode `passthrough`.
- **call**: a short text and a short record with an output schema arrive.
- **view**: of a long text and a long record, what the model would get is within the budget, and `tool_view` reads the
  withheld part by the handle in it.

Four marks stand for mode `gateway` over stdio and HTTP, then `passthrough` over stdio and HTTP: ✓ is right, F is a
fault of the library that it has without a gateway too, ✗ is wrong, – was not reached. *Text* and *record* are the
lengths, in characters, of what the model would get of the long text (114,449 characters) and the long record (426,491),
in `passthrough` over HTTP. Where they are larger than with the SDK (mcp), the library adds something.
"""


def judge(library: Library, checks: Mapping[str, Check]) -> dict[str, str]:
    """What is wrong, by check, except for known faults of the library, each seen directly in the same run."""
    wrong = {name: check.problem for name, check in checks.items() if check.problem}
    known: set[str] = set()
    for fault in library.faults:
        seen = {name for name in wrong if fault.covers(name)}
        if fault.proof in wrong or fault.proof not in checks:
            known |= seen
        if not seen and not fault.sometimes and any(fault.covers(name) for name in checks):
            wrong[fault.checks] = f"this known fault is not seen any more: {fault.reason}"
    return {name: problem for name, problem in wrong.items() if name not in known}


async def run_all(
    libraries: list[Library], found: Mapping[str, Target], folder: Path, *, is_brief: bool = False
) -> dict[str, dict[str, Check]]:
    """The checks of every library at these targets, a few libraries at once. The folder gets the drivers' logs."""
    room = asyncio.Semaphore(AT_ONCE)
    results: dict[str, dict[str, Check]] = {}

    async def run_one(library: Library) -> None:
        async with room:
            start = time.monotonic()
            log = folder / f"{library.name}.log"
            results[library.name] = await run_library(library, found, log, is_brief=is_brief)
            wrong = judge(library, results[library.name])
            seconds = time.monotonic() - start
            print(f"{library.name}: {f'{len(wrong)} wrong' if wrong else 'ok'} ({seconds:.0f} s)", flush=True)
            for name, problem in wrong.items():
                print(f"    {name}: {problem[:300]}", flush=True)

    async with asyncio.TaskGroup() as group:
        for library in libraries:
            group.create_task(run_one(library))
    return {library.name: results[library.name] for library in libraries}


def make_page(results: Mapping[str, Any]) -> str:
    """docs/clients.md, from a results file."""
    libraries = load_libraries()
    rows, problems = [], []
    for name, entry in results["clients"].items():
        checks = {check: Check(**outcome) for check, outcome in entry["checks"].items()}
        wrong = judge(libraries[name], checks)
        marks = [" ".join(_mark(place, parts, checks, wrong) for place in PLACES) for parts in COLUMNS.values()]
        chars = [checks.get(f"passthrough/http/{part}", Check()).chars for part in ("large", "large-record")]
        lengths = ["–" if each is None else f"{each:,}" for each in chars]
        rows.append(f"| {entry['packages'][0]} | {' | '.join(marks + lengths)} |")
        problems += [f"- **{name}**, {check}: {problem}" for check, problem in wrong.items()]
    faults = [f"- **{name}**: {fault.reason}" for name in results["clients"] for fault in libraries[name].faults]
    per_call = ", ".join(name for name in results["clients"] if libraries[name].session_per_call)
    lines = [
        HEAD,
        f"Run on {results['date'][:10]} with leafgate {results['leafgate']}.\n",
        f"| library | {' | '.join(COLUMNS)} | text | record |",
        f"|---|{':-:|' * len(COLUMNS)}--:|--:|",
        *rows,
        f"\nConnect anew for each call, and over stdio start a gateway for each: {per_call}.",
        "\n## Faults of libraries\n",
        "Each was seen on a connection without a gateway; that of npm-ai-sdk only on a slow machine.\n",
        *faults,
        *(["\n## What is wrong\n", *problems] if problems else []),
    ]
    return "\n".join(lines) + "\n"


def _mark(place: str, parts: Collection[str], checks: Mapping[str, Check], wrong: Mapping[str, str]) -> str:
    names = [f"{place}/{part}" for part in parts]
    if any(name in wrong for name in names):
        return "✗"
    if any(name not in checks for name in names):
        return "–"
    return "F" if any(checks[name].problem for name in names) else "✓"


def _as_json(check: Check) -> dict[str, Any]:
    return {key: value for key, value in asdict(check).items() if value}


def _keep(results: dict[str, Any]) -> None:
    """Store results, with the stored ones of libraries that did not run, and make the page of them."""
    stored = json.loads(KEPT.read_text(encoding="utf-8"))["clients"] if KEPT.exists() else {}
    clients = {**stored, **results["clients"]}
    kept = {**results, "clients": {name: clients[name] for name in load_libraries() if name in clients}}
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(make_page(kept), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="libraries of clients.toml; all without any")
    parser.add_argument("--keep", action="store_true", help="store the results, and make docs/clients.md")
    parser.add_argument("--page", action="store_true", help="only make docs/clients.md, from the stored results")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(make_page(json.loads(KEPT.read_text(encoding="utf-8"))), encoding="utf-8")
        return 0
    table = load_libraries()
    chosen = [table[name] for name in options.names or table]
    for library in chosen:
        try:
            library.install()
        except subprocess.CalledProcessError as error:
            print(f"{library.name}: not installed: {error.stderr or error.stdout}")
    missing = [library.name for library in chosen if not library.is_installed]
    folder = Path(tempfile.mkdtemp(prefix="clients-"))
    with targets(folder) as found:
        checks = asyncio.run(run_all([library for library in chosen if library.is_installed], found, folder))
    results = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "leafgate": __version__,
        "clients": {
            name: {
                "packages": list(table[name].packages),
                "checks": {check: _as_json(outcome) for check, outcome in found.items()},
            }
            for name, found in checks.items()
        },
    }
    file = ROOT / "bench" / "results" / f"clients-{results['date'][:10]}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8")
    wrong = {name: problems for name, found in checks.items() if (problems := judge(table[name], found))}
    print(
        f"{len(checks) - len(wrong)} of {len(chosen)} libraries are right; {file.relative_to(ROOT)}; logs in {folder}"
    )
    if options.keep:
        _keep(results)
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
