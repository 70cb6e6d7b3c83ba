"""`leafgate audit`: check the chain of an audit file and those that were rotated, or print their lines."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from leafgate.telemetry.audit import Verification, read_records, verify
from leafgate.telemetry.counters import label

_FILE: Final = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
_COLUMNS: Final = ("time", "correlation_id", "principal", "client", "operation", "server", "tool", "outcome")
# Printed as they are after the columns.
_REST: Final = ("where", "reason", "approval", "denied_by", "cut", "removed", "redacted", "flows", "lines", "skipped")


@click.group()
def command() -> None:
    """Check or print an audit file, together with the files that were rotated (FILE.1, FILE.2, …)."""


@command.command("verify")
@_FILE
@click.option("--contains", metavar="HASH", help="A hash that was kept elsewhere; a line must have it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify_command(file: Path, contains: str | None, as_json: bool) -> None:
    """Check that no line was changed, removed or moved, and print where the chain breaks.

    The chain cannot show that its last lines were removed, or that all of it was made anew. Keep the hash that this
    command prints at another place, and give it with --contains later.
    """
    result = verify(file, contains)
    click.echo(json.dumps(_as_json(result)) if as_json else _as_text(result))
    if result.problems:
        sys.exit(1)


def _as_json(result: Verification) -> dict[str, Any]:
    return {
        "ok": not result.problems,
        "files": [str(file) for file in result.files],
        "lines": result.lines,
        "first_time": result.first_time,
        "last_time": result.last_time,
        "last_hash": result.last_hash,
        "problems": [{"file": str(each.file), "line": each.line, "message": each.message} for each in result.problems],
        "notes": result.notes,
    }


def _as_text(result: Verification) -> str:
    rows = [f"note: {note}" for note in result.notes] + [str(problem) for problem in result.problems]
    files = f"{len(result.files)} file{'s' if len(result.files) > 1 else ''}"
    span = f"{result.lines} lines in {files}, from {result.first_time} to {result.last_time}"
    verdict = f"the chain breaks at {len(result.problems)} places" if result.problems else "the chain is whole"
    return "\n".join([*rows, f"{verdict}: {span}", f"last hash: {result.last_hash}"])


@command.command("show")
@_FILE
@click.option("--principal", help="Only lines of this principal.")
@click.option("--server", help="Only lines of this server.")
@click.option("--tool", help="Only lines of this tool.")
@click.option("--outcome", help="Only lines with this outcome: ok, tool_error, an error code, cancelled.")
@click.option("--last", "most", type=click.IntRange(1), help="Only the last lines, so many.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def show_command(file: Path, most: int | None, as_json: bool, **filters: str | None) -> None:
    """Print the lines, oldest first. Nothing is checked; `verify` does that."""
    names = {name: value for name, value in filters.items() if value is not None}
    fitting = (each for each in read_records(file) if all(each.get(name) == value for name, value in names.items()))
    for record in fitting if most is None else deque(fitting, most):
        click.echo(json.dumps(record) if as_json else _as_line(record))


def _as_line(record: Mapping[str, Any]) -> str:
    cells = [label(str(record.get(name, "-"))) for name in _COLUMNS]  # nothing in a file of others is trusted
    if record.get("event") != "call":
        cells = [cells[0], label(str(record.get("event")))]
    if "ms" in record:
        cells.append(label(f"{record['ms']} ms"))
    return "  ".join(cells + [f"{name}={json.dumps(record[name])}" for name in _REST if name in record])
