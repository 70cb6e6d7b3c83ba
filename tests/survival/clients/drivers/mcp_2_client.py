"""mcp 2.x, the official SDK: the text blocks of a result."""

from contextlib import asynccontextmanager

from driver import serve
from mcp import Client, StdioServerParameters


@asynccontextmanager
async def connect(target):
    server = target.url or StdioServerParameters(command=target.command, args=target.args, env=target.env)
    async with Client(server) as client:

        async def call(name, args):
            result = await client.call_tool(name, args)
            return "\n".join(block.text for block in result.content if block.type == "text")

        yield [tool.name for tool in (await client.list_tools()).tools], call


serve(connect)
