"""smolagents: what a tool returns, with its default for structured output (off)."""

from contextlib import contextmanager

from driver import serve
from mcp import StdioServerParameters
from smolagents import MCPClient


@contextmanager
def connect(target):
    server = (
        {"url": target.url, "transport": "streamable-http"}
        if target.url
        else StdioServerParameters(command=target.command, args=target.args, env=target.env)
    )
    with MCPClient(server, structured_output=False) as listed:
        tools = {tool.name: tool for tool in listed}
        yield tools, lambda name, args: tools[name](**args)


serve(connect)
