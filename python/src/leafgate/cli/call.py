"""`leafgate call`: call one tool through a gateway, and print the result as a model would read it.

The gateway is a running one, or one started for this call. Arguments are typed as `key=value`, which becomes what the
tool's schema says, or as `key:=value`, which is always JSON. Progress goes to standard error; a failed call exits 1.
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

from leafgate.cli.gateway_client import URL_OPTION, Target, call_tool, connect, text_of, usual_url
from leafgate.cli.tokens import complete_map
from leafgate.digest.selectors import parse_selector
from leafgate.maps.files import MapFiles
from leafgate.model.envelope import ENVELOPE_META_KEY
from leafgate.model.errors import CatalogError, GatewayError
from leafgate.model.leaf import CODEC_META_KEY

ACCEPT_META_KEY: Final = "ai.codec/accept"
_MAX_MATCHES: Final = 50
_MAX_PAGES: Final = 1_000


def needs_schema(words: Sequence[str]) -> bool:
    """Return whether the tool's schema is needed to read these words."""
    return any("=" in word and ":=" not in word for word in words if not word.lstrip().startswith("{"))


def arguments_of(words: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, from one JSON object or from pairs."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        arguments = _json(words[0], words[0])
        if not isinstance(arguments, dict):
            raise click.BadParameter("the arguments are not a JSON object", param_hint="ARGS")
        return arguments
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    return dict(_pair(word, properties) for word in words)


def selector_of(word: str) -> dict[str, Any]:
    """Parse `lines:5-10`, `head:20`, `search:word`, `json:/a/b`, `stats`, or the JSON of spec 4."""
    kind, colon, value = word.partition(":")
    is_pair = colon and not word.lstrip().startswith("{")
    selector: Any = {kind: int(value) if value.isdigit() else value} if is_pair else word
    try:
        return parse_selector(selector).as_json()
    except GatewayError as error:
        raise click.BadParameter(error.body.message, param_hint="--selector") from None


def _pair(word: str, properties: Mapping[str, Any]) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{word!r} is neither key=value nor a JSON object", param_hint="ARGS")
    if key.endswith(":"):
        return key[:-1], _json(value, word)
    return key, _typed(value, properties.get(key))


def _typed(value: str, schema: object) -> Any:
    """Return text where the schema allows a string; else the JSON value, or the text if it is not JSON."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "string" or (isinstance(kind, list) and "string" in kind):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _json(value: str, word: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise click.BadParameter(f"the value after := in {word!r} is not JSON", param_hint="ARGS") from None


@dataclass(frozen=True)
class _CallOptions:
    """The options of the command line."""

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
@URL_OPTION
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Start a gateway with this file for this call.")  # fmt: skip
@click.option("--demo", is_flag=True, help="Start a gateway with the demo servers for this call.")
@click.option("--map", "map_name", metavar="MAP", shell_complete=complete_map, help="Also ask for the ids of this map.")
@click.option("--view", metavar="HANDLE", help="Read a part of a shortened result, from a running gateway.")
@click.option("--selector", metavar="WHICH", help="The part: lines:5-10, head:20, search:word, json:/a/b, stats.")
@click.option("--dry-run", is_flag=True, help="Only check the call, without sending it to the tool's server.")
@click.option("--json", "as_json", is_flag=True, help="Print text, handles and ids as one JSON object.")
@click.option("--raw", is_flag=True, help="Print the MCP result unchanged.")
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
        raise click.UsageError("a handle is valid as long as its gateway runs: --view needs a running one (--url)")
    own = config is not None or demo
    options = _CallOptions(
        target=Target(None if own else url or usual_url(), config),
        tool=tool,
        words=(sys.stdin.read(),) if words == ("-",) else words,
        view=view,
        selector=None if selector is None else selector_of(selector),
        map_digest=None if map_name is None else _digest(map_name),
        dry_run=dry_run,
    )
    result = _run(options)
    if raw:
        click.echo(json.dumps(result.model_dump(by_alias=True, mode="json", exclude_none=True), ensure_ascii=False))
    elif as_json:
        click.echo(json.dumps(_as_json(result), ensure_ascii=False))
    else:
        click.echo(text_of(result))
        _hint(result, options)
    if result.is_error:
        sys.exit(1)


def _digest(map_name: str) -> str:
    files = MapFiles()
    return files.find(map_name).digest or files.load(map_name).map.digest


def _run(options: _CallOptions) -> CallToolResult:
    """Make the call. A request that the protocol itself refuses exits 1, as a failed call does."""
    try:
        return anyio.run(_ask, options)
    except (MCPError, BaseExceptionGroup) as group:
        error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, MCPError):
        raise error
    click.echo(f"leafgate: the gateway refuses the request: {error.message}", err=True)
    sys.exit(1)


async def _ask(options: _CallOptions) -> CallToolResult:
    async with connect(options.target) as client:
        if options.view is not None:
            view = {"handle": options.view, "selector": options.selector or {"type": "head"}}
            return await call_tool(client, "tool_view", view)
        result = await _execute(client, options)
        artifacts = _artifacts(result)
        if options.selector is None or not artifacts or result.is_error:
            return result
        view = {"handle": artifacts[0]["handle"], "selector": options.selector}
        return await call_tool(client, "tool_view", view)


async def _execute(client: Client, options: _CallOptions) -> CallToolResult:
    assert options.tool is not None
    tools = await _list_tools(client)
    if options.dry_run and (options.tool in tools or "tool_execute" not in tools):
        raise CatalogError(f"{options.tool!r} cannot be tried: --dry-run is for tools behind tool_execute")
    meta = {ACCEPT_META_KEY: {"map_id": options.map_digest}} if options.map_digest else None
    if options.tool in tools:
        return await call_tool(client, options.tool, arguments_of(options.words, tools[options.tool]), meta)
    if "tool_execute" not in tools:
        raise CatalogError(f"no tool {options.tool!r}; the gateway shows: {', '.join(sorted(tools))}")
    tool_id = options.tool if "#" in options.tool else await _find(client, options.tool)
    schema = await _schema(client, tool_id) if needs_schema(options.words) and "tool_hydrate" in tools else {}
    args = {"tool_id": tool_id, "args": arguments_of(options.words, schema), "dry_run": options.dry_run}
    return await call_tool(client, "tool_execute", args, meta)


async def _list_tools(client: Client) -> dict[str, Mapping[str, Any]]:
    """Return the tools that the gateway lists, with their schemas: its own, or in passthrough mode the servers'."""
    tools: dict[str, Mapping[str, Any]] = {}
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools |= {tool.name: tool.input_schema for tool in page.tools}
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


async def _find(client: Client, name: str) -> str:
    """Return the id of the only tool with this name."""
    page = text_of(await call_tool(client, "tool_browse", {"query": name, "top_k": _MAX_MATCHES}))
    ids = [line.split(" ")[0] for line in page.splitlines() if "#" in line.split(" ")[0]]
    matches = [id for id in ids if name in (id.partition("#")[0], id.partition("#")[0].partition(":")[2])]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise CatalogError(f"several tools are called {name!r}: {', '.join(matches)}")
    near = ", ".join(ids[:5]) or "none"
    raise CatalogError(f"no tool is called {name!r}; the nearest: {near}")


async def _schema(client: Client, tool_id: str) -> Mapping[str, Any]:
    hydrated = await call_tool(client, "tool_hydrate", {"tool_id": tool_id})
    try:
        definition = json.loads(text_of(hydrated))
    except ValueError:
        return {}
    schema = definition.get("args_schema", definition.get("inputSchema")) if isinstance(definition, dict) else None
    return schema if isinstance(schema, Mapping) else {}


def _as_json(result: CallToolResult) -> dict[str, Any]:
    envelope = _envelope(result)
    blocks = [(block.meta or {}).get(CODEC_META_KEY) for block in result.content]
    return {
        "is_error": bool(result.is_error),
        "text": text_of(result),
        "structured": result.structured_content,
        "artifacts": _artifacts(result),
        "leaves": [block for block in blocks if block is not None],
        "provenance": envelope.get("provenance", {}),
    }


def _hint(result: CallToolResult, options: _CallOptions) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for leaf in _as_json(result)["leaves"] if options.map_digest else ():
        console.print(f"[dim]{len(leaf['ids'])} ids of map {leaf['map_id']}[/dim]")
    for artifact in _artifacts(result):
        handle = artifact["handle"]
        size = f"{artifact['lines']} lines" if artifact.get("lines") else f"{artifact['bytes']} bytes"
        if options.target.url is None:
            hint = "add --selector lines:1-20 to this call; the handle ends with this gateway"
        else:
            hint = f"leafgate call --url {shlex.quote(options.target.url)} --view {handle} --selector lines:1-20"
        console.print(f"[dim]{size} are stored; to read on: {escape(hint)}[/dim]")


def _envelope(result: CallToolResult) -> Mapping[str, Any]:
    envelope = (result.meta or {}).get(ENVELOPE_META_KEY)
    return envelope if isinstance(envelope, Mapping) else {}


def _artifacts(result: CallToolResult) -> Sequence[Mapping[str, Any]]:
    entries = _envelope(result).get("artifacts") or []
    return [entry for entry in entries if isinstance(entry, Mapping) and "handle" in entry]
