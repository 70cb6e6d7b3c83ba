"""`leafgate import`: make a leafgate.yaml of the servers in a client's file.

The client's own file changes only with --replace, after a preview and with a backup; --undo restores it. What only the
client understands is not imported, and a notice says so.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as copy_with
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leafgate.cli.client_entries import ImportedServers, import_servers, passed_variables
from leafgate.cli.client_files import (
    CLIENTS,
    OWN_NAME,
    SCOPES,
    ClientFile,
    Machine,
    Place,
    Scope,
    child_entry,
    is_own,
    place_of,
    places,
    read_file,
    read_place,
    read_text,
    recognize,
    this_machine,
)
from leafgate.cli.file_change import (
    DRY_RUN_OPTION,
    YES_OPTION,
    FileChange,
    apply_all,
    confirm,
    undo,
    undo_change,
)
from leafgate.cli.json_lines import print_json
from leafgate.compose.secrets import ServerReferences, host_of, secret_names, with_references
from leafgate.config.formats import write_yaml
from leafgate.config.load import input_defaults
from leafgate.model.errors import ConfigError

_PROJECT_FOLDERS: Final = (".vscode", ".cursor", ".gemini", ".zed", ".codex", ".roo")
_HEADER: Final = """\
# Made by `leafgate import` from {source}.
# `leafgate doctor --config {name}` checks it, `leafgate serve --config {name}` runs it.
"""


@dataclass(frozen=True)
class _Source:
    """The file to import, its client if recognized, and other files of that client with servers."""

    file: ClientFile
    client: str | None
    folder: Path
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Plan:
    """The servers to import, the files to write, and with --replace the change to the client's own file.

    `remaining` are the servers that stay in that file beside leafgate.
    """

    source: _Source
    imported: ImportedServers
    references: ServerReferences
    changes: tuple[FileChange, ...]
    client_change: FileChange | None
    remaining: tuple[str, ...] = ()


@click.command("import")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--client", type=click.Choice(CLIENTS), help="Import the file of this client, from its usual place.")
@click.option("--scope", type=click.Choice(SCOPES), help="The client's file. [default: the first with servers]")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), default="leafgate.yaml",
              show_default=True, help="The file to write.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing output file; a backup is kept beside it.")
@click.option("--secrets", type=click.Choice(["keep", "env"]), default="keep", show_default=True,
              help="env: move secrets into a file of variables (mode 600), and refer to them.")  # fmt: skip
@click.option("--replace", is_flag=True, help="Replace those servers in the client's file with leafgate.")
@click.option("--undo", "undo_file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="Restore a client's file as it was before leafgate changed it.")  # fmt: skip
@YES_OPTION
@DRY_RUN_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    *,
    file: Path | None,
    client: str | None,
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
    """Make a leafgate.yaml of the servers in an MCP client's file.

    Values of secrets are never printed. With --replace, the client's file names leafgate in place of those servers,
    and leafgate starts them; a server that was not imported stays. A backup is kept beside the file.

    \b
    leafgate import --client claude-desktop             write leafgate.yaml, and nothing else
    leafgate import --client cursor --replace           and replace them with leafgate, after a preview
    leafgate import --undo ~/.cursor/mcp.json           restore the client's file
    """
    if undo_file is not None:
        _undo(undo_file, yes=yes, dry_run=dry_run, as_json=as_json)
        return
    source = _source(file, client, scope, this_machine())
    plan = _make_plan(source, output, force=force, to_variables=secrets == "env", replace=replace)
    changes = [*plan.changes]
    if plan.client_change is not None and plan.client_change.is_needed:
        confirm(plan.client_change, yes=yes, dry_run=dry_run, quiet=as_json)
        changes.append(plan.client_change)
    backups = [] if dry_run else apply_all(changes, datetime.now(UTC))
    copies = [str(backup) for backup in backups if backup is not None]
    report = _report(plan, output) | {"dry_run": dry_run, "backups": copies}
    if as_json:
        print_json(report)
    else:
        _show(report, plan.imported)


def _make_plan(source: _Source, output: Path, *, force: bool, to_variables: bool, replace: bool) -> _Plan:
    imported = import_servers(source.file.servers, source.folder, source.client)
    if not imported.servers:
        reasons = "; ".join(imported.notices) or "it has none"
        raise ConfigError(f"{source.file.path}: no server to import: {reasons}")
    references = with_references(imported.servers) if to_variables else ServerReferences(imported.servers, {})
    changes = [_yaml_change(output, force, source, references)]
    if references.values:
        file = _variables_file(output)
        lines = "".join(f"{name}={shlex.quote(value)}\n" for name, value in references.values.items())
        changes.append(FileChange(file, _present(file, force), lines, private=True))
    if not replace:
        return _Plan(source, imported, references, tuple(changes), None)
    own = [name for name, entry in source.file.servers.items() if is_own(name, entry)]
    env, missing = passed_variables(source.client, references.servers, references.values)
    after = source.file.edit(
        put={OWN_NAME: child_entry(source.client, output.resolve(), env)}, remove=[*imported.servers, *own]
    )
    notices = tuple(f"the client does not pass the variable {name}; set it where the client starts" for name in missing)
    remaining = tuple(name for name in source.file.servers if name not in (*imported.servers, *own))
    imported = copy_with(imported, notices=(*imported.notices, *notices))
    client_change = FileChange(source.file.path, source.file.text, after)
    return _Plan(source, imported, references, tuple(changes), client_change, remaining)


def _source(file: Path | None, client: str | None, scope: Scope | None, machine: Machine) -> _Source:
    if file is not None and client is not None:
        raise click.UsageError("give a FILE or a --client, not both")
    if file is not None:
        content = read_file(file)
        at = [place for place in places(machine) if place.file.resolve() == content.path]
        folder = content.path.parent  # the one in which the client starts the servers
        folder = folder.parent if folder.name in _PROJECT_FOLDERS else folder
        return _Source(content, at[0].client if at else recognize(content), folder)
    if client is not None and scope is not None:
        place = place_of(client, scope, machine)
        return _at(place, read_place(place), machine)
    files = [(place, read_place(place)) for place in places(machine) if client in (None, place.client)]
    usable = [
        (place, content) for place, content in files if any(not is_own(*server) for server in content.servers.items())
    ]
    if not usable:
        paths = "\n  ".join(dict.fromkeys(str(place.file) for place, _ in files))
        raise ConfigError(f"found no client's file with servers; looked at\n  {paths}")
    choices = [
        f"--client {place.client} --scope {place.scope}   {len(content.servers)} servers in {content.path}"
        for place, content in usable
    ]
    if client is None and len(usable) > 1:
        raise ConfigError("several clients have servers; choose one:\n  " + "\n  ".join(choices))
    return copy_with(_at(*usable[0], machine), more=tuple(choices[1:]))


def _at(place: Place, file: ClientFile, machine: Machine) -> _Source:
    return _Source(file, place.client, machine.home if place.scope == "user" else machine.folder)


def _yaml_change(output: Path, force: bool, source: _Source, references: ServerReferences) -> FileChange:
    header = _HEADER.format(source=source.file.path, name=output.name)
    servers = {name: dict(entry) for name, entry in references.servers.items()}
    inputs = [{"id": id, "default": default} for id, default in input_defaults(source.file.inputs).items()]
    document = {"mcpServers": servers} | ({"inputs": inputs} if inputs else {})
    return FileChange(output.resolve(), _present(output, force), header + write_yaml(document), private=True)


def _variables_file(output: Path) -> Path:
    return output.resolve().with_suffix(".env")


def _present(path: Path, force: bool) -> str | None:
    if not path.exists():
        return None
    if not force:
        raise ConfigError(f"{path}: already exists; --force replaces it and keeps a backup, -o names another")
    return read_text(path)


def _report(plan: _Plan, output: Path) -> dict[str, Any]:
    plain = [f"{server}.{name}" for server, entry in plan.references.servers.items() for name in secret_names(entry)]
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
            for name, entry in plan.imported.servers.items()
        ],
        "notices": [*plan.imported.notices, *(f"not imported: {more}" for more in plan.source.more)],
        "variables": [*plan.imported.variables, *plan.references.values],
        "variables_file": str(_variables_file(output)) if plan.references.values else None,
        "plain_secrets": plain,
        "replaced": plan.client_change is not None and plan.client_change.is_needed,
        "remaining": list(plan.remaining),
    }


def _show(report: Mapping[str, Any], imported: ImportedServers) -> None:
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
        names = escape(", ".join(report["plain_secrets"]))
        console.print(f"  it contains secrets ({names}) and only you can read it;")
        console.print("  --secrets env writes them to a file of variables instead")
    if report["variables_file"]:
        console.print(f"[green]written[/green] {escape(report['variables_file'])}: the secrets; before `serve`:")
        console.print(f"  set -a; . {escape(shlex.quote(report['variables_file']))}; set +a")
    for name in imported.variables:
        console.print(f"  needs the variable {name}, which the client would have asked you for")
    if report["replaced"]:
        others = f"leafgate, and still {', '.join(report['remaining'])}" if report["remaining"] else "only leafgate"
        console.print(
            f"[green]changed[/green] {escape(report['source'])}: it names {escape(others)}. Restart the client."
        )
        console.print(f"  leafgate import --undo {escape(shlex.quote(report['source']))}   undoes that")
    for backup in report["backups"]:
        console.print(f"  kept {escape(backup)}")
    if not report["replaced"]:
        serve = f"leafgate serve --config {shlex.quote(output)} --transport http"
        install = f"leafgate install {report['client']}, or " if report["client"] else ""
        console.print(f"next: {escape(install + serve)}")


def _undo(file: Path, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    change, backup = undo_change(file)
    done = confirm(change, yes=yes, dry_run=dry_run, quiet=as_json)
    copy = undo(change, backup, datetime.now(UTC)) if done else None
    if as_json:
        print_json({"file": str(change.path), "restored": done, "kept": None if copy is None else str(copy)})
    elif done:
        click.echo(f"{change.path} is restored. Its previous content is in {copy}")
