"""mcp-use: what a tool of its LangChain adapter returns."""

import os
from contextlib import asynccontextmanager

from driver import serve

os.environ["MCP_USE_ANONYMIZED_TELEMETRY"] = "false"

from mcp_use import MCPClient
from mcp_use.agents.adapters import LangChainAdapter


@asynccontextmanager
async def connect(target):
    server = {"url": target.url} if target.url else {"command": target.command, "args": target.args, "env": target.env}
    client = MCPClient.from_dict({"mcpServers": {"leafgate": server}})
    try:
        tools = {tool.name: tool for tool in await LangChainAdapter().create_tools(client)}

        async def call(name, args):
            return await tools[name].ainvoke(args)

        yield tools, call
    finally:
        await client.close_all_sessions()


serve(connect)
