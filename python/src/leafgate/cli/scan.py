"""`leafgate scan`: judge definitions. In: a saved file, or servers that are asked. Out: risks and what was found."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from leafgate.catalog.snapshot_file import ServerListing
from leafgate.cli.catalog_source import CatalogSource, catalog_options
from leafgate.firewall.scan import FLAG_AT, scan_definition


@click.command()
@catalog_options
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one element per definition.")
@click.option("--min-risk", type=click.FloatRange(0, 1), default=None,
              help="List only definitions of at least this risk (default: all in JSON, else the flagged).")  # fmt: skip
@click.option("--check", is_flag=True, help="Exit 1 if a definition is flagged.")
def command(*, source: CatalogSource, as_json: bool, min_risk: float | None, check: bool) -> None:
    """Look for hidden instructions, exfiltration requests, shadowing, invisible characters and chat markers.

    Every string of a definition is read: names, descriptions, schemas down to enum values. The JSON form lists
    {"server", "tool", "risk", "findings": [{"kind", "where", "weight", "excerpt"}]} for every tool, in file order;
    risk runs from 0 to 1, and from 0.5 on a definition deserves a person's eyes.
    """
    every = _rows(source.listings())
    least = min_risk if min_risk is not None else 0 if as_json else FLAG_AT
    shown = [row for row in every if row["risk"] >= least]
    if as_json:
        click.echo(json.dumps(shown))
    else:
        _print(shown, every)
    if check and any(row["risk"] >= FLAG_AT for row in every):
        sys.exit(1)


def _print(rows: Sequence[dict[str, Any]], every: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        click.echo(f"{row['risk']:.2f}  {row['server'] or '-'}  {json.dumps(row['tool'])}")
        for finding in row["findings"]:
            click.echo(f"      {finding['kind']}  {json.dumps(finding['where'])}  {json.dumps(finding['excerpt'])}")
    flagged = sum(row["risk"] >= FLAG_AT for row in every)
    click.echo(f"definitions read: {len(every)}; flagged: {flagged}")


def _rows(listings: Sequence[ServerListing]) -> list[dict[str, Any]]:
    names = {place: [_name(tool) for tool in listing.tools] for place, listing in enumerate(listings)}
    rows: list[dict[str, Any]] = []
    for place, listing in enumerate(listings):
        others = [name for other, found in names.items() if other != place for name in found]
        for tool in listing.tools:
            scan = scan_definition(tool, others, own_names=names[place])
            found = [finding.as_json() for finding in scan.findings]
            rows.append({"server": listing.server, "tool": _name(tool), "risk": scan.risk, "findings": found})
    return rows


def _name(tool: Any) -> str:
    return str(tool.get("name", ""))
