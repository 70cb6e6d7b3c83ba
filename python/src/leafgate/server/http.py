"""The HTTP side: the MCP endpoint and what stands round it, on one socket. In: a bound socket. Runs until stopped.

Touches the network. A request goes through the layers in their order, then to its route.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from typing import Any, Final, Literal

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from leafgate.model.errors import ConfigError
from leafgate.ports import Sessions
from leafgate.server.bounded_h11 import BoundedH11
from leafgate.server.host_guard import LOOPBACK_RULES, HostGuard, HostRules, is_loopback
from leafgate.server.session_events import SessionManager
from leafgate.server.shared_sessions import SharedSessionManager
from leafgate.server.sse import sse_app
from leafgate.server.stop_signals import Stopping

MCP_PATH: Final = "/mcp"
DRAIN_SECONDS: Final = 3
MAX_CONNECTIONS: Final = 4_096
# Longer than clients and balancers keep a connection, which is a minute: else one is closed just as a request is sent.
KEEP_ALIVE_SECONDS: Final = 75
RETRY_MILLISECONDS: Final = 1_000


def bind(host: str, port: int, *, open_to_others: bool = False) -> socket.socket:
    """A listening socket, or a ConfigError that says what to do.

    An address that other machines can reach is refused unless it is `open_to_others`: because they have to
    authenticate themselves, or because the operator insists.
    """
    family, address = _resolved(host, port)
    if not is_loopback(str(address[0])) and not open_to_others:
        raise ConfigError(
            f"{host} can be reached from other machines, and this gateway asks nobody for authentication: "
            "configure auth, or insist with --insecure-bind"
        )
    # asyncio sets TCP_NODELAY only on sockets whose protocol is named; without it every answer waits 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port") from None
    return listener


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """The address of a name. What is judged is what is bound: a name may stand for anything."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"{host} cannot be listened on: {error.strerror}; choose another with --host") from None
    family, _, _, _, address = found[0]
    return family, address


@dataclass(frozen=True)
class Web:
    """What is served beside the MCP endpoint; the layers behind the host guard, outermost first; the transport; how
    long requests under way may take once the gateway is told to stop; how many connections there may be before further
    ones are sent away; where sessions are kept for other gateways."""

    routes: Sequence[BaseRoute] = ()
    layers: Sequence[Callable[[ASGIApp], ASGIApp]] = ()
    rules: HostRules = LOOPBACK_RULES
    transport: Literal["http", "sse"] = "http"
    drain_seconds: float = DRAIN_SECONDS
    max_connections: int = MAX_CONNECTIONS
    sessions: Sessions | None = None


def web_app(server: Server[Any], web: Web) -> ASGIApp:
    """The whole HTTP side as one ASGI application."""
    app: ASGIApp = _streamable(server, web) if web.transport == "http" else sse_app(server, web.rules, web.routes)
    for layer in reversed(web.layers):
        app = layer(app)
    return HostGuard(app, web.rules)


def _streamable(server: Server[Any], web: Web) -> ASGIApp:
    manager = _session_manager(
        web.sessions, app=server, security_settings=web.rules.settings(), retry_interval=RETRY_MILLISECONDS
    )
    endpoint = Route(MCP_PATH, StreamableHTTPASGIApp(manager))
    return Starlette(routes=[endpoint, *web.routes], lifespan=lambda app: manager.run())


def _session_manager(sessions: Sessions | None, **settings: Any) -> SessionManager:
    return SessionManager(**settings) if sessions is None else SharedSessionManager(sessions, **settings)


async def serve_http(
    server: Server[Any], listener: socket.socket, web: Web, ready: Callable[[], Awaitable[None]], stopping: Stopping
) -> None:
    """Serves until it is to stop; `ready` runs once requests are being answered."""
    app = web_app(server, web)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=ceil(web.drain_seconds),
        limit_concurrency=web.max_connections,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        http=_protocol(),
    )
    http = _WebServer(config)

    async def tell_ready() -> None:
        await http.up.wait()
        await ready()

    async with anyio.create_task_group() as group:
        group.start_soon(_stop, http, stopping)
        group.start_soon(tell_ready)
        await http.serve(sockets=[listener])
        group.cancel_scope.cancel()


def _protocol() -> Any:
    if find_spec("httptools") is None:
        return BoundedH11
    from leafgate.server.bounded_head import BoundedHead  # noqa: PLC0415  an extra

    return BoundedHead


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


async def _stop(http: uvicorn.Server, stopping: Stopping) -> None:
    """First it drains; then it does not wait for open requests."""
    await stopping.asked.wait()
    http.should_exit = True
    await stopping.urged.wait()
    http.force_exit = True
