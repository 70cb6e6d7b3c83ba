"""openai-agents: the output of the FunctionTool that is made of a tool."""

import json
from contextlib import asynccontextmanager

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp, MCPUtil
from agents.tool_context import ToolContext
from driver import serve


@asynccontextmanager
async def connect(target):
    patience = {"client_session_timeout_seconds": 30}  # the default of 5 s is short for a start on a busy machine
    server = (
        MCPServerStreamableHttp({"url": target.url}, **patience)
        if target.url
        else MCPServerStdio({"command": target.command, "args": target.args, "env": target.env}, **patience)
    )
    async with server:
        tools = {
            tool.name: MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=False)
            for tool in await server.list_tools()
        }

        async def call(name, args):
            text = json.dumps(args)
            context = ToolContext(context=None, tool_name=name, tool_call_id="1", tool_arguments=text)
            output = await tools[name].on_invoke_tool(context, text)
            blocks = output if isinstance(output, list) else [output]
            return "\n".join(
                block["text"] if isinstance(block, dict) and "text" in block else str(block) for block in blocks
            )

        yield tools, call


serve(connect)
