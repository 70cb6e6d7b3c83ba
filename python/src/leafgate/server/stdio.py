"""The stdio side: one client on standard input and output. In: a server. Runs until the client leaves, or a signal.

Touches standard input and output, which the SDK claims for itself: nothing else may print to them.
"""

from __future__ import annotations

import signal
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server


async def serve_stdio(server: Server[Any]) -> None:
    """Serves the one client."""
    async with anyio.create_task_group() as group:

        async def stop_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    group.cancel_scope.cancel()
                    return

        group.start_soon(stop_on_signal)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()
