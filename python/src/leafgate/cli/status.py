"""`leafgate status`: ask a running gateway how it is. In: its address. Out: tables, or its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
import httpx2
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leafgate.cli.gateway_address import DEFAULT_URL, TOKEN_VARIABLE, root_of, token_headers
from leafgate.model.errors import LeafgateError

TOOLS_SHOWN: Final = 20
GRADUATES_SHOWN: Final = 10
ERRORS_SHOWN: Final = 5
_COLOURS: Final = {"up": "green", "down": "red"}
HOW_TO_GRADUATE: Final = (
    "A server whose tools return their own ids spares the gateway this work. A stdio server needs no change:\n"
    "  npx @codecai/mcp-leaf wrap --map <map> -- <its command>\n"
    "and one of your own calls wrapServer(server, meta) of that package, or wrap_tool_call of leafgate."
)


@click.command()
@click.option("--url", default=DEFAULT_URL, show_default=True, help="Where the gateway is.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON as it is.")
def command(url: str, as_json: bool) -> None:
    """Ask a gateway that runs on HTTP: its servers, what its results cost, which tools should learn leaves next.

    If the gateway wants a token, put it into LEAFGATE_TOKEN.
    """
    found = _fetch(f"{root_of(url)}/status")
    if as_json:
        click.echo(json.dumps(found))
        return
    console = Console(highlight=False)
    console.print(_servers(found) if found["upstreams"] else f"{_title(found)}, no servers")
    _print_down(console, found["upstreams"])
    _print_codec(console, found)
    _print_tools(console, found["leaves"])
    _print_saved(console, found["tokens_saved"])
    _print_graduates(console, found["graduate_next"])
    _print_errors(console, found["recent_errors"])


def _title(found: Mapping[str, Any]) -> str:
    return f"leafgate {found['version']}, {found['tools']} tools"


def _servers(found: Mapping[str, Any]) -> Table:
    table = Table("server", "state", "tools", "calls", "errors", "p50", "p95", title=_title(found))
    for upstream in found["upstreams"]:
        called = found["upstream_calls"].get(upstream["label"], {"calls": 0, "errors": 0, "seconds": {}})
        table.add_row(
            escape(upstream["name"]),
            f"[{_COLOURS.get(upstream['state'], 'yellow')}]{upstream['state']}[/]",
            str(upstream["tools"]),
            str(called["calls"]),
            str(called["errors"]),
            _milliseconds(called["seconds"].get("p50")),
            _milliseconds(called["seconds"].get("p95")),
        )
    return table


def _print_down(console: Console, upstreams: Sequence[Mapping[str, Any]]) -> None:
    for upstream in upstreams:
        if upstream["state"] != "up" and upstream.get("last_failure"):
            console.print(f"{upstream['name']} is {upstream['state']}: {upstream['last_failure']}", markup=False)


def _print_codec(console: Console, found: Mapping[str, Any]) -> None:
    codec, seconds = found["codec"], found["codec_seconds"]
    rejected = ", ".join(f"{reason} {n}" for reason, n in codec["rejectedLeaves"].items()) or "none"
    console.print(
        f"leaf bypasses {codec['leafBypasses']}, tokenized by the gateway {codec['tokenizeCalls']}, "
        f"rejected leaves: {rejected} (since {codec['since']})"
    )
    console.print(f"time checking leaves {seconds['verify']:.3f} s, tokenizing results {seconds['tokenize']:.3f} s")


def _print_tools(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Which tools send leaves, and which do not yet; those with most texts."""
    if not rows:
        return
    busiest = sorted(rows, key=lambda row: -sum(row["blocks"].values()))[:TOOLS_SHOWN]
    more = f", and {len(rows) - len(busiest)} rows more with --json" if len(rows) > len(busiest) else ""
    table = Table("server", "tool", "map", "leaf", "shim", "skipped", "rejected", "tokens", "ms")
    table.title = f"texts of results, by tool and map{more}"
    for row in busiest:
        counts = [row["blocks"].get(outcome, 0) for outcome in ("leaf", "shim", "skipped")]
        counts += [sum(row["rejected"].values()), sum(row["tokens"].values())]
        spent = f"{1000 * sum(row['seconds'].values()):.1f}"
        short = row["map_id"].removeprefix("sha256:")[:8]
        table.add_row(escape(row["server"]), escape(row["tool"]), escape(short), *(f"{n:,}" for n in counts), spent)
    console.print(table)


def _print_saved(console: Console, saved: Mapping[str, int]) -> None:
    console.print(f"tokens that no model had to read: {saved['cards']:,} by cards, {saved['digests']:,} by digests")


def _print_graduates(console: Console, graduates: Sequence[Mapping[str, Any]]) -> None:
    if not graduates:
        return
    table = Table("server", "tool", "texts", "tokens", "seconds", title="graduate next: these cost the gateway most")
    for tool in graduates[:GRADUATES_SHOWN]:
        spent = f"{tool['seconds']:.4f}"
        table.add_row(escape(tool["server"]), escape(tool["tool"]), str(tool["blocks"]), f"{tool['tokens']:,}", spent)
    console.print(table)
    console.print(HOW_TO_GRADUATE, markup=False)


def _print_errors(console: Console, errors: Sequence[Mapping[str, Any]]) -> None:
    if not errors:
        return
    table = Table("correlation id", "operation", "server", "code", "fault", title="recent errors")
    for error in errors[:ERRORS_SHOWN]:
        table.add_row(*(escape(error[key]) for key in ("correlation_id", "operation", "server", "code", "fault")))
    console.print(table)


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.1f} ms"


def _fetch(url: str) -> dict[str, Any]:
    try:
        answer = httpx2.get(url, timeout=5, headers=token_headers()).raise_for_status().json()
    except httpx2.HTTPStatusError as error:
        raise LeafgateError(_refused(url, error.response.status_code)) from None
    except (httpx2.HTTPError, ValueError) as error:
        raise LeafgateError(
            f"no gateway answers at {url} ({type(error).__name__}); is `leafgate serve` running?"
        ) from None
    if not isinstance(answer, dict) or "codec" not in answer:
        raise LeafgateError(f"what answers at {url} is no leafgate")
    return answer


def _refused(url: str, code: int) -> str:
    if code in (401, 403):
        return f"the gateway at {url} wants a token that may read its status, in {TOKEN_VARIABLE}"
    return f"{url} answers with HTTP {code}; is it a leafgate?"
