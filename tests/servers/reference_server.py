"""The server that the official conformance suite asks for: every tool, resource and prompt it calls by name.

Both eras from one object: the handshake of 2025-11-25 and the requests without a session of 2026-07-28.
Run: `reference_server.py --port 0` (Streamable HTTP; prints its URL) or `reference_server.py --stdio`.
"""

from __future__ import annotations

import argparse
import socket
import warnings
from typing import Final

import anyio
import uvicorn
from mcp import MCPDeprecationWarning
from mcp.server.stdio import stdio_server
from reference.event_store import RecentEvents
from reference.server import build

HOST: Final = "127.0.0.1"
RETRY_MS: Final = 200


async def serve_stdio() -> None:
    server = build()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(port: int) -> None:
    """On this host only: a host other than localhost in a request is refused by the SDK (DNS rebinding)."""
    app = build().streamable_http_app(host=HOST, event_store=RecentEvents(), retry_interval=RETRY_MS)
    with socket.create_server((HOST, port)) as listening:
        print(f"reference server: http://{HOST}:{listening.getsockname()[1]}/mcp", flush=True)
        # The faster parser leaves blanks round the values of headers, which the conformance suite looks for.
        config = uvicorn.Config(app, http="h11", log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--stdio", action="store_true", help="one client, over the standard streams")
    how.add_argument("--port", type=int, help="Streamable HTTP at this port; 0 takes a free one")
    chosen = parser.parse_args()
    # The suite tests logging, sampling and roots, which the SDK marks as deprecated.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    if chosen.stdio:
        anyio.run(serve_stdio)
    else:
        serve_http(chosen.port)


if __name__ == "__main__":
    main()
