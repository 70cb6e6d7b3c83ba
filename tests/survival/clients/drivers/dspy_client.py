"""dspy: what a tool made from a session's tool returns."""

from contextlib import asynccontextmanager

import dspy
from driver import serve
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def connect(target):
    streams = (
        streamable_http_client(target.url)
        if target.url
        else stdio_client(StdioServerParameters(command=target.command, args=target.args, env=target.env))
    )
    async with streams as (read, write, *_), ClientSession(read, write) as session:
        await session.initialize()
        tools = {tool.name: dspy.Tool.from_mcp_tool(session, tool) for tool in (await session.list_tools()).tools}

        async def call(name, args):
            return await tools[name].acall(**args)

        yield tools, call


serve(connect)
