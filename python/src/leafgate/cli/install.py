"""`leafgate install`: add leafgate to a client's file in place of the servers that it stands for, or remove it.

The file changes after a preview and with a backup; a second run has nothing to do.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from leafgate.cli.client_entries import passed_variables, taken_over
from leafgate.cli.client_files import (
    CLIENTS,
    OWN_NAME,
    SCOPES,
    ClientFile,
    Scope,
    child_entry,
    http_entry,
    place_of,
    read_place,
    this_machine,
)
from leafgate.cli.file_change import DRY_RUN_OPTION, YES_OPTION, FileChange, apply_all, confirm
from leafgate.cli.json_lines import print_json
from leafgate.config.document import load_document
from leafgate.config.load import BLOCKS, find_config
from leafgate.config.variables import parse_env_file, read_small_file
from leafgate.model.errors import ConfigError


@click.command()
@click.argument("client", type=click.Choice([*CLIENTS]))
@click.option("--config", "config", type=click.Path(dir_okay=False, path_type=Path),
              help="The configuration that leafgate starts with. [default: leafgate.yaml, if present]")  # fmt: skip
@click.option("--scope", type=click.Choice(SCOPES), default="user", show_default=True,
              help="user: everywhere; project: in this folder, shared; local: in this folder, yours.")  # fmt: skip
@click.option("--http", "url", metavar="URL", help="Use a gateway that already runs at this URL.")
@click.option("--token-variable", metavar="NAME",
              help="With --http: the environment variable of the client that holds the token.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep the client's own entries of servers that the configuration has too.")
@click.option("--remove", is_flag=True, help="Remove leafgate from the file.")
@YES_OPTION
@DRY_RUN_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    *,
    client: str,
    config: Path | None,
    scope: Scope,
    url: str | None,
    token_variable: str | None,
    keep: bool,
    remove: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add leafgate to the file in which CLIENT keeps its MCP servers.

    A server that the configuration has too, as after `leafgate import`, is removed from the file: leafgate starts it.
    Other servers, other settings, comments and the order of keys stay.

    \b
    leafgate install claude-desktop --config leafgate.yaml
    leafgate install vscode --scope project --http http://127.0.0.1:8808/mcp
    leafgate install cursor --remove
    """
    if url is not None and config is not None:
        raise click.UsageError("--http is for a gateway that already runs with its own configuration; omit --config")
    place = place_of(client, scope, this_machine())
    file = read_place(place)
    replaced: list[str] = []
    if remove:
        after = file.edit(remove=[OWN_NAME]) if OWN_NAME in file.servers else file.text
    else:
        config = find_config(config)
        if config is not None and not config.is_file():
            raise ConfigError(f"{config}: does not exist; `leafgate import` makes one from a client's servers")
        servers = {} if config is None or url is not None else _servers(config)
        if url is None:
            entry = child_entry(client, config, _variables(client, scope, servers, config))
        else:
            entry = http_entry(client, url, token_variable)
        folder = Path.home() if scope == "user" else Path.cwd()
        stands_for = [] if keep else taken_over(file.servers, [*servers.values()], folder, client)
        replaced = [name for name in stands_for if name != OWN_NAME]
        is_there = file.servers.get(OWN_NAME) == entry and not replaced
        after = file.text if is_there else file.edit(put={OWN_NAME: entry}, remove=replaced)
    change = FileChange(file.path, file.text if file.exists else None, after)
    needed = after != file.text if remove else change.is_needed
    done = needed and confirm(change, yes=yes, dry_run=dry_run, quiet=as_json)
    backup = apply_all([change], datetime.now(UTC))[0] if done else None
    if as_json:
        report = {"client": client, "scope": scope, "file": str(file.path), "needed": needed, "changed": done}
        print_json({**report, "replaced": replaced, "backup": backup and str(backup)})
    elif not needed:
        click.echo(f"{file.path} {'does not name' if remove else 'already names'} leafgate; nothing to do.")
    elif done:
        note = f" The previous content is in {backup}" if backup is not None else ""
        click.echo(f"{file.path} is written; restart {CLIENTS[client].title}.{note}")
        _print_replaced(replaced, file)
    else:
        click.echo("Nothing was written.")


def _print_replaced(replaced: list[str], file: ClientFile) -> None:
    if replaced:
        click.echo(f"leafgate stands for {', '.join(replaced)}, which the file does not name any more;")
        click.echo(f"  leafgate import --undo {shlex.quote(str(file.path))}   undoes that")


def _servers(config: Path) -> dict[str, Mapping[str, Any]]:
    """Return the servers of a configuration as they are written, with references and without their values."""
    value = load_document(config).value
    block: Any = next((value[name] for name in BLOCKS if value.get(name)), {})
    entries = block.items() if isinstance(block, dict) else ()
    return {name: entry for name, entry in entries if isinstance(entry, dict)}


def _variables(
    client: str, scope: Scope, servers: Mapping[str, Mapping[str, Any]], config: Path | None
) -> dict[str, str]:
    """Return the variables that the client must pass, so that the gateway can fill in its configuration.

    Values come from the file that `leafgate import --secrets env` wrote, but not into a file that others share.
    """
    if config is None:
        return {}
    file = config.with_suffix(".env")
    values = parse_env_file(read_small_file(file))[0] if file.is_file() and scope != "project" else {}
    env, missing = passed_variables(client, servers, values)
    unset = [name for name in missing if name not in os.environ]
    if unset:
        raise ConfigError(
            f"{config} needs {', '.join(unset)}, and {CLIENTS[client].title} would start leafgate without; write "
            f"NAME=value lines into {file} (chmod 600), or start leafgate yourself and use --http"
        )
    return env
