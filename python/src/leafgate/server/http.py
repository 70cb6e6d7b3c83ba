"""The HTTP side: a bound socket, the layers round the MCP endpoint and the routes, and the server that runs them.

Connections have limits that uvicorn lacks: how long a request may take to arrive, how large its head is, how long an
answer waits. Unread answers stay in memory, and keep-alive does not end a connection with data to send. Both of
uvicorn's parsers are covered: h11, which is always installed, and httptools of the extra `fast`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from math import ceil
from typing import Any, Final, Literal

import anyio
import h11
import uvicorn
from mcp.server import Server
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from leafgate.model.errors import ConfigError
from leafgate.ports import Sessions
from leafgate.server.auth.layer import AuthLayer
from leafgate.server.endpoint import McpEndpoint
from leafgate.server.frames import CodecFrames
from leafgate.server.front import MCP_PATH, Front, RequestLayer
from leafgate.server.host_guard import LOOPBACK_RULES, HostGuard, HostRules, is_loopback
from leafgate.server.routes import dashboard_routes
from leafgate.server.session_events import MemoryEvents
from leafgate.server.transports import Stopping, sse_app

# Longer than clients and balancers keep a connection, which is a minute: else one is closed just as a request is sent.
KEEP_ALIVE_SECONDS: Final = 75
Layer = Callable[[ASGIApp], ASGIApp]


def bind(host: str, port: int, *, open_to_others: bool = False) -> socket.socket:
    """A listening socket, or a ConfigError that says what to do.

    An address that other machines can reach is refused unless it is `open_to_others`: because they have to
    authenticate themselves, or because the operator insists.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"{host} cannot be listened on: {error.strerror}; choose another with --host") from None
    family, _, _, _, address = addresses[0]  # what is judged is what is bound: a name may stand for anything
    if not is_loopback(str(address[0])) and not open_to_others:
        raise ConfigError(
            f"{host} can be reached from other machines, and this gateway requires no authentication: "
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


@dataclass(frozen=True)
class Web:
    """What is served beside the MCP endpoint, and how.

    `front` decides about requests. `compress_from` is the size from which frames are compressed; None switches the
    binary transport off. `drain_seconds` is how long open requests may take once the gateway is to stop. Connections
    beyond `max_connections` are refused. `sessions` is where sessions are stored for other gateways,
    `events` where the events of sessions are stored without that.
    """

    routes: Sequence[BaseRoute] = ()
    front: Front = field(default_factory=Front)
    dashboard: bool = False
    tracing: Layer | None = None
    compress_from: int | None = None
    rules: HostRules = LOOPBACK_RULES
    transport: Literal["http", "sse"] = "http"
    drain_seconds: float = 3
    max_connections: int = 4_096
    sessions: Sessions | None = None
    events: MemoryEvents | None = None


def web_app(server: Server[Any], web: Web) -> ASGIApp:
    """The whole HTTP side as one ASGI application: a request goes through the layers from top to bottom."""
    front, compress_from = web.front, web.compress_from
    layers: list[Layer | None] = [
        EndQuietly,
        partial(HostGuard, rules=web.rules, report_refusal=front.report_refusal),
        partial(OpenPages, routes=dashboard_routes()) if web.dashboard else None,
        partial(AuthLayer, auth=front.present_auth, report_refusal=front.report_refusal)
        if front.asks_for_tokens
        else None,
        web.tracing,
        partial(CodecFrames, compress_from=compress_from) if compress_from is not None else None,
        partial(RequestLayer, front=front),
    ]
    if web.transport == "http":
        endpoint = McpEndpoint(server, web.sessions, web.events)
        routes = [Route(MCP_PATH, endpoint), *web.routes]
        app: ASGIApp = Starlette(routes=routes, lifespan=lambda app: endpoint.run())
    else:
        app = sse_app(server, web.routes)
    for layer in reversed(layers):
        app = app if layer is None else layer(app)
    return app


class EndQuietly:
    """A layer that ends the requests that are still open when the gateway stops. Without it, uvicorn would log each as
    a failed application, with the stack of the cancellation."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = is_complete = False

        async def watch(message: Message) -> None:
            nonlocal has_started, is_complete
            has_started = True
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except asyncio.CancelledError:
            if not has_started:
                await PlainTextResponse("the gateway stops", 503)(scope, receive, send)
            elif not is_complete:
                await send({"type": "http.response.body", "body": b"", "more_body": False})


class OpenPages:
    """A layer that answers for its own routes without a token; other requests pass on."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self._app = app
        self._pages = {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = self._pages.get(scope["path"]) if scope["type"] == "http" else None
        await (self._app if page is None else page.handle)(scope, receive, send)


async def serve_http(
    server: Server[Any], listener: socket.socket, web: Web, ready: Callable[[], Awaitable[None]], stopping: Stopping
) -> None:
    """Serves until it is to stop; `ready` runs once requests are being answered."""
    config = uvicorn.Config(
        web_app(server, web),
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=ceil(web.drain_seconds),
        limit_concurrency=web.max_connections,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        http=BoundedH11 if find_spec("httptools") is None else BoundedHead,  # the faster parser
    )
    http = _WebServer(config)

    async def report_ready() -> None:
        await http.up.wait()
        await ready()

    async def serve() -> None:
        await http.serve(sockets=[listener])
        group.cancel_scope.cancel()

    async def stop() -> None:
        await stopping.drain.wait()
        http.should_exit = True
        await stopping.abort.wait()
        http.force_exit = True  # open requests are not waited for

    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        group.start_soon(report_ready)
        group.start_soon(serve)  # a task: uvicorn wakes up ten times a second, and its callers need not


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


HEAD_SECONDS: Final = 20.0
BODY_SECONDS: Final = 60.0
# The kernel takes the first megabytes of an answer for a client, and further ones a megabyte at a time.
TAKE_SECONDS: Final = 60.0
MAX_HEAD_BYTES: Final = 65_536
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Deadlines(asyncio.Protocol):
    """To be mixed into one of uvicorn's protocols, which says what is awaited next."""

    transport: asyncio.Transport
    _late: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.expect_within(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self.expect_within(None)
        self._watch(None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._watch(None)
        super().resume_writing()

    def expect_within(self, seconds: float | None) -> None:
        """Sets the time by which the next part of a request is there; None while none is awaited."""
        self._late = _restart(self._late, seconds, self.transport.close)

    def _watch(self, waiting: int | None) -> None:
        """Looks again how much is waiting to be taken; None where nothing is."""
        self._taking = _restart(self._taking, None if waiting is None else TAKE_SECONDS, self._look, waiting)

    def _look(self, before: int) -> None:
        waiting = self.transport.get_write_buffer_size()
        if waiting >= before:
            self.transport.abort()
        else:
            self._watch(waiting)


def _restart(
    timer: asyncio.TimerHandle | None, seconds: float | None, act: Callable[..., None], *args: Any
) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None if seconds is None else asyncio.get_running_loop().call_later(seconds, act, *args)


# Where a request ends must not be a matter of opinion: a proxy in front that reads it otherwise would pass on the rest
# of it as the next request, of another user perhaps (RFC 9112, 6.1 and 11.2).
_VERSIONS: Final = (b"1.0", b"1.1")


def find_ambiguity(version: bytes, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """What makes it doubtful where a request ends, or which host it is for; None if nothing does.

    Names of headers are in lower case, each as often as it was sent.
    """
    names = [name for name, _ in headers]
    encodings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    lengths = [value.strip() for name, value in headers if name == b"content-length"]
    hosts = names.count(b"host")
    if version not in _VERSIONS:
        return "this version of HTTP is not served"
    if len(lengths) + len(encodings) > 1 or not all(map(bytes.isdigit, lengths)):
        return "the length of the body is stated once, as a number"
    if encodings and (encodings != [b"chunked"] or version != b"1.1"):
        return "this transfer coding is not served"
    if hosts > 1 or (hosts == 0 and version == b"1.1"):
        return "a request names one host"
    return None


class StrictConnection(h11.Connection):
    """A connection that refuses heads which h11 would mend: ambiguous ones, bare line ends, folded lines."""

    def next_event(self) -> Any:
        is_head = self.their_state is h11.IDLE
        before = self.trailing_data[0] if is_head else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            head = before[: len(before) - len(self.trailing_data[0])]
            lines = head.split(b"\r\n")
            fields = [line.partition(b":") for line in lines[1:] if line]
            is_mended = any(line[:1] in (b" ", b"\t") or b"\n" in line or b"\r" in line for line in lines)
            headers = [(name.lower(), value) for name, _, value in fields]
            if is_mended or find_ambiguity(event.http_version, headers) is not None:
                raise h11.RemoteProtocolError("the head of the request is ambiguous")
        return event


class BoundedH11(Deadlines, H11Protocol):
    """A connection whose requests are unambiguous, and come within a bounded time."""

    _part: str | None = "head"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.conn = StrictConnection(h11.SERVER, MAX_HEAD_BYTES)

    def handle_events(self) -> None:
        """Between two requests nothing is awaited: that is what keep-alive is for."""
        super().handle_events()
        has_begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        part = "body" if self.conn.their_state is h11.SEND_BODY else "head" if has_begun else None
        if part != self._part:
            self._part = part
            self.expect_within(None if part is None else HEAD_SECONDS if part == "head" else BODY_SECONDS)


if find_spec("httptools") is not None:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHead(Deadlines, HttpToolsProtocol):
        """A connection whose requests are unambiguous, have heads of a bounded size, and come within a bounded time."""

        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            self._is_in_head = True
            self._head_bytes = 0
            self._answering: Any = None

        def connection_lost(self, exc: Exception | None) -> None:
            if self._answering is not None:  # uvicorn tells only the last of several requests that came at once
                self._answering.disconnected = True
                self._answering.message_event.set()
            super().connection_lost(exc)

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self._answering = cycle
            super()._start_asgi_task(cycle, app)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._is_in_head and not self.transport.is_closing():
                self._head_bytes += len(data)
                if self._head_bytes > MAX_HEAD_BYTES:
                    self.transport.write(_TOO_LARGE)
                    self.transport.close()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._is_in_head = True
            self._head_bytes = 0
            self.expect_within(HEAD_SECONDS)

        def on_headers_complete(self) -> None:
            self._is_in_head = False
            if find_ambiguity(self.parser.get_http_version().encode(), self.headers) is not None:
                raise ValueError("the head of the request is ambiguous")  # uvicorn answers with 400
            self.expect_within(BODY_SECONDS)
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self.expect_within(None)
            super().on_message_complete()
