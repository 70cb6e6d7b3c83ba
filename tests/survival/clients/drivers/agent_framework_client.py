"""agent-framework: the function result that is made of a result."""

from contextlib import asynccontextmanager

from agent_framework import MCPStdioTool, MCPStreamableHTTPTool
from driver import serve


@asynccontextmanager
async def connect(target):
    server = (
        MCPStreamableHTTPTool(name="leafgate", url=target.url, load_prompts=False)
        if target.url
        else MCPStdioTool(name="leafgate", command=target.command, args=target.args, env=target.env, load_prompts=False)
    )
    async with server:
        tools = {function.name: function for function in server.functions}

        async def call(name, args):
            value = await tools[name].invoke(arguments=args)
            return (
                "\n".join(getattr(content, "text", str(content)) for content in value)
                if isinstance(value, list)
                else value
            )

        yield tools, call


serve(connect)
