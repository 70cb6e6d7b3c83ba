"""fastmcp: the text blocks of a result, as its client returns it."""

from contextlib import asynccontextmanager

from driver import serve
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


@asynccontextmanager
async def connect(target):
    where = target.url or StdioTransport(target.command, target.args, env=target.env, keep_alive=False)
    async with Client(where) as client:

        async def call(name, args):
            result = await client.call_tool(name, args, raise_on_error=False)
            return "\n".join(block.text for block in result.content if block.type == "text")

        yield [tool.name for tool in await client.list_tools()], call


serve(connect)
