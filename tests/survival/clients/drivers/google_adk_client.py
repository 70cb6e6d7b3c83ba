"""google-adk: the function response (JSON) that is made of a result."""

import json
from contextlib import asynccontextmanager

from driver import serve
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams, StreamableHTTPConnectionParams
from mcp import StdioServerParameters


@asynccontextmanager
async def connect(target):
    params = (
        StreamableHTTPConnectionParams(url=target.url, timeout=30)
        if target.url
        else StdioConnectionParams(
            server_params=StdioServerParameters(command=target.command, args=target.args, env=target.env), timeout=30
        )
    )
    toolset = McpToolset(connection_params=params)
    try:
        tools = {tool.name: tool for tool in await toolset.get_tools()}

        async def call(name, args):
            return json.dumps(await tools[name].run_async(args=args, tool_context=None))

        yield tools, call
    finally:
        await toolset.close()


serve(connect)
