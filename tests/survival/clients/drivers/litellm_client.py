"""litellm: tools in the format of OpenAI, and the text blocks of the result that its helper returns."""

import json
import os
from contextlib import asynccontextmanager

from driver import serve
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch prices of models

from litellm import experimental_mcp_client


@asynccontextmanager
async def connect(target):
    streams = (
        streamable_http_client(target.url)
        if target.url
        else stdio_client(StdioServerParameters(command=target.command, args=target.args, env=target.env))
    )
    async with streams as (read, write, *_), ClientSession(read, write) as session:
        await session.initialize()
        tools = await experimental_mcp_client.load_mcp_tools(session, format="openai")

        async def call(name, args):
            function = {"name": name, "arguments": json.dumps(args)}
            chosen = {"id": "1", "type": "function", "function": function}
            result = await experimental_mcp_client.call_openai_tool(session, chosen)
            return "\n".join(block.text for block in result.content if block.type == "text")

        yield [tool["function"]["name"] for tool in tools], call


serve(connect)
