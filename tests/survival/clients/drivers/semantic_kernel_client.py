"""semantic-kernel: the FunctionResultContent that is made of a result."""

from contextlib import asynccontextmanager

from driver import serve
from semantic_kernel import Kernel
from semantic_kernel.connectors.mcp import MCPStdioPlugin, MCPStreamableHttpPlugin
from semantic_kernel.contents import FunctionCallContent, FunctionResultContent


@asynccontextmanager
async def connect(target):
    plugin = (
        MCPStreamableHttpPlugin("leafgate", url=target.url, load_prompts=False)
        if target.url
        else MCPStdioPlugin("leafgate", target.command, args=target.args, env=target.env, load_prompts=False)
    )
    async with plugin:
        kernel = Kernel()
        functions = kernel.add_plugin(plugin).functions

        async def call(name, args):
            result = await functions[name].invoke(kernel, **args)
            call = FunctionCallContent(id="1", name=f"leafgate-{name}")
            content = FunctionResultContent.from_function_call_content_and_result(call, result)
            return str(content.result)

        yield functions, call


serve(connect)
