"""`leafgate doctor`: everything a person trips over, with the fix. In: a file, a URL, or nothing. Out: a table or JSON.

Touches what its checks touch: files, child processes, the network. Exits 1 if anything fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import anyio
import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leafgate.cli.doctor_checks.access import check_access
from leafgate.cli.doctor_checks.config_file import check_config, check_file
from leafgate.cli.doctor_checks.finding import Finding
from leafgate.cli.doctor_checks.gateway import check_port, check_url
from leafgate.cli.doctor_checks.machine import check_machine
from leafgate.cli.doctor_checks.maps import check_maps
from leafgate.cli.doctor_checks.servers import check_servers, needs_node
from leafgate.cli.doctor_checks.state import check_state
from leafgate.cli.embedded import embedded_config
from leafgate.config.settings import USUAL_CONFIG, Config

Tell = Callable[[str], None]

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path),
              help="The file to check. [default: leafgate.yaml, if it is here; else the demo servers]")  # fmt: skip
@click.option("--url", help="Check a gateway that runs there, instead of a file.")
@click.option("--timeout", type=click.FloatRange(0.1, 3600), metavar="SECONDS",
              help="How long a server may take to start. [default: as configured]")  # fmt: skip
@click.option("--no-start", is_flag=True, help="Do not start or reach any server.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, file: Path | None, url: str | None, timeout: float | None, no_start: bool, as_json: bool) -> None:
    """Check everything that a gateway needs, and say how to mend what is missing.

    Python and Node.js, the file and the variables that it names, each server's command, each server itself (started,
    and asked for its tools), who may come in, the store, the port, the maps, the permissions of a file with secrets.
    """
    if url is not None and file is not None:
        raise click.UsageError("give --config or --url, not both")
    console = Console(stderr=True)
    with console.status("checking") as status:
        findings = [*check_url(url)] if url else _check_here(_usual(file), timeout, no_start, status.update)
    failed = any(finding.state == "fail" for finding in findings)
    if as_json:
        told = {"ok": not failed, "findings": [finding.as_json() for finding in findings]}
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        _show(findings)
    if failed:
        sys.exit(1)


def _usual(file: Path | None) -> Path | None:
    usual = Path(USUAL_CONFIG)
    return usual if file is None and usual.is_file() else file


def _check_here(file: Path | None, timeout: float | None, no_start: bool, tell: Tell) -> list[Finding]:
    config, of_file = (embedded_config(), []) if file is None else check_file(file)
    servers = () if config is None else config.servers
    findings = [*check_machine(needs_node=needs_node(servers), is_demo=file is None), *of_file]
    if config is not None:
        findings += check_config(config)
        findings += [] if no_start else anyio.run(check_servers, config.servers, timeout, tell)
        findings += check_access(config, reach=not no_start)
        findings += [] if no_start else check_state(config)
        findings.append(check_port(config.host, config.port, is_used=config.transport in ("http", "sse")))
    return [*findings, *check_maps(_default_map(config), tell)]


def _default_map(config: Config | None) -> str | None:
    return None if config is None else config.map


def _show(findings: Sequence[Finding]) -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for title in ("", "what", "how it is"):
        table.add_column(title, overflow="fold")
    group = ""
    for finding in findings:
        if finding.group != group:
            group = finding.group
            table.add_row("", Text(group, style="bold"), "")
        said = Text(finding.said)
        if finding.fix:
            said.append(f"\n→ {finding.fix}", style="italic")
        table.add_row(Text(finding.state, style=_COLOURS[finding.state]), Text(finding.name), said)
    console.print(table)
    counts = {state: sum(finding.state == state for finding in findings) for state in _COLOURS}
    console.print(f"\n{counts['ok']} ok, {counts['warn']} to look at, {counts['fail']} failed")
