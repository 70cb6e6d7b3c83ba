"""A small MCP server on Streamable HTTP, for tests: one tool. Refuses with the HTTP status that a file names.

It writes SURROG as the escape of a lone surrogate, which the SDK does not write.
"""

import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("plain")


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    return text


class Moody:
    """Refuses everything with an HTTP status while there is a file that names one."""

    def __init__(self, app: Any, file: Path) -> None:
        self.app = app
        self.file = file

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not self.file.exists():

            async def write(message: Any) -> None:
                body = {"body": message["body"].replace(b"SURROG", rb"\ud83d")} if "body" in message else {}
                await send({**message, **body})

            await self.app(scope, receive, write)
            return
        await send({"type": "http.response.start", "status": int(self.file.read_text()), "headers": []})
        await send({"type": "http.response.body", "body": b"go away"})


app = server.sse_app() if sys.argv[3:] == ["sse"] else server.streamable_http_app()
uvicorn.run(Moody(app, Path(sys.argv[2])), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
