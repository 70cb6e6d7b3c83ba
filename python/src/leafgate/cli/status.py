"""`leafgate status`: show the status of a running gateway, as tables or as its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leafgate.cli.gateway_client import URL_OPTION, request_json, root_of, usual_url
from leafgate.model.errors import LeafgateError

TOOLS_SHOWN: Final = 20
GRADUATES_SHOWN: Final = 10
ERRORS_SHOWN: Final = 5
_COLOURS: Final = {"up": "green", "down": "red"}
HOW_TO_GRADUATE: Final = (
    "A server whose tools return their own ids saves the gateway this work. A stdio server needs no change:\n"
    "  npx @codecai/mcp-leaf wrap --map <map> -- <its command>\n"
    "in your own server, call wrapServer(server, meta) of that package, or wrap_tool_call of leafgate."
)


@click.command()
@URL_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the JSON unchanged.")
def command(url: str | None, as_json: bool) -> None:
    """Show a running gateway's servers, what its results cost, and which tools should return leaves next.

    If the gateway requires a token, set LEAFGATE_TOKEN.
    """
    status = _fetch(f"{root_of(url or usual_url())}/status")
    if as_json:
        click.echo(json.dumps(status))
        return
    console = Console(highlight=False)
    console.print(_servers(status) if status["upstreams"] else f"{_title(status)}, no servers")
    for upstream in status["upstreams"]:
        if upstream["state"] != "up" and upstream.get("last_failure"):
            console.print(f"{upstream['name']} is {upstream['state']}: {upstream['last_failure']}", markup=False)
    _print_codec(console, status)
    _print_tools(console, status["leaves"])
    saved = status["tokens_saved"]
    console.print(
        f"tokens that models did not have to read: {saved['cards']:,} by cards, {saved['digests']:,} by digests"
    )
    graduates = [
        (each["server"], each["tool"], str(each["blocks"]), f"{each['tokens']:,}", *_seconds(each))
        for each in status["graduate_next"][:GRADUATES_SHOWN]
    ]
    title = "graduate next: leaves of these tools would save the gateway most, as measured here"
    _print_table(console, title, ("server", "tool", "texts", "tokens", "seconds", "saves"), graduates)
    if graduates:
        console.print(HOW_TO_GRADUATE, markup=False)
    keys = ("correlation_id", "operation", "server", "tool", "code", "fault")
    errors = [[error.get(key, "") for key in keys] for error in status["recent_errors"][:ERRORS_SHOWN]]
    _print_table(console, "recent errors", ("correlation id", *keys[1:]), errors)


def _seconds(graduate: Mapping[str, Any]) -> tuple[str, str]:
    return f"{graduate['seconds']:.4f}", f"{graduate['saves']:.4f}"


def _title(status: Mapping[str, Any]) -> str:
    return f"leafgate {status['version']}, {status['tools']} tools"


def _servers(status: Mapping[str, Any]) -> Table:
    table = Table("server", "state", "tools", "calls", "errors", "p50", "p95", title=_title(status))
    for upstream in status["upstreams"]:
        calls = status["upstream_calls"].get(upstream["label"], {"calls": 0, "errors": 0, "seconds": {}})
        table.add_row(
            escape(upstream["name"]),
            f"[{_COLOURS.get(upstream['state'], 'yellow')}]{upstream['state']}[/]",
            str(upstream["tools"]),
            str(calls["calls"]),
            str(calls["errors"]),
            _milliseconds(calls["seconds"].get("p50")),
            _milliseconds(calls["seconds"].get("p95")),
        )
    return table


def _print_codec(console: Console, status: Mapping[str, Any]) -> None:
    codec, seconds = status["codec"], status["codec_seconds"]
    rejected = ", ".join(f"{reason} {n}" for reason, n in codec["rejectedLeaves"].items()) or "none"
    console.print(
        f"leaf bypasses {codec['leafBypasses']}, tokenized by the gateway {codec['tokenizeCalls']}, "
        f"rejected leaves: {rejected} (since {codec['since']})"
    )
    console.print(f"time checking leaves {seconds['verify']:.3f} s, tokenizing results {seconds['tokenize']:.3f} s")


def _print_tools(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print which tools send leaves and which do not, those with most texts first."""
    busiest = sorted(rows, key=lambda row: -sum(row["blocks"].values()))[:TOOLS_SHOWN]
    more = f", and {len(rows) - len(busiest)} rows more with --json" if len(rows) > len(busiest) else ""
    cells = []
    for row in busiest:
        counts = [row["blocks"].get(outcome, 0) for outcome in ("leaf", "shim", "skipped")]
        counts += [sum(row["rejected"].values()), sum(row["dropped"].values()), sum(row["tokens"].values())]
        spent = f"{1000 * (row['seconds']['verify'] + row['seconds']['tokenize']):.1f}"
        short = row["map_id"].removeprefix("sha256:")[:8]
        cells.append((row["server"], row["tool"], short, *(f"{n:,}" for n in counts), spent))
    columns = ("server", "tool", "map", "leaf", "shim", "skipped", "rejected", "cleaned", "tokens", "ms")
    _print_table(console, f"texts of results, by tool and map{more}", columns, cells)


def _print_table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.1f} ms"


def _fetch(url: str) -> dict[str, Any]:
    code, status = request_json(url, "that may read the status")
    if code != 200:
        raise LeafgateError(f"{url} answers with HTTP {code}; is it a leafgate?")
    if not isinstance(status, dict) or "codec" not in status:
        raise LeafgateError(f"{url} is not a leafgate gateway")
    return status
