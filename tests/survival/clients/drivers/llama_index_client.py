"""llama-index-tools-mcp: the content of the ToolOutput that a tool makes."""

from contextlib import asynccontextmanager

from driver import serve
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


@asynccontextmanager
async def connect(target):
    client = (
        BasicMCPClient(target.url) if target.url else BasicMCPClient(target.command, args=target.args, env=target.env)
    )
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client).to_tool_list_async()}

    async def call(name, args):
        return (await tools[name].acall(**args)).content

    yield tools, call


serve(connect)
