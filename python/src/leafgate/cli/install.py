"""`leafgate install`: put leafgate into a client's file, or take it out. In: the client. Out: its file, changed.

Touches that one file, after a preview and with a backup; a second run finds nothing to do.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from leafgate.cli.client_files import (
    CLIENTS,
    EMPTY,
    SCOPES,
    TITLES,
    ClientFile,
    ClientName,
    Scope,
    is_blank,
    place_of,
    read_place,
    this_machine,
)
from leafgate.cli.consent import DRY_RUN_OPTION, YES_OPTION, agreed
from leafgate.cli.file_change import FileChange, apply_all
from leafgate.cli.json_edit import with_value, without_member
from leafgate.cli.own_entry import OWN_NAME, child_entry, http_entry
from leafgate.config.settings import USUAL_CONFIG
from leafgate.model.errors import ConfigError


@click.command()
@click.argument("client", type=click.Choice(CLIENTS))
@click.option("--config", "config", type=click.Path(dir_okay=False, path_type=Path),
              help="The file that leafgate is started with. [default: leafgate.yaml, if it is here]")  # fmt: skip
@click.option("--scope", type=click.Choice(SCOPES), default="user", show_default=True,
              help="user: everywhere; project: in this folder, shared; local: in this folder, yours.")  # fmt: skip
@click.option("--http", "url", metavar="URL", help="Let the client use a gateway that runs there.")
@click.option("--token-variable", metavar="NAME",
              help="With --http: the variable of the client's environment that holds the token.")  # fmt: skip
@click.option("--remove", is_flag=True, help="Take leafgate out again.")
@YES_OPTION
@DRY_RUN_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(
    *,
    client: ClientName,
    config: Path | None,
    scope: Scope,
    url: str | None,
    token_variable: str | None,
    remove: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write leafgate into the file in which CLIENT keeps its MCP servers.

    Other servers, other settings, comments and the order of keys stay. `leafgate import --replace` moves the other
    servers behind leafgate too.

    \b
    leafgate install claude-desktop --config leafgate.yaml
    leafgate install vscode --scope project --http http://127.0.0.1:8808/mcp
    leafgate install cursor --remove
    """
    if url is not None and config is not None:
        raise click.UsageError("--http is for a gateway that runs already with a file of its own; leave --config out")
    file = read_place(place_of(client, scope, this_machine()))
    text = EMPTY if is_blank(file.text) else file.text
    path = (*file.key, OWN_NAME)
    if remove:
        after = without_member(text, path) if OWN_NAME in file.servers else file.text
    else:
        entry = http_entry(client, url, token_variable) if url is not None else child_entry(client, _config(config))
        after = file.text if file.servers.get(OWN_NAME) == entry else with_value(text, path, entry)
    change = FileChange(file.path, file.text if file.exists else None, after)
    needed = after != file.text if remove else change.is_needed
    done, backup = _make(change, yes=yes, dry_run=dry_run, quiet=as_json) if needed else (False, None)
    if as_json:
        told = {"client": client, "scope": scope, "file": str(file.path), "needed": needed, "changed": done}
        click.echo(json.dumps({**told, "backup": backup and str(backup)}, ensure_ascii=False, indent=2))
    else:
        _say(client, file, remove=remove, needed=needed, done=done, backup=backup)


def _config(named: Path | None) -> Path | None:
    if named is None:
        usual = Path(USUAL_CONFIG)
        return usual if usual.is_file() else None
    if not named.is_file():
        raise ConfigError(f"{named}: is not there; `leafgate import` makes one from a client's servers")
    return named


def _make(change: FileChange, *, yes: bool, dry_run: bool, quiet: bool) -> tuple[bool, Path | None]:
    if agreed(change, yes=yes, dry_run=dry_run, quiet=quiet):
        return True, apply_all([change], datetime.now(UTC))[0]
    if not dry_run:
        raise click.Abort
    return False, None


def _say(client: ClientName, file: ClientFile, *, remove: bool, needed: bool, done: bool, backup: Path | None) -> None:
    if not needed:
        click.echo(f"{file.path} {'does not name' if remove else 'already names'} leafgate so; nothing to do.")
    elif done:
        kept = f" What it held before: {backup}" if backup is not None else ""
        click.echo(f"{file.path} is written; restart {TITLES[client]}.{kept}")
    else:
        click.echo("Nothing was written.")
