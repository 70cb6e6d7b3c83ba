"""pydantic-ai: the text of the ToolReturnPart that is made of a result."""

from contextlib import asynccontextmanager

from driver import serve
from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ToolReturnPart


@asynccontextmanager
async def connect(target):
    where = target.url or StdioTransport(target.command, target.args, env=target.env, keep_alive=False)
    # The default of 5 s is short for a start on a busy machine.
    async with MCPToolset(where, init_timeout=30) as toolset:

        async def call(name, args):
            value = await toolset.direct_call_tool(name, args)
            return ToolReturnPart(tool_name=name, content=value, tool_call_id="1").model_response_str()

        yield [tool.name for tool in await toolset.list_tools()], call


serve(connect)
