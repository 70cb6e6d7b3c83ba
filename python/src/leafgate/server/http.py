"""The HTTP side: the MCP endpoint and what stands round it, on one socket. In: a bound socket. Runs until stopped.

Touches the network and the process's signals. A request goes through the layers in their order, then to its route.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
import uvicorn
from mcp.server import Server
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from leafgate.model.errors import ConfigError
from leafgate.server.event_store import MemoryEventStore
from leafgate.server.host_guard import LOOPBACK_RULES, HostGuard, HostRules

MCP_PATH: Final = "/mcp"
DRAIN_SECONDS: Final = 3
RETRY_MILLISECONDS: Final = 1_000
SAME_KEYPRESS_SECONDS: Final = 1
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or a ConfigError that says what to do."""
    if host not in LOOPBACK:
        raise ConfigError(f"{host} is not a loopback address, and this gateway has no authentication yet")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets whose protocol is named; without it every answer waits 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port") from None
    return listener


@dataclass(frozen=True)
class Web:
    """What is served beside the MCP endpoint; and the layers behind the host guard, outermost first."""

    routes: Sequence[BaseRoute] = ()
    layers: Sequence[Callable[[ASGIApp], ASGIApp]] = ()
    rules: HostRules = LOOPBACK_RULES


def web_app(server: Server[Any], web: Web) -> ASGIApp:
    """The whole HTTP side as one ASGI application."""
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        transport_security=web.rules.settings(),
        event_store=MemoryEventStore(),
        retry_interval=RETRY_MILLISECONDS,
        custom_starlette_routes=[*web.routes],  # type: ignore[list-item]  # any route will do
    )
    for layer in reversed(web.layers):
        app = layer(app)
    return HostGuard(app, web.rules)


async def serve_http(
    server: Server[Any], listener: socket.socket, web: Web, ready: Callable[[], Awaitable[None]]
) -> None:
    """Serves until SIGINT or SIGTERM; `ready` runs once requests are being answered."""
    app = web_app(server, web)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=DRAIN_SECONDS
    )
    http = _WebServer(config)

    async def tell_ready() -> None:
        await http.up.wait()
        await ready()

    async with anyio.create_task_group() as group:
        group.start_soon(_stop_on_signal, http)
        group.start_soon(tell_ready)
        await http.serve(sockets=[listener])
        group.cancel_scope.cancel()


class _WebServer(uvicorn.Server):
    """Signals are ours: uvicorn would raise them again when it ends, and cut the children's shutdown short."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _stop_on_signal(http: uvicorn.Server) -> None:
    """The first signal drains; a later one does not wait for open requests. Ctrl-C often arrives twice at once."""
    first: float | None = None
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            first = first or anyio.current_time()
            http.force_exit = anyio.current_time() - first > SAME_KEYPRESS_SECONDS
            http.should_exit = True
