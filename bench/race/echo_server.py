"""The server that every target is measured with: `echo` and `page`. Over stdio, or over Streamable HTTP by itself.

Run: `echo_server.py` (stdio) or `echo_server.py --port 0` (prints its URL). `--tools N` lists N made-up tools beside.
Written on the SDK's low-level server with its defaults, so that it costs as little as an SDK server can.
"""

from __future__ import annotations

import argparse
import socket
from typing import Any, Final

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

HOST: Final = "127.0.0.1"
LINE: Final = "On day 17 we measured the north bed and wrote 23 lines about the garden, as every week before it.\n"

ECHO: Final = Tool(
    name="echo",
    description="Give a text back.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
PAGE: Final = Tool(
    name="page",
    description="A text of this many characters.",
    input_schema={"type": "object", "properties": {"chars": {"type": "integer"}}, "required": ["chars"]},
)


def made_up(number: int) -> Tool:
    kind = ("invoice", "ticket", "customer", "shipment", "contract", "meeting", "branch", "sensor")[number % 8]
    deed = ("create", "find", "update", "delete", "export", "approve", "count", "archive", "merge")[number % 9]
    fields = {
        f"{kind}_id": {"type": "string", "description": f"Which {kind}."},
        "limit": {"type": "integer", "minimum": 1, "description": "How many at most."},
        "note": {"type": "string", "description": "A remark that is kept with it."},
    }
    return Tool(
        name=f"{deed}_{kind}_{number}",
        description=f"{deed.capitalize()} a {kind} of department {number % 41} in region {number % 17}.",
        input_schema={"type": "object", "properties": fields, "required": [f"{kind}_id"]},
    )


def build(tools: int) -> Server[Any]:
    listed = [ECHO, PAGE, *(made_up(number) for number in range(tools))]
    schemas = {tool.name: tool.input_schema for tool in listed}

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        given = params.arguments or {}
        if params.name == "echo":
            return CallToolResult(content=[TextContent(text=str(given.get("text", "")))])
        chars = int(given.get("chars", 0))
        return CallToolResult(content=[TextContent(text=(LINE * (chars // len(LINE) + 1))[:chars])])

    return Server("echo", get_tool_input_schema=schemas.get, on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(server: Server[Any], port: int) -> None:
    # The protocol is named because asyncio sets TCP_NODELAY only where it is; else every streamed answer takes 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind((HOST, port))
        print(f"echo: http://{HOST}:{listening.getsockname()[1]}/mcp ", flush=True)
        config = uvicorn.Config(
            server.streamable_http_app(host=HOST), log_level="warning", access_log=False, timeout_graceful_shutdown=1
        )
        uvicorn.Server(config).run(sockets=[listening])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="Streamable HTTP at this port; 0 takes a free one")
    parser.add_argument("--tools", type=int, default=0, help="how many made-up tools are listed beside")
    chosen = parser.parse_args()
    if chosen.port is None:
        anyio.run(serve_stdio, build(chosen.tools))
    else:
        serve_http(build(chosen.tools), chosen.port)


if __name__ == "__main__":
    main()
