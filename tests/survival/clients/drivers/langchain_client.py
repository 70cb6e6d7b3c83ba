"""langchain-mcp-adapters: the content of the ToolMessage that a tool makes."""

from contextlib import asynccontextmanager

from driver import serve
from langchain_mcp_adapters.client import MultiServerMCPClient


@asynccontextmanager
async def connect(target):
    server = (
        {"transport": "streamable_http", "url": target.url}
        if target.url
        else {"transport": "stdio", "command": target.command, "args": target.args, "env": target.env}
    )
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"leafgate": server}).get_tools()}

    async def call(name, args):
        message = await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": args})
        return message.text if isinstance(message.text, str) else message.text()

    yield tools, call


serve(connect)
