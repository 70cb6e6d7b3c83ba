"""`leafgate config`: check a configuration file, print its JSON Schema or its reference.

In: a file. Out: text or JSON on standard output; `check` exits 1 if the file cannot be used. Touches the file and those
that it names by `${file:...}` or `envFile`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from leafgate.config.json_schema import schema_text
from leafgate.config.load import load_config
from leafgate.config.problem import ConfigFileError
from leafgate.config.reference import reference_text


@click.group()
def command() -> None:
    """Check a configuration file; print its JSON Schema or its reference."""


@command.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(file: Path, as_json: bool) -> None:
    """Tell everything that is wrong with FILE: its line, its key, the fix. Exits 1 if anything is."""
    try:
        config = load_config(file)
    except ConfigFileError as error:
        click.echo(json.dumps(_report(file, problems=error)) if as_json else str(error))
        sys.exit(1)
    names = [server.name for server in config.servers]
    if as_json:
        click.echo(json.dumps({**_report(file), "servers": names, "notices": config.notices}))
        return
    for notice in config.notices:
        click.echo(notice)
    click.echo(f"{file}: in order; servers: {', '.join(names) or 'none'}")


def _report(file: Path, problems: ConfigFileError | None = None) -> dict[str, object]:
    found = [] if problems is None else [problem.as_json() for problem in problems.problems]
    return {"file": str(file), "ok": problems is None, "problems": found}


@command.command()
def schema() -> None:
    """Print the JSON Schema of a configuration, for editors."""
    click.echo(schema_text(), nl=False)


@command.command()
def reference() -> None:
    """Print all keys, with what they take and mean, as Markdown."""
    click.echo(reference_text(), nl=False)
