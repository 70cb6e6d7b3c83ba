"""agno: the content that a function call of an MCPTools toolkit results in."""

from contextlib import asynccontextmanager

from agno.tools.function import FunctionCall
from agno.tools.mcp import MCPTools
from driver import serve
from mcp import StdioServerParameters


@asynccontextmanager
async def connect(target):
    toolkit = (
        MCPTools(url=target.url, transport="streamable-http")
        if target.url
        else MCPTools(
            server_params=StdioServerParameters(command=target.command, args=target.args, env=target.env),
            transport="stdio",
            timeout_seconds=30,
        )
    )
    async with toolkit:

        async def call(name, args):
            result = await FunctionCall(function=toolkit.functions[name], arguments=args).aexecute()
            return getattr(result.result, "content", result.result) or result.error

        yield toolkit.functions, call


serve(connect)
