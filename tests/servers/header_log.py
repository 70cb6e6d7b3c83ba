"""An MCP server on Streamable HTTP that writes down the headers of every request: one JSON object per line.

Run: `header_log.py FILE`. Prints its URL.
"""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("listener")


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    return text


class HeaderLog:
    """Writes, then passes the request on."""

    def __init__(self, app: Any, file: Path) -> None:
        self.app = app
        self.file = file

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            with self.file.open("a") as file:
                file.write(json.dumps(headers | {":path": scope["path"]}) + "\n")
        await self.app(scope, receive, send)


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
app = HeaderLog(server.streamable_http_app(), Path(sys.argv[1]))
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
