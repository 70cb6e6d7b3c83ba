"""mcp 1.x, the official SDK before 2026: the text blocks of a result."""

from contextlib import asynccontextmanager

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

        async def call(name, args):
            result = await session.call_tool(name, args)
            return "\n".join(block.text for block in result.content if block.type == "text")

        yield [tool.name for tool in (await session.list_tools()).tools], call


serve(connect)
