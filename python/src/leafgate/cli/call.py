"""`leafgate call`: one tool through a gateway. In: a tool and its arguments. Out: the result as a model would read it.

Touches a gateway: one that runs, or one made for this call. Progress goes to standard error; a failed call exits 1.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import click
from mcp import Client, MCPError
from mcp.types import CallToolResult
from rich.console import Console
from rich.markup import escape

from leafgate.cli.call_words import arguments_of, needs_schema, selector_of
from leafgate.cli.completion import complete_map
from leafgate.cli.gateway_address import DEFAULT_URL
from leafgate.cli.gateway_client import Target, connected
from leafgate.model.envelope import ENVELOPE_META_KEY
from leafgate.model.errors import CatalogError, LeafgateError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.storage.map_files import MapFiles

ACCEPT_META_KEY: Final = "ai.codec/accept"
START_SECONDS: Final = 10.0  # as long as a gateway waits for its servers before it browses
POLL_SECONDS: Final = 0.2
_LOOKED_THROUGH: Final = 50
_MAX_PAGES: Final = 1_000


@dataclass(frozen=True)
class _Wish:
    """What was asked for on the command line."""

    target: Target
    tool: str | None
    words: tuple[str, ...]
    view: str | None
    selector: dict[str, Any] | None
    map_digest: str | None
    dry_run: bool


@click.command()
@click.argument("tool", required=False, metavar="[TOOL]")
@click.argument("words", nargs=-1, metavar="[ARGS]...")
@click.option("--url", help=f"A gateway that runs on HTTP. [default: {DEFAULT_URL}]")
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Start a gateway with this file, for this call alone.")  # fmt: skip
@click.option("--demo", is_flag=True, help="Start a gateway in front of the demo servers, for this call alone.")
@click.option("--map", "map_name", metavar="MAP", shell_complete=complete_map, help="Ask for the ids of this map too.")
@click.option("--view", metavar="HANDLE", help="Read a part of a result that was shortened, from a gateway that runs.")
@click.option("--selector", metavar="WHICH", help="The part: lines:5-10, head:20, search:word, json:/a/b, stats.")
@click.option("--dry-run", is_flag=True, help="Only check the call; the tool's server sees nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print text, handles and ids as one JSON object.")
@click.option("--raw", is_flag=True, help="Print the MCP result as it came.")
def command(
    *,
    tool: str | None,
    words: tuple[str, ...],
    url: str | None,
    config: Path | None,
    demo: bool,
    map_name: str | None,
    view: str | None,
    selector: str | None,
    dry_run: bool,
    as_json: bool,
    raw: bool,
) -> None:
    """Call TOOL through a gateway, and print what a model would read.

    TOOL is an id, a name that only one tool has, or one of the gateway's own (tool_browse, tool_hydrate, ...). ARGS are
    one JSON object, or key=value pairs (key:=value for JSON); - reads the object from standard input.

    \b
    leafgate call tool_browse query="what is the time"
    leafgate call search_notes query=rye limit=2
    leafgate call notes:export_notes --selector lines:5-10
    leafgate call --view HANDLE --selector search:rye
    """
    if (tool is None) == (view is None):
        raise click.UsageError("give a TOOL to call, or --view with a handle")
    if sum((url is not None, config is not None, demo)) > 1:
        raise click.UsageError("--url, --config and --demo exclude each other")
    if view is not None and (config is not None or demo):
        raise click.UsageError("a handle lives as long as its gateway: --view needs one that runs (--url)")
    own = config is not None or demo
    wish = _Wish(
        target=Target(None if own else url or DEFAULT_URL, config),
        tool=tool,
        words=(sys.stdin.read(),) if words == ("-",) else words,
        view=view,
        selector=None if selector is None else selector_of(selector),
        map_digest=None if map_name is None else _digest(map_name),
        dry_run=dry_run,
    )
    result = _asked(wish)
    _print(result, wish, as_json=as_json, raw=raw)
    if result.is_error:
        sys.exit(1)


def _digest(map_name: str) -> str:
    files = MapFiles()
    return files.find(map_name).digest or files.load(map_name).map.digest


def _asked(wish: _Wish) -> CallToolResult:
    """The result; a call that the protocol itself refused ends here, as one that failed."""
    try:
        return anyio.run(_ask, wish)
    except (MCPError, BaseExceptionGroup) as group:
        error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, MCPError):
        raise error
    click.echo(f"leafgate: the gateway refuses the request: {error.message}", err=True)
    sys.exit(1)


async def _ask(wish: _Wish) -> CallToolResult:
    async with connected(wish.target) as client:
        if wish.view is not None:
            return await _view(client, wish.view, wish.selector or {"type": "head"})
        result = await _execute(client, wish)
        kept = _artifacts(result)
        if wish.selector is None or not kept or result.is_error:
            return result
        return await _view(client, kept[0]["handle"], wish.selector)


async def _view(client: Client, handle: str, selector: dict[str, Any]) -> CallToolResult:
    return await _call(client, "tool_view", {"handle": handle, "selector": selector})


async def _execute(client: Client, wish: _Wish) -> CallToolResult:
    assert wish.tool is not None
    shown = await _shown(client, wish.tool, patience=START_SECONDS if wish.target.url is None else 0)
    if wish.dry_run and (wish.tool in shown or "tool_execute" not in shown):
        raise CatalogError(f"{wish.tool!r} cannot be tried: --dry-run is for tools behind tool_execute")
    meta = {ACCEPT_META_KEY: {"map_id": wish.map_digest}} if wish.map_digest else None
    if wish.tool in shown:
        return await _call(client, wish.tool, arguments_of(wish.words, shown[wish.tool]), meta)
    if "tool_execute" not in shown:
        raise CatalogError(f"no tool {wish.tool!r}; the gateway shows: {', '.join(sorted(shown))}")
    tool_id = wish.tool if "#" in wish.tool else await _find(client, wish.tool)
    schema = await _schema(client, tool_id) if needs_schema(wish.words) and "tool_hydrate" in shown else {}
    args = {"tool_id": tool_id, "args": arguments_of(wish.words, schema), "dry_run": wish.dry_run}
    return await _call(client, "tool_execute", args, meta)


async def _shown(client: Client, wanted: str, patience: float) -> dict[str, Mapping[str, Any]]:
    """The tools that the gateway lists, with their schemas: its own, or in passthrough mode those of the servers.

    A gateway lists at once what it has. One that was just started may get the wanted tool in a moment.
    """
    deadline = anyio.current_time() + patience
    while True:
        found = await _listed(client)
        if wanted in found or "tool_execute" in found or anyio.current_time() >= deadline:
            return found
        await anyio.sleep(POLL_SECONDS)


async def _listed(client: Client) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        found |= {tool.name: tool.input_schema for tool in page.tools}
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def _find(client: Client, name: str) -> str:
    """The id of the one tool that is called so."""
    page = _text(await _call(client, "tool_browse", {"query": name, "top_k": _LOOKED_THROUGH}))
    ids = [line.split(" ")[0] for line in page.splitlines() if "#" in line.split(" ")[0]]
    found = [id for id in ids if name in (id.partition("#")[0], id.partition("#")[0].partition(":")[2])]
    if len(found) == 1:
        return found[0]
    if found:
        raise CatalogError(f"several tools are called {name!r}: {', '.join(found)}")
    near = ", ".join(ids[:5]) or "none"
    raise CatalogError(f"no tool is called {name!r}; the nearest: {near}")


async def _schema(client: Client, tool_id: str) -> Mapping[str, Any]:
    hydrated = await _call(client, "tool_hydrate", {"tool_id": tool_id})
    try:
        found = json.loads(_text(hydrated))
    except ValueError:
        return {}
    schema = found.get("args_schema", found.get("inputSchema")) if isinstance(found, dict) else None
    return schema if isinstance(schema, Mapping) else {}


async def _call(
    client: Client, name: str, args: dict[str, Any], meta: Mapping[str, Any] | None = None
) -> CallToolResult:
    result = await client.call_tool(name, args, progress_callback=_tell, meta=dict(meta) if meta else None)  # type: ignore[arg-type]  # keys of our own are allowed
    if not isinstance(result, CallToolResult):
        raise LeafgateError(f"{name} gave no result")
    return result


async def _tell(progress: float, total: float | None, message: str | None) -> None:
    of = "" if total is None else f" of {total:g}"
    click.echo(f"{progress:g}{of}{f': {message}' if message else ''}", err=True)


def _print(result: CallToolResult, wish: _Wish, *, as_json: bool, raw: bool) -> None:
    if raw:
        click.echo(json.dumps(result.model_dump(by_alias=True, mode="json", exclude_none=True), ensure_ascii=False))
        return
    if as_json:
        click.echo(json.dumps(_as_json(result), ensure_ascii=False))
        return
    click.echo(_text(result))
    _hint(result, wish)


def _as_json(result: CallToolResult) -> dict[str, Any]:
    envelope = _envelope(result)
    blocks = [(block.meta or {}).get(CODEC_META_KEY) for block in result.content]
    return {
        "is_error": bool(result.is_error),
        "text": _text(result),
        "structured": result.structured_content,
        "artifacts": _artifacts(result),
        "leaves": [block for block in blocks if block is not None],
        "provenance": envelope.get("provenance", {}),
    }


def _hint(result: CallToolResult, wish: _Wish) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    leaves = [leaf for leaf in _as_json(result)["leaves"] if wish.map_digest]
    for leaf in leaves:
        console.print(f"[dim]{len(leaf['ids'])} ids of map {leaf['map_id']}[/dim]")
    for kept in _artifacts(result):
        handle = kept["handle"]
        size = f"{kept['lines']} lines" if kept.get("lines") else f"{kept['bytes']} bytes"
        if wish.target.url is None:
            told = "add --selector lines:1-20 to this call; the handle ends with this gateway"
        else:
            told = f"leafgate call --url {shlex.quote(wish.target.url)} --view {handle} --selector lines:1-20"
        console.print(f"[dim]{size} are kept; to read on: {escape(told)}[/dim]")


def _envelope(result: CallToolResult) -> Mapping[str, Any]:
    found = (result.meta or {}).get(ENVELOPE_META_KEY)
    return found if isinstance(found, Mapping) else {}


def _artifacts(result: CallToolResult) -> Sequence[Mapping[str, Any]]:
    found = _envelope(result).get("artifacts")
    return [kept for kept in found if isinstance(kept, Mapping) and "handle" in kept] if isinstance(found, list) else []


def _text(result: CallToolResult) -> str:
    """What a model reads; what is no text is named."""
    return "\n".join(block.text if block.type == "text" else f"[{block.type}]" for block in result.content)
