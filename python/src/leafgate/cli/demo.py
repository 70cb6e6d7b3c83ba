"""`leafgate demo`: show six steps through a gateway in the terminal, and a table of the tokens that they cost.

This process is the client: it starts the gateway over stdio, and the gateway starts the two demo servers.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import click
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult
from rich.console import Console
from rich.table import Table

from leafgate.cli.gateway_client import Target, call_tool, connect, text_of
from leafgate.compose.servers import embedded_config
from leafgate.maps.files import CARD_MAP, MapFiles
from leafgate.model.envelope import ENVELOPE_META_KEY
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.server.mcp_server import STATUS_METHOD
from leafgate.upstream import StdioServer
from leafgate.upstream.raw_session import raw_request

WIDTH: Final = 96
SHOWN_LINES: Final = 6


@click.command()
@click.option("--color/--no-color", default=None, help="Colours: on, off, or as the terminal supports.")
@click.option("--json", "as_json", is_flag=True, help="Print the steps and the figures as JSON at the end.")
def command(color: bool | None, as_json: bool) -> None:
    """Show every step: list, browse, execute with and without leaf, shorten and view, refuse.

    This process is a real MCP client: it starts the gateway, which starts the two demo servers.
    """
    console = Console(force_terminal=color, no_color=color is False, highlight=False, width=WIDTH, quiet=as_json)
    walk = _Walk(console)
    with Console(stderr=True, quiet=not as_json).status("running the demo"):
        anyio.run(walk.run)
    if as_json:
        click.echo(json.dumps(walk.as_json(), ensure_ascii=False))


class _Walk:
    """The six steps, and the tokens that a model reads in them."""

    def __init__(self, console: Console) -> None:
        self.console = console
        cards = MapFiles().load(CARD_MAP)
        self.count: Callable[[str], int] = lambda text: len(cards.encode(text))
        self.with_gateway: Counter[str] = Counter()
        self.without: Counter[str] = Counter()
        self.steps: list[dict[str, Any]] = []
        self.codec: dict[str, Any] = {}

    def as_json(self) -> dict[str, Any]:
        tokens = {"without": self.without, "with_leafgate": self.with_gateway}
        return {"steps": self.steps, "tokens": tokens, "codec": self.codec}

    async def run(self) -> None:
        async with connect(Target(url=None)) as self.client:
            await self._list()
            tool_ids = await self._browse()
            await self._leaf(tool_ids)
            await self._shim(tool_ids)
            await self._large(tool_ids)
            await self._refusal(tool_ids)
            await self._definitions()
            await self._table()

    async def _list(self) -> None:
        self._step(1, "The client lists tools: a few meta-tools give access to all of them")
        tools = (await self.client.list_tools()).tools
        self._show("\n".join(f"{tool.name}: {tool.description}" for tool in tools))
        self._read("tool definitions", json.dumps([t.model_dump(exclude_none=True, by_alias=True) for t in tools]))

    async def _browse(self) -> dict[str, str]:
        self._step(2, 'It browses: "what is the time", then "search and export notes"')
        tool_ids: dict[str, str] = {}
        for query in ("what is the time in another city", "search and export notes"):
            page = text_of(await call_tool(self.client, "tool_browse", {"query": query, "top_k": 3}))
            self._show(page)
            self._read("browsing", page)
            ids = [line.split(" ")[0] for line in page.splitlines() if "#" in line]
            tool_ids |= {id.partition(":")[2].partition("#")[0]: id for id in ids if id not in tool_ids.values()}
        return tool_ids

    async def _leaf(self, tool_ids: Mapping[str, str]) -> None:
        self._step(3, "It calls a tool that sends its own token ids: the gateway checks them and passes them on")
        if "get_current_time" not in tool_ids:
            self._say("(the time server is not available: Node.js or its build is missing)")
            return
        args = {"tool_id": tool_ids["get_current_time"], "args": {"timezone": "Europe/Paris"}}
        self._result(await call_tool(self.client, "tool_execute", args))

    async def _shim(self, tool_ids: Mapping[str, str]) -> None:
        self._step(4, "It calls a tool that does not: the gateway makes the ids itself")
        args = {"tool_id": tool_ids["search_notes"], "args": {"query": "rye", "limit": 2}}
        self._result(await call_tool(self.client, "tool_execute", args))

    async def _large(self, tool_ids: Mapping[str, str]) -> None:
        self._step(5, "It calls a tool with a long result: a digest comes back, and a handle to read on")
        result = await call_tool(self.client, "tool_execute", {"tool_id": tool_ids["export_notes"]})
        envelope = (result.meta or {})[ENVELOPE_META_KEY]
        artifact = envelope["artifacts"][0]
        self._show(text_of(result))
        self._read("results", text_of(result))
        self.without["results"] += artifact["tokens"] - self.count(text_of(result))
        selector = {"type": "lines", "start": 1000, "end": 1002}
        view = text_of(await call_tool(self.client, "tool_view", {"handle": artifact["handle"], "selector": selector}))
        self._say(f"tool_view of lines 1000 to 1002 of {artifact['lines']}:")
        self._show(view)
        self.with_gateway["results"] += self.count(view)

    async def _refusal(self, tool_ids: Mapping[str, str]) -> None:
        self._step(6, "It sends wrong arguments: the gateway refuses, and the server sees no call")
        args = {"tool_id": tool_ids["search_notes"], "args": {"query": 5, "limit": "many"}}
        self._show(text_of(await call_tool(self.client, "tool_execute", args)))

    async def _definitions(self) -> None:
        """Count what a client gets without the gateway: the whole definition of every tool."""
        for spec in embedded_config().servers:
            assert isinstance(spec.reach, StdioServer)
            program = StdioServerParameters(command=spec.reach.command, args=[*spec.reach.args])
            async with Client(program) as direct:
                listed = [t.model_dump(exclude_none=True, by_alias=True) for t in (await direct.list_tools()).tools]
            self.without["tool definitions"] += self.count(json.dumps(listed))

    async def _table(self) -> None:
        status = await raw_request(self.client.session, STATUS_METHOD, {}, seconds=5)
        codec = self.codec = status["codec"]
        self.without["browsing"] = 0
        table = Table("tokens that a model reads", "without", "with leafgate", title="\nTotal")
        for row in ("tool definitions", "browsing", "results"):
            table.add_row(row, f"{self.without[row]:,}", f"{self.with_gateway[row]:,}")
        total, total_with = sum(self.without.values()), sum(self.with_gateway.values())
        table.add_row("[bold]total[/bold]", f"[bold]{total:,}[/bold]", f"[bold]{total_with:,}[/bold]")
        for column in table.columns[1:]:
            column.justify = "right"
        self.console.print(table)
        self.console.print(
            f"leaf bypasses [green]{codec['leafBypasses']}[/green], tokenized by the gateway "
            f"[yellow]{codec['tokenizeCalls']}[/yellow], rejected leaves {sum(codec['rejectedLeaves'].values())}."
        )

    def _result(self, result: CallToolResult) -> None:
        text = text_of(result)
        payload = (result.content[0].meta or {}).get(CODEC_META_KEY, {"ids": [], "map_id": "none"})
        codec = (result.meta or {})[ENVELOPE_META_KEY]["provenance"].get("codec", {})
        self._show(text)
        ids = payload["ids"]
        first_ids = ", ".join(map(str, ids[:14])) + (", …" if len(ids) > 14 else "")
        self._say(f"{len(ids)} ids: {first_ids}")
        by = "the tool's own, checked" if codec.get("leafBypasses") else "made by the gateway"
        self._say(f"map {payload['map_id'][:19]}…; {by}; {json.dumps(codec)}")
        self._read("results", text)

    def _read(self, what: str, text: str) -> None:
        cost = self.count(text)
        self.with_gateway[what] += cost
        if what == "results":
            self.without[what] += cost

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
