"""`leafgate status`: ask a running gateway how it is. In: its address. Out: a table, or its JSON."""

from __future__ import annotations

import json
from typing import Any

import click
import httpx2
from rich.console import Console
from rich.table import Table

from leafgate.cli.config import DEFAULT_HOST, DEFAULT_PORT
from leafgate.model.errors import LeafgateError


@click.command()
@click.option("--url", default=f"http://{DEFAULT_HOST}:{DEFAULT_PORT}", show_default=True, help="Where the gateway is.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON as it is.")
def command(url: str, as_json: bool) -> None:
    """Ask a gateway that runs on HTTP: its servers, and how many results came with leaves."""
    found = _fetch(f"{url.rstrip('/').removesuffix('/mcp')}/status")
    if as_json:
        click.echo(json.dumps(found))
        return
    console = Console(highlight=False)
    servers = Table("server", "state", "tools", title=f"leafgate {found['version']}, {found['tools']} tools")
    for upstream in found["upstreams"]:
        servers.add_row(upstream["name"], upstream["state"], str(upstream["tools"]))
    console.print(servers)
    codec = found["codec"]
    rejected = ", ".join(f"{reason} {n}" for reason, n in codec["rejectedLeaves"].items()) or "none"
    console.print(
        f"leaf bypasses {codec['leafBypasses']}, tokenized by the gateway {codec['tokenizeCalls']}, "
        f"rejected leaves: {rejected} (since {codec['since']})"
    )


def _fetch(url: str) -> dict[str, Any]:
    try:
        answer = httpx2.get(url, timeout=5).raise_for_status().json()
    except (httpx2.HTTPError, ValueError) as error:
        raise LeafgateError(
            f"no gateway answers at {url} ({type(error).__name__}); is `leafgate serve` running?"
        ) from None
    assert isinstance(answer, dict)
    return answer
