"""The stdio side: one client on standard input and output. In: a server. Runs until the client leaves, or a stop.

Touches standard input and output, which the SDK claims for itself: nothing else may print to them. The SDK reads its
input in a thread that cannot be cancelled; so it is given an input of ours, whose end we can bring about.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server

from leafgate.server.stop_signals import Stopping

CHUNK: Final = 65_536
STDIN: Final = 0


async def serve_stdio(server: Server[Any], stopping: Stopping) -> None:
    """Serves the one client."""
    with _endable_stdin() as feed:
        async with anyio.create_task_group() as group:
            group.start_soon(_end_when, stopping, feed)
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
            group.cancel_scope.cancel()


async def _end_when(stopping: Stopping, feed: socket.socket) -> None:
    await stopping.asked.wait()
    _end(feed)


def _end(feed: socket.socket) -> None:
    with suppress(OSError):
        feed.shutdown(socket.SHUT_WR)


@contextmanager
def _endable_stdin() -> Iterator[socket.socket]:
    """Puts a socket in the place of standard input, fed from the real one by a thread that nobody waits for."""
    source = os.dup(STDIN)
    feed, ours = socket.socketpair()
    os.dup2(ours.fileno(), STDIN)
    ours.close()

    def pump() -> None:
        with suppress(OSError):
            while chunk := os.read(source, CHUNK):
                feed.sendall(chunk)
        _end(feed)

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    yield feed
