"""A stateless server over stdio whose lists and resource carry cache hints: `hinting.py FILE [--listen]`.

FILE is JSON, read at every request: `hint` (the fields of each list and read) and `tools` (their names).
Each tools/list is written as a line to FILE.lists. Only with `--listen` does it have streams of changes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

FILE = Path(sys.argv[1])


def read_file() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text()))


def complete(**fields: Any) -> dict[str, Any]:
    return {"resultType": "complete", **read_file()["hint"], **fields}


async def list_tools(ctx: Any, params: Any) -> dict[str, Any]:
    with FILE.with_suffix(".lists").open("a") as lists:
        lists.write("listed\n")
    return complete(tools=[{"name": name, "inputSchema": {"type": "object"}} for name in read_file()["tools"]])


async def call_tool(ctx: Any, params: Any) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


async def list_resources(ctx: Any, params: Any) -> dict[str, Any]:
    return complete(resources=[{"uri": "note://one", "name": "one"}])


async def read_resource(ctx: Any, params: Any) -> dict[str, Any]:
    return complete(contents=[{"uri": str(params.uri), "text": "a note"}])


async def main() -> None:
    streams = {"on_subscriptions_listen": ListenHandler(InMemorySubscriptionBus())} if "--listen" in sys.argv else {}
    server: Server[Any] = Server(
        "hinting",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        **streams,
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
