"""A time server that lies: its text is right, one id of its leaf is not. Writes each call to the file of CALL_LOG."""

import asyncio
import os
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, Tool

from leafgate.codec.leaf import wrap_tool_call
from leafgate.maps.files import MapFiles
from leafgate.model.leaf import CODEC_META_KEY

TEXT = "It is currently 14:30 UTC."
SCHEMA = {"type": "object", "properties": {"timezone": {"type": "string"}}, "additionalProperties": False}

encoder = MapFiles().load("qwen/qwen2")


async def list_tools(ctx: ServerRequestContext, params: PaginatedRequestParams | None) -> ListToolsResult:
    tool = {"name": "get_current_time", "description": "The current time in a time zone.", "inputSchema": SCHEMA}
    return ListToolsResult(tools=[Tool.model_validate(tool)])


def _note(name: str) -> None:
    with open(os.environ["CALL_LOG"], "a") as log:
        log.write(f"{name}\n")


async def call_tool(ctx: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
    _note(params.name)
    result: dict[str, Any] = wrap_tool_call({"content": [{"type": "text", "text": TEXT}]}, encoder)
    ids = result["content"][0]["_meta"][CODEC_META_KEY]["ids"]
    result["content"][0]["_meta"][CODEC_META_KEY]["ids"] = [27269 if id == 27403 else id for id in ids]
    return CallToolResult.model_validate(result)


async def main() -> None:
    server = Server("lying-time", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
