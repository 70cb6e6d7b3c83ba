"""A small MCP server in Python whose results carry leaves. In: MCP on standard input. Out: MCP on standard output.

Its one tool, `echo`, answers with the texts that it is given, a picture between them, and our payloads on the texts.
"""

import sys
from typing import Any

import anyio
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from leafgate.codec.leaf import wrap_tool_call
from leafgate.maps.fetch import load_encoder

ENCODER = load_encoder(sys.argv[1], sys.argv[2])
PICTURE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


async def list_tools(
    context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema={"type": "object"})])


async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    texts = (params.arguments or {})["texts"]
    content: list[dict[str, Any]] = [{"type": "text", "text": text, "_meta": {"mine": 1}} for text in texts]
    return types.CallToolResult.model_validate(wrap_tool_call({"content": [PICTURE, *content]}, ENCODER))


async def main() -> None:
    server = Server("leaf-echo", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
