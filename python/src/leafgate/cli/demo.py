"""`leafgate demo`: the whole path in the terminal, through real processes. In: nothing. Out: six steps and a table.

Starts the gateway as a client would, as a child over stdio; the gateway starts the two demo servers.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio
import click
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult
from rich.console import Console
from rich.table import Table

from leafgate.cli.embedded import embedded_config
from leafgate.model.envelope import ENVELOPE_META_KEY
from leafgate.model.errors import LeafgateError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.server.mcp_server import STATUS_METHOD
from leafgate.storage.map_files import CARD_MAP, MapFiles
from leafgate.upstream.raw_session import raw_request
from leafgate.upstream.server_spec import ServerSpec, StdioServer

WIDTH: Final = 96
SHOWN_LINES: Final = 6


@click.command()
@click.option("--color/--no-color", default=None, help="Colours: on, off, or as the terminal allows.")
@click.option("--json", "as_json", is_flag=True, help="Print the steps and the figures as JSON, when all is done.")
def command(color: bool | None, as_json: bool) -> None:
    """Walk the whole path: list, browse, execute with and without leaf, shorten and view, refuse.

    Everything is real: this process is an MCP client, which starts the gateway, which starts the two demo servers.
    """
    console = Console(force_terminal=color, no_color=color is False, highlight=False, width=WIDTH, quiet=as_json)
    walk = _Walk(console)
    with Console(stderr=True, quiet=not as_json).status("walking the path"):
        anyio.run(walk.run)
    if as_json:
        click.echo(json.dumps(walk.as_json(), ensure_ascii=False))


class _Walk:
    """The six steps, and what a model reads on the way."""

    def __init__(self, console: Console) -> None:
        self.console = console
        cards = MapFiles().load(CARD_MAP)
        self.count: Callable[[str], int] = lambda text: len(cards.encode(text))
        self.with_gateway: dict[str, int] = {}
        self.without: dict[str, int] = {}
        self.steps: list[dict[str, Any]] = []
        self.codec: dict[str, Any] = {}

    def as_json(self) -> dict[str, Any]:
        tokens = {"without": self.without, "with_leafgate": self.with_gateway}
        return {"steps": self.steps, "tokens": tokens, "codec": self.codec}

    async def run(self) -> None:
        program = [sys.executable, "-m", "leafgate.cli", "serve", "--log-level", "error"]
        async with AsyncExitStack() as stack:
            gateway = StdioServerParameters(command=program[0], args=program[1:])
            self.client = await stack.enter_async_context(Client(gateway))
            await self._list()
            found = await self._browse()
            await self._leaf(found)
            await self._shim(found)
            await self._large(found)
            await self._refusal(found)
            await self._definitions()
            await self._table()

    async def _list(self) -> None:
        self._step(1, "The client lists tools: a few meta-tools stand for all of them")
        tools = (await self.client.list_tools()).tools
        self._show("\n".join(f"{tool.name}: {tool.description}" for tool in tools))
        self._read("tool definitions", json.dumps([t.model_dump(exclude_none=True, by_alias=True) for t in tools]))

    async def _browse(self) -> dict[str, str]:
        self._step(2, 'It browses: "what is the time", then "search and export notes"')
        found: dict[str, str] = {}
        for query in ("what is the time in another city", "search and export notes"):
            page = _text(await self._call("tool_browse", {"query": query, "top_k": 3}))
            self._show(page)
            self._read("browsing", page)
            ids = [line.split(" ")[0] for line in page.splitlines() if "#" in line]
            found |= {id.partition(":")[2].partition("#")[0]: id for id in ids if id not in found.values()}
        return found

    async def _leaf(self, found: Mapping[str, str]) -> None:
        self._step(3, "It calls a tool that ships its own token ids: the gateway checks them and lets them through")
        if "get_current_time" not in found:
            self._say("(the time server is not there: Node.js or its build is missing)")
            return
        args = {"tool_id": found["get_current_time"], "args": {"timezone": "Europe/Paris"}}
        self._result(await self._call("tool_execute", args))

    async def _shim(self, found: Mapping[str, str]) -> None:
        self._step(4, "It calls a tool that does not: the gateway makes the ids itself")
        args = {"tool_id": found["search_notes"], "args": {"query": "rye", "limit": 2}}
        self._result(await self._call("tool_execute", args))

    async def _large(self, found: Mapping[str, str]) -> None:
        self._step(5, "It calls a tool with a long result: a digest comes back, and a handle to read on")
        result = await self._call("tool_execute", {"tool_id": found["export_notes"]})
        envelope = (result.meta or {})[ENVELOPE_META_KEY]
        kept = envelope["artifacts"][0]
        self._show(_text(result))
        self._read("results", _text(result))
        self.without["results"] = self.without.get("results", 0) + kept["tokens"] - self.count(_text(result))
        selector = {"type": "lines", "start": 1000, "end": 1002}
        view = _text(await self._call("tool_view", {"handle": kept["handle"], "selector": selector}))
        self._say(f"tool_view of lines 1000 to 1002 of {kept['lines']}:")
        self._show(view)
        self.with_gateway["results"] += self.count(view)

    async def _refusal(self, found: Mapping[str, str]) -> None:
        self._step(6, "It sends wrong arguments: the gateway refuses, and the server sees no call")
        args = {"tool_id": found["search_notes"], "args": {"query": 5, "limit": "many"}}
        self._show(_text(await self._call("tool_execute", args)))

    async def _definitions(self) -> None:
        """What a client would have been given without the gateway: every tool's whole definition."""
        for spec in embedded_config().servers:
            async with Client(_parameters(spec)) as direct:
                listed = [t.model_dump(exclude_none=True, by_alias=True) for t in (await direct.list_tools()).tools]
            cost = self.count(json.dumps(listed))
            self.without["tool definitions"] = self.without.get("tool definitions", 0) + cost

    async def _table(self) -> None:
        status = await raw_request(self.client.session, STATUS_METHOD, {}, seconds=5)
        codec = self.codec = status["codec"]
        self.without["browsing"] = 0
        table = Table("tokens that a model reads", "without", "with leafgate", title="\nWhat it came to")
        for row in ("tool definitions", "browsing", "results"):
            table.add_row(row, f"{self.without.get(row, 0):,}", f"{self.with_gateway.get(row, 0):,}")
        total, total_with = sum(self.without.values()), sum(self.with_gateway.values())
        table.add_row("[bold]total[/bold]", f"[bold]{total:,}[/bold]", f"[bold]{total_with:,}[/bold]")
        for column in table.columns[1:]:
            column.justify = "right"
        self.console.print(table)
        self.console.print(
            f"leaf bypasses [green]{codec['leafBypasses']}[/green], tokenized by the gateway "
            f"[yellow]{codec['tokenizeCalls']}[/yellow], rejected leaves {sum(codec['rejectedLeaves'].values())}."
        )

    async def _call(self, name: str, args: dict[str, Any]) -> CallToolResult:
        result = await self.client.call_tool(name, args)
        if not isinstance(result, CallToolResult):
            raise LeafgateError(f"{name} gave no result")
        return result

    def _result(self, result: CallToolResult) -> None:
        text = _text(result)
        payload = (result.content[0].meta or {}).get(CODEC_META_KEY, {"ids": [], "map_id": "none"})
        codec = (result.meta or {})[ENVELOPE_META_KEY]["provenance"].get("codec", {})
        self._show(text)
        ids = payload["ids"]
        shown = ", ".join(map(str, ids[:14])) + (", …" if len(ids) > 14 else "")
        self._say(f"{len(ids)} ids: {shown}")
        by = "the tool's own, checked" if codec.get("leafBypasses") else "made by the gateway"
        self._say(f"map {payload['map_id'][:19]}…; {by}; {json.dumps(codec)}")
        self._read("results", text)
        self.without["results"] = self.without.get("results", 0)

    def _read(self, what: str, text: str) -> None:
        cost = self.count(text)
        self.with_gateway[what] = self.with_gateway.get(what, 0) + cost
        if what == "results":
            self.without[what] = self.without.get(what, 0) + cost

    def _step(self, number: int, title: str) -> None:
        self.steps.append({"step": number, "title": title, "said": [], "shown": []})
        self.console.print(f"\n[bold cyan]{number}.[/bold cyan] [bold]{title}[/bold]")

    def _say(self, text: str) -> None:
        self.steps[-1]["said"].append(text)
        self.console.print(f"   [dim]{text}[/dim]")

    def _show(self, text: str) -> None:
        self.steps[-1]["shown"].append(text)
        lines = text.splitlines()
        for line in lines[:SHOWN_LINES]:
            wrapped = textwrap.wrap(line, WIDTH - 5, max_lines=3, placeholder=" …", break_on_hyphens=False) or [""]
            self.console.print(textwrap.indent("\n".join(wrapped), "   │ "), markup=False)
        if len(lines) > SHOWN_LINES:
            self.console.print(f"   │ … {len(lines) - SHOWN_LINES} more lines", markup=False)


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def _parameters(spec: ServerSpec) -> StdioServerParameters:
    assert isinstance(spec.reach, StdioServer)
    return StdioServerParameters(command=spec.reach.command, args=[*spec.reach.args])
