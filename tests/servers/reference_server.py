"""The server that the official conformance suite asks for: every tool, resource and prompt it calls by name.

Both eras from one object: the handshake of 2025-11-25 and the requests without a session of 2026-07-28.
Run: `reference_server.py --port 0` (Streamable HTTP; prints its URL), `--sse-port 0` (SSE) or `--stdio`.
"""

from __future__ import annotations

import argparse
import io
import socket
import sys
import warnings
from typing import Final

import anyio
import uvicorn
from mcp import MCPDeprecationWarning
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from reference.event_store import RecentEvents
from reference.rich_tools import MARKS
from reference.server import build
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST: Final = "127.0.0.1"
RETRY_MS: Final = 200


class UnusualOutput(io.TextIOWrapper):
    """Standard output that writes what the SDK does not."""

    def write(self, text: str) -> int:
        for mark, written in MARKS.items():
            text = text.replace(mark, written)
        return super().write(text)


def unusual_app(app: ASGIApp) -> ASGIApp:
    """The same for what an application sends over HTTP."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def replace(message: Message) -> None:
            if message["type"] == "http.response.body" and message.get("body"):
                body = bytes(message["body"])
                for mark, written in MARKS.items():
                    body = body.replace(mark.encode(), written.encode())
                message = {**message, "body": body}
            await send(message)

        await app(scope, receive, replace)

    return serve


async def serve_stdio(rich: bool) -> None:
    server = build(rich)
    output = anyio.wrap_file(UnusualOutput(sys.stdout.buffer, encoding="utf-8"))
    async with stdio_server(stdout=output) as (read, write):
        await server.run(read, write, server.create_initialization_options())


def http_app(rich: bool) -> Starlette:
    """On this host only: a host other than localhost in a request is refused by the SDK (DNS rebinding)."""
    server = build(rich)
    return server.streamable_http_app(host=HOST, event_store=RecentEvents(), retry_interval=RETRY_MS)


def sse_app(rich: bool) -> Starlette:
    server, transport = build(rich), SseServerTransport("/messages/")

    class Stream:
        """A class, so that the route passes the raw request on."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            async with transport.connect_sse(scope, receive, send) as (read, write):
                await server.run(read, write, server.create_initialization_options())

    return Starlette(routes=[Route("/sse", Stream()), Mount("/messages/", app=transport.handle_post_message)])


def listen(app: Starlette, port: int, path: str) -> None:
    with socket.create_server((HOST, port)) as listening:
        print(f"reference server: http://{HOST}:{listening.getsockname()[1]}{path}", flush=True)
        # The faster parser leaves blanks round the values of headers, which the conformance suite looks for.
        config = uvicorn.Config(unusual_app(app), http="h11", log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--stdio", action="store_true", help="one client, over the standard streams")
    how.add_argument("--port", type=int, help="Streamable HTTP at this port; 0 takes a free one")
    how.add_argument("--sse-port", type=int, help="SSE at this port; 0 takes a free one")
    parser.add_argument("--rich", action="store_true", help="the tools of the survival suite too, and lists in pages")
    chosen = parser.parse_args()
    # The suite tests logging, sampling and roots, which the SDK marks as deprecated.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    if chosen.stdio:
        anyio.run(serve_stdio, chosen.rich)
    elif chosen.port is not None:
        listen(http_app(chosen.rich), chosen.port, "/mcp")
    else:
        listen(sse_app(chosen.rich), chosen.sse_port, "/sse")


if __name__ == "__main__":
    main()
