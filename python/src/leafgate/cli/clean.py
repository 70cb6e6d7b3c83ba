"""`leafgate sanitize`, `leafgate redact` and `leafgate scan`: the firewall's cleaning, and its scan of definitions."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from leafgate.catalog.scan import FLAG_AT, ScanFinding, scan_definition
from leafgate.catalog.snapshot_file import ServerListing
from leafgate.catalog.twins import find_twins
from leafgate.clean.redact import RedactPolicy, redact_json
from leafgate.clean.sanitize import LinkPolicy, SanitizePolicy, sanitize_json
from leafgate.cli.catalog_source import CatalogSource, catalog_options
from leafgate.cli.json_lines import Line, answers_lines, field


@click.command()
@click.option("--links", type=click.Choice(["off", "flag", "strip"]), default="flag", show_default=True,
              help="What to do with links and images that could send data to another host.")  # fmt: skip
@click.option("--trust-host", multiple=True, metavar="HOST", help="A host whose links are allowed; may be repeated.")
@click.option("--escape-html", is_flag=True, help="Escape < > & and quotes in every string.")
@click.option("--legacy-turns", is_flag=True, help='Neutralize "Human:" and "Assistant:" after an empty line.')
@answers_lines
def sanitize(line: Line, links: LinkPolicy, trust_host: tuple[str, ...], escape_html: bool, legacy_turns: bool) -> Line:
    """Clean JSON lines from standard input as the firewall cleans tool results.

    Each line is an object {"text"?: string, "structured"?: any JSON}. The answer has the same members, every string and
    key in them cleaned, and "removed": [{"kind", "count"}]: control, escape-sequence, tag, zero-width,
    variation-selector, bidi, filler, soft-hyphen, invisible, noncharacter, surrogate, chat-marker, link, too-deep.
    What was detected but not removed is listed in "flagged", which is absent when empty.

    One answer per line, in order. A line that cannot be read gives {"error": "bad-line", "message"}.
    """
    policy = SanitizePolicy(escape_html=escape_html, links=links, trusted_hosts=trust_host, legacy_turns=legacy_turns)
    if "text" in line:
        field(line, "text", str)
    result = sanitize_json(line, policy)
    flagged = {"flagged": _counts(result.report.flagged)} if result.report.flagged else {}
    return {**result.value, "removed": _counts(result.report.removed), **flagged}


def _counts(kinds: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"kind": kind, "count": kinds[kind]} for kind in sorted(kinds)]


@click.command()
@click.option("--allow", "policy", multiple=True, metavar="VALUE",
              callback=lambda ctx, param, values: RedactPolicy(allow=values),
              help="A value that is not a secret, or its beginning followed by *; may be repeated.")  # fmt: skip
@answers_lines
def redact(line: Line, policy: RedactPolicy) -> Line:
    """Replace secrets in JSON lines from standard input as the firewall does in tool results.

    Each line is an object {"text"?: string, "structured"?: any JSON}. The answer has the same members with each secret
    replaced by [redacted:TYPE], in strings and keys, and "redacted": [{"type", "count"}].

    One answer per line, in order. A line that cannot be read gives {"error": "bad-line", "message"}.
    """
    if "text" in line:
        field(line, "text", str)
    result = redact_json(line, policy)
    types = result.report.redacted
    return {**result.value, "redacted": [{"type": kind, "count": types[kind]} for kind in sorted(types)]}


@click.command()
@catalog_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with one element per definition.")
@click.option("--min-risk", type=click.FloatRange(0, 1), default=None,
              help="List only definitions of at least this risk (default: all in JSON, else the flagged).")  # fmt: skip
@click.option("--check", is_flag=True, help="Exit 1 if a definition is flagged.")
def scan(*, source: CatalogSource, as_json: bool, min_risk: float | None, check: bool) -> None:
    """Look for hidden instructions, exfiltration requests, shadowing, invisible characters and chat markers.

    Every string of a definition is read: names, descriptions, schemas down to enum values. The JSON form lists
    {"server", "tool", "risk", "findings": [{"kind", "where", "weight", "excerpt"}]} for every tool, in file order;
    risk is between 0 and 1; from 0.5 on a definition is flagged for review. A finding of the kind "twin" names a tool
    of another server with the same name or text; its weight is 0.
    """
    every = _rows(source.listings())
    minimum = min_risk if min_risk is not None else 0 if as_json else FLAG_AT
    rows = [row for row in every if row["risk"] >= minimum]
    if as_json:
        click.echo(json.dumps(rows))
    else:
        _print(rows, every)
    if check and any(row["risk"] >= FLAG_AT for row in every):
        sys.exit(1)


def _print(rows: Sequence[dict[str, Any]], every: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        click.echo(f"{row['risk']:.2f}  {row['server'] or '-'}  {json.dumps(row['tool'])}")
        for finding in row["findings"]:
            click.echo(f"      {finding['kind']}  {json.dumps(finding['where'])}  {json.dumps(finding['excerpt'])}")
    flagged = sum(row["risk"] >= FLAG_AT for row in every)
    twins = sum(finding["kind"] == "twin" for row in every for finding in row["findings"])
    click.echo(f"definitions read: {len(every)}; flagged: {flagged}; twins of other servers' tools: {twins}")


def _rows(listings: Sequence[ServerListing]) -> list[dict[str, Any]]:
    names = {place: [_name(tool) for tool in listing.tools] for place, listing in enumerate(listings)}
    tools = [(str(place), tool) for place, listing in enumerate(listings) for tool in listing.tools]
    twins = {(twin.server, twin.tool): twin for twin in find_twins(tools)}
    rows: list[dict[str, Any]] = []
    for place, listing in enumerate(listings):
        others = [name for other, findings in names.items() if other != place for name in findings]
        for tool in listing.tools:
            report = scan_definition(tool, others, own_names=names[place])
            findings = [finding.as_json() for finding in report.findings]
            twin = twins.get((str(place), _name(tool)))
            if twin is not None:
                other = f"{listings[int(twin.other_server)].server or '-'}: {twin.other_tool}"
                where = "/name" if twin.by == "name" else "/description"
                findings.append(ScanFinding("twin", where, 0.0, other).as_json())
            rows.append({"server": listing.server, "tool": _name(tool), "risk": report.risk, "findings": findings})
    return rows


def _name(tool: Any) -> str:
    return str(tool.get("name", ""))
