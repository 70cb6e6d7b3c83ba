"""The SSE transport of the handshake era: one stream out, messages in by POST. In: a server. Out: an ASGI application.

Touches the network through the SDK. Clients that know Streamable HTTP have no use for it; some know nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from mcp.server import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from leafgate.server.host_guard import HostRules

SSE_PATH: Final = "/sse"
MESSAGES_PATH: Final = "/messages"
MAX_STREAMS: Final = 1_000


def sse_app(server: Server[Any], rules: HostRules, routes: Sequence[BaseRoute]) -> Starlette:
    """The whole application: the two ends of the transport, and these routes."""
    streams = _Streams(server, SseServerTransport(MESSAGES_PATH, security_settings=rules.settings()))
    own = [
        Route(SSE_PATH, _Asgi(streams.open), methods=["GET"]),
        Route(MESSAGES_PATH, _Asgi(streams.post), methods=["POST"]),
    ]
    return Starlette(routes=[*own, *routes])


class _Streams:
    """The open streams, no more than there is room for."""

    def __init__(self, server: Server[Any], transport: SseServerTransport) -> None:
        self._server = server
        self._transport = transport
        self._open = 0

    async def open(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._open >= MAX_STREAMS:
            await PlainTextResponse("too many open streams", 503)(scope, receive, send)
            return
        self._open += 1
        try:
            async with self._transport.connect_sse(scope, receive, send) as (read, write):
                await self._server.run(read, write, self._server.create_initialization_options())
        finally:
            self._open -= 1

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._transport.handle_post_message(scope, receive, send)


class _Asgi:
    """An ASGI application as a route wants it: a plain function would be taken for one from request to response."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
