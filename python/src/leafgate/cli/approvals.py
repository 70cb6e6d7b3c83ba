"""`leafgate approvals`: list, approve and deny the calls of a running gateway that wait for an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leafgate.cli.gateway_client import URL_OPTION, request_json, root_of, usual_url
from leafgate.cli.json_lines import AS_JSON_OPTION, print_json
from leafgate.model.errors import LeafgateError

ID_CHARS = 8


@click.group()
def command() -> None:
    """List, approve and deny the calls that wait for an operator.

    A call waits if the policy has require_approval for it, and its client cannot be asked (or approvals.by is
    operator). If the gateway requires a token, set LEAFGATE_TOKEN to one with the capability operate.

    \b
    leafgate approvals list
    leafgate approvals approve 3a91c7d2
    leafgate approvals deny 3a91c7d2
    """


@command.command("list")
@URL_OPTION
@AS_JSON_OPTION
def list_command(url: str | None, as_json: bool) -> None:
    """List the calls that wait: who calls which tool with which arguments, and since when."""
    approvals = _request(url)["approvals"]
    if as_json:
        print_json(approvals)
        return
    if not approvals:
        click.echo("no call waits for approval")
        return
    table = Table("id", "waits", "principal", "server", "tool", "arguments", "reason")
    for each in approvals:
        texts = (str(each.get(key, "")) for key in ("principal", "server", "tool", "arguments", "reason"))
        table.add_row(each["id"][:ID_CHARS], f"{each['age_seconds']:.0f} s", *map(Text, texts))
    Console(highlight=False).print(table)


@command.command()
@URL_OPTION
@click.argument("id")
@AS_JSON_OPTION
def approve(url: str | None, id: str, as_json: bool) -> None:
    """Let the call with this ID go on. The first characters of an id are enough."""
    _decide(url, id, approve=True, as_json=as_json)


@command.command()
@URL_OPTION
@click.argument("id")
@AS_JSON_OPTION
def deny(url: str | None, id: str, as_json: bool) -> None:
    """Refuse the call with this ID. The first characters of an id are enough."""
    _decide(url, id, approve=False, as_json=as_json)


def _decide(url: str | None, id: str, *, approve: bool, as_json: bool) -> None:
    matches = [each for each in _request(url)["approvals"] if id and each["id"].startswith(id)]
    if len(matches) != 1:
        problem = "several calls wait" if matches else "no call waits"
        raise LeafgateError(f"{problem} for an approval with the id {id}; `leafgate approvals list` shows them")
    (match,) = matches
    decision = _request(url, f"/{match['id']}", {"approve": approve})
    if as_json:
        print_json(decision)
        return
    click.echo(f"{'approved' if approve else 'denied'}: {match['tool_id']} {match['arguments']}")


def _request(url: str | None, path: str = "", answer: Mapping[str, bool] | None = None) -> dict[str, Any]:
    """Ask the gateway, or send it an answer. LeafgateError, with what to do, if it refuses or cannot be reached."""
    address = f"{root_of(url or usual_url())}/api/approvals{path}"
    status, body = request_json(address, "with the capability operate", answer)
    if status == 404 and answer is None:
        raise LeafgateError(f"operators cannot approve calls at {address}; is it a leafgate with auth?")
    if status != 200:
        message = body.get("message") if isinstance(body, dict) else None
        raise LeafgateError(message or f"{address} answers with HTTP {status}")
    if not isinstance(body, dict) or (answer is None and not isinstance(body.get("approvals"), list)):
        raise LeafgateError(f"{address} is not of a leafgate gateway")
    return body
