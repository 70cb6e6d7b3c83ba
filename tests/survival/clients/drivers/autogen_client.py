"""autogen-ext: what a tool's adapter returns, as the string that it makes for the model."""

from contextlib import asynccontextmanager

from autogen_core import CancellationToken
from autogen_ext.tools.mcp import StdioServerParams, StreamableHttpServerParams, mcp_server_tools
from driver import serve


@asynccontextmanager
async def connect(target):
    params = (
        StreamableHttpServerParams(url=target.url)
        if target.url
        else StdioServerParams(
            command=target.command,
            args=target.args,
            env=target.env,
            read_timeout_seconds=30,  # the default of 5 s is short for a start on a busy machine
        )
    )
    tools = {tool.name: tool for tool in await mcp_server_tools(params)}

    async def call(name, args):
        result = await tools[name].run_json(args, CancellationToken())
        return tools[name].return_value_as_string(result)

    yield tools, call


serve(connect)
