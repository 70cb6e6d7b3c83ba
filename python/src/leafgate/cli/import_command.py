"""`leafgate import`: from a client's file to a leafgate.yaml. In: the file or the client's name. Out: the YAML.

Touches the client's file only with --replace, after a preview and with a backup; --undo takes that back.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leafgate.cli.carry_over import Carried, carry_over
from leafgate.cli.client_files import (
    CLIENTS,
    SCOPES,
    ClientFile,
    ClientName,
    Machine,
    Place,
    Scope,
    place_of,
    places,
    read_file,
    read_place,
    read_text,
    this_machine,
)
from leafgate.cli.consent import DRY_RUN_OPTION, YES_OPTION, agreed
from leafgate.cli.file_change import FileChange, apply_all, undo, undoing
from leafgate.cli.json_edit import with_value
from leafgate.cli.own_entry import OWN_NAME, child_entry, is_own
from leafgate.cli.server_secrets import Referenced, host_of, secret_names, with_references
from leafgate.model.errors import ConfigError

_PROJECT_FOLDERS: Final = (".vscode", ".cursor")
_HEADER: Final = """\
# Made by `leafgate import` from {source}.
# `leafgate doctor --config {name}` checks it, `leafgate serve --config {name}` runs it.
"""


@dataclass(frozen=True)
class _Source:
    """The file that is imported, whose it is where that is known, and where the same client has more servers."""

    file: ClientFile
    client: ClientName | None
    folder: Path
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Plan:
    """What is carried over, the files to write, and the change to the client's own file, if one was asked for."""

    source: _Source
    carried: Carried
    moved: Referenced
    written: tuple[FileChange, ...]
    pointed: FileChange | None


@click.command("import")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--client", type=click.Choice(CLIENTS), help="Take the file of this client, wherever it keeps it.")
@click.option(
    "--scope", type=click.Choice(SCOPES), help="Which of the client's files. [default: the first with servers]"
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), default="leafgate.yaml",
              show_default=True, help="The file to write.")  # fmt: skip
@click.option(
    "--force", is_flag=True, help="Replace the output file if it is there; its old content is kept beside it."
)
@click.option("--secrets", type=click.Choice(["keep", "env"]), default="keep", show_default=True,
              help="env: move secrets into a file of variables (mode 600), and refer to them.")  # fmt: skip
@click.option("--replace", is_flag=True, help="Let the client's file name leafgate in place of those servers.")
@click.option("--undo", "undo_file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="Take a client's file back to what it was before leafgate changed it.")  # fmt: skip
@YES_OPTION
@DRY_RUN_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(
    *,
    file: Path | None,
    client: ClientName | None,
    scope: Scope | None,
    output: Path,
    force: bool,
    secrets: str,
    replace: bool,
    undo_file: Path | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make a leafgate.yaml of the servers that an MCP client already has.

    Values of secrets are never printed. With --replace, the client's file then names leafgate alone, which starts
    those servers; a backup is kept beside it.

    \b
    leafgate import --client claude-desktop             write leafgate.yaml, change nothing else
    leafgate import --client cursor --replace           and put leafgate in their place, after a preview
    leafgate import --undo ~/.cursor/mcp.json           as it was before
    """
    if undo_file is not None:
        _undo(undo_file, yes=yes, dry_run=dry_run, as_json=as_json)
        return
    source = _source(file, client, scope, this_machine())
    plan = _planned(source, output, force=force, to_variables=secrets == "env", replace=replace)
    changes = [*plan.written]
    if plan.pointed is not None and plan.pointed.is_needed:
        if agreed(plan.pointed, yes=yes, dry_run=dry_run, quiet=as_json):
            changes.append(plan.pointed)
        elif not dry_run:
            raise click.Abort
    backups = [] if dry_run else apply_all(changes, datetime.now(UTC))
    report = _report(plan, output) | {
        "dry_run": dry_run,
        "backups": [str(kept) for kept in backups if kept is not None],
    }
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        _show(report, plan.carried)


def _planned(source: _Source, output: Path, *, force: bool, to_variables: bool, replace: bool) -> _Plan:
    carried = carry_over(source.file.servers, source.folder)
    if not carried.servers:
        told = "; ".join(carried.notices) or "it holds none"
        raise ConfigError(f"{source.file.path}: no server to import: {told}")
    moved = with_references(carried.servers) if to_variables else Referenced(carried.servers, {})
    written = [_yaml_change(output, force, source, moved)]
    if moved.values:
        written.append(_variables_change(output, force, moved.values))
    pointed = _pointing_change(source, output, moved.values) if replace else None
    return _Plan(source, carried, moved, tuple(written), pointed)


def _source(file: Path | None, client: ClientName | None, scope: Scope | None, machine: Machine) -> _Source:
    if file is not None and client is not None:
        raise click.UsageError("give a FILE or a --client, not both")
    if file is not None:
        found = read_file(file)
        at = [place for place in places(machine) if place.file.resolve() == found.path]
        return _Source(found, at[0].client if at else None, _project_of(found.path))
    if client is not None and scope is not None:
        place = place_of(client, scope, machine)
        return _at(place, read_place(place), machine)
    held = [(place, read_place(place)) for place in places(machine) if client in (None, place.client)]
    able = [(place, found) for place, found in held if any(not is_own(*server) for server in found.servers.items())]
    if not able:
        looked = "\n  ".join(dict.fromkeys(str(place.file) for place, _ in held))
        raise ConfigError(f"no client's file with servers was found; looked for\n  {looked}")
    told = [
        f"--client {place.client} --scope {place.scope}   {len(found.servers)} servers in {found.path}"
        for place, found in able
    ]
    if client is None and len(able) > 1:
        raise ConfigError("several clients have servers; choose one:\n  " + "\n  ".join(told))
    return replaced(_at(*able[0], machine), more=tuple(told[1:]))


def _at(place: Place, found: ClientFile, machine: Machine) -> _Source:
    return _Source(found, place.client, machine.home if place.scope == "user" else machine.folder)


def _project_of(path: Path) -> Path:
    """The folder in which a client would start the servers of this file."""
    return path.parent.parent if path.parent.name in _PROJECT_FOLDERS else path.parent


def _yaml_change(output: Path, force: bool, source: _Source, moved: Referenced) -> FileChange:
    header = _HEADER.format(source=source.file.path, name=output.name)
    servers = {name: dict(entry) for name, entry in moved.servers.items()}
    inputs = [{"id": each["id"], "default": each["default"]} for each in source.file.inputs if _has_default(each)]
    document = {"mcpServers": servers} | ({"inputs": inputs} if inputs else {})
    body = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return FileChange(output.resolve(), _present(output, force), f"{header}{body}", private=True)


def _has_default(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("id"), str) and isinstance(entry.get("default"), str)


def _variables_change(output: Path, force: bool, values: Mapping[str, str]) -> FileChange:
    lines = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    return FileChange(_variables_file(output), _present(_variables_file(output), force), lines, private=True)


def _variables_file(output: Path) -> Path:
    return output.resolve().with_suffix(".env")


def _present(path: Path, force: bool) -> str | None:
    if not path.exists():
        return None
    if not force:
        raise ConfigError(f"{path}: is there already; --force replaces it and keeps a backup, -o names another")
    return read_text(path)


def _pointing_change(source: _Source, output: Path, values: Mapping[str, str]) -> FileChange:
    """The client's file with leafgate alone. Variables that the client gave its servers it now gives to leafgate."""
    file = source.file
    entry = child_entry(source.client, output.resolve(), values)
    return FileChange(file.path, file.text, with_value(file.text, file.key, {OWN_NAME: entry}))


def _report(plan: _Plan, output: Path) -> dict[str, Any]:
    plain = [f"{server}.{name}" for server, entry in plan.moved.servers.items() for name in secret_names(entry)]
    return {
        "source": str(plan.source.file.path),
        "client": plan.source.client,
        "output": str(output.resolve()),
        "servers": [
            {
                "name": name,
                "reach": str(entry["command"]) if "command" in entry else host_of(str(entry["url"])),
                "env": sorted(entry.get("env") or {}),
            }
            for name, entry in plan.carried.servers.items()
        ],
        "notices": [*plan.carried.notices, *(f"not imported: {more}" for more in plan.source.more)],
        "variables": [*plan.carried.asked, *plan.moved.values],
        "variables_file": str(_variables_file(output)) if plan.moved.values else None,
        "plain_secrets": plain,
        "replaced": plan.pointed is not None and plan.pointed.is_needed,
    }


def _show(report: Mapping[str, Any], carried: Carried) -> None:
    console = Console(highlight=False, soft_wrap=True)
    table = Table("server", "reached by", "environment", box=None, pad_edge=False)
    for server in report["servers"]:
        table.add_row(*(escape(cell) for cell in (server["name"], server["reach"], ", ".join(server["env"]))))
    console.print(table)
    for notice in report["notices"]:
        click.echo(f"leafgate: {notice}", err=True)
    if report["dry_run"]:
        console.print("Nothing was written.")
        return
    output = report["output"]
    console.print(f"\n[green]written[/green] {escape(output)}: {len(report['servers'])} servers")
    if report["plain_secrets"]:
        told = escape(", ".join(report["plain_secrets"]))
        console.print(f"  it holds secrets ({told}) and is readable by you alone;")
        console.print("  --secrets env keeps them in a file of variables instead")
    if report["variables_file"]:
        console.print(f"[green]written[/green] {escape(report['variables_file'])}: the secrets; before `serve`:")
        console.print(f"  set -a; . {escape(shlex.quote(report['variables_file']))}; set +a")
    for name in carried.asked:
        console.print(f"  needs the variable {name}, for what the client would have asked you")
    if report["replaced"]:
        console.print(
            f"[green]changed[/green] {escape(report['source'])}: it names leafgate alone. Restart the client."
        )
        console.print(f"  leafgate import --undo {escape(shlex.quote(report['source']))}   takes that back")
    for backup in report["backups"]:
        console.print(f"  kept {escape(backup)}")
    if not report["replaced"]:
        console.print(f"next: leafgate serve --config {escape(shlex.quote(output))} --transport http")


def _undo(file: Path, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    change, backup = undoing(file)
    done = agreed(change, yes=yes, dry_run=dry_run, quiet=as_json)
    if not done and not dry_run:
        raise click.Abort
    kept = undo(change, backup, datetime.now(UTC)) if done else None
    if as_json:
        told = {"file": str(change.path), "restored": done, "kept": None if kept is None else str(kept)}
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
    elif done:
        click.echo(f"{change.path} is as it was. What it held until now: {kept}")
