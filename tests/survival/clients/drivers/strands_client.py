"""strands-agents: the content blocks of the tool result that a tool streams."""

from contextlib import asynccontextmanager

from driver import serve
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from strands.tools.mcp import MCPClient


@asynccontextmanager
async def connect(target):
    def transport():
        if target.url:
            return streamable_http_client(target.url)
        return stdio_client(StdioServerParameters(command=target.command, args=target.args, env=target.env))

    with MCPClient(transport) as client:
        tools = {tool.tool_name: tool for tool in client.list_tools_sync()}

        async def call(name, args):
            use = {"toolUseId": "1", "name": name, "input": args}
            *_, last = [event async for event in tools[name].stream(use, {})]
            return "\n".join(block.get("text", str(block)) for block in last.tool_result["content"])

        yield tools, call


serve(connect)
