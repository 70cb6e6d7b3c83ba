"""mcp-haystack: what a tool returns, as text."""

from contextlib import contextmanager

from driver import serve
from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo, StreamableHttpServerInfo


@contextmanager
def connect(target):
    info = (
        StreamableHttpServerInfo(url=target.url)
        if target.url
        else StdioServerInfo(command=target.command, args=target.args, env=target.env)
    )
    toolset = MCPToolset(info, eager_connect=True)
    try:
        tools = {tool.name: tool for tool in toolset}
        yield tools, lambda name, args: tools[name].invoke(**args)
    finally:
        toolset.close()


serve(connect)
