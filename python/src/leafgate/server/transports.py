"""The transports stdio and SSE, and the signals that stop a gateway.

Signals are handled from before the servers behind a gateway are started until after they ended: a signal that ended the
process in between would leave them running. The SDK reads standard input in a thread that cannot be cancelled; so it
gets an input whose end we control. SSE is the older HTTP transport: one stream out, messages in by POST.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio.abc import ObjectReceiveStream
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCRequest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

SAME_KEYPRESS_SECONDS: Final = 1
LAST_WORDS_SECONDS: Final = 1.0
WRITE_SECONDS: Final = 0.05  # for the last answers, which the SDK writes in a thread
# The answer to a request that outlasts the gateway.
STOPPED: Final = ErrorData(
    code=INTERNAL_ERROR, message="the gateway stops before the answer; the request may have been carried out"
)


@dataclass(frozen=True)
class Stopping:
    """`drain`: stop, but let open calls end. `abort`: stop at once."""

    drain: anyio.Event = field(default_factory=anyio.Event)
    abort: anyio.Event = field(default_factory=anyio.Event)


@asynccontextmanager
async def stop_signals() -> AsyncIterator[Stopping]:
    """Inside this context a signal is word to stop, and nothing more."""
    stopping = Stopping()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:

        async def hear() -> None:
            first: float | None = None
            async for _ in signals:
                first = first or anyio.current_time()
                stopping.drain.set()
                if anyio.current_time() - first > SAME_KEYPRESS_SECONDS:  # Ctrl-C often arrives twice at once
                    stopping.abort.set()

        async with anyio.create_task_group() as group:
            group.start_soon(hear)
            yield stopping
            group.cancel_scope.cancel()


CHUNK: Final = 65_536
STDIN: Final = 0


async def serve_stdio(server: Server[Any], stopping: Stopping, drain_seconds: float = 3) -> None:
    """Serves the one client. When the gateway is to stop, calls under way get `drain_seconds`; then each is answered
    with an error."""
    feed = _endable_stdin()
    calls = OpenCalls()
    server.middleware.insert(0, calls)

    async def end_input() -> None:
        await stopping.drain.wait()
        with anyio.move_on_after(drain_seconds):
            async with anyio.create_task_group() as waiting:

                async def end_wait(wait: Callable[[], Awaitable[object]]) -> None:
                    await wait()
                    waiting.cancel_scope.cancel()

                waiting.start_soon(end_wait, calls.wait_until_none)
                waiting.start_soon(end_wait, stopping.abort.wait)
        calls.stop()
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await calls.wait_until_none()
            await anyio.sleep(WRITE_SECONDS)
        _end(feed)

    async with anyio.create_task_group() as group:
        group.start_soon(end_input)
        async with stdio_server() as (read, write), write:
            messages = _EraMessages(read.receive)
            while messages.has_next:
                await server.run(messages, write.clone(), server.create_initialization_options())
        group.cancel_scope.cancel()


class OpenCalls:
    """A middleware of the MCP server that knows the requests under way, and can end them with an error.

    A stream of changes (`subscriptions/listen`) stays open for as long as its client wants, and is not waited for.
    """

    def __init__(self) -> None:
        self._calls: set[anyio.CancelScope] = set()
        self._call_ended = anyio.Event()
        self._is_stopped = False

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method == "subscriptions/listen":
            return await call_next(ctx)
        with anyio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                if not self._is_stopped:
                    return await call_next(ctx)
            finally:
                self._calls.discard(scope)
                self._call_ended.set()
        raise MCPError.from_error_data(STOPPED)

    async def wait_until_none(self) -> None:
        while self._calls:
            self._call_ended = anyio.Event()
            await self._call_ended.wait()

    def stop(self) -> None:
        """Answer the requests under way, and those that still come, with an error."""
        self._is_stopped = True
        for scope in self._calls:
            scope.cancel()


class _EraMessages(ObjectReceiveStream[SessionMessage | Exception]):
    """The messages of a client in one era of the protocol; then, if it falls back, those in the other.

    A client that speaks both eras asks `server/discover` first. If the answer takes too long (1 s for @ai-sdk/mcp, and
    a gateway starts in about that time), it sends `initialize`, which the SDK refuses after a request of the other era.
    So an `initialize` that follows nothing but `server/discover` ends this stream, and is the first message of the
    next.
    """

    def __init__(self, receive: Callable[[], Awaitable[SessionMessage | Exception]]) -> None:
        self._receive = receive
        self._first: SessionMessage | Exception | None = None
        self._is_discovering = self._is_settled = False
        self.has_next = True

    async def receive(self) -> SessionMessage | Exception:
        self.has_next = False
        if self._first is not None:
            first, self._first = self._first, None
            return first
        item = await self._receive()
        if not self._is_settled and isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
            self._is_settled = item.message.method != "server/discover"
            if self._is_discovering and item.message.method == "initialize":
                self._first, self.has_next = item, True
                raise anyio.EndOfStream
            self._is_discovering = True
        return item

    async def aclose(self) -> None:
        """Leave the client's stream open: the next era may need it."""


def _end(feed: socket.socket) -> None:
    with suppress(OSError):
        feed.shutdown(socket.SHUT_WR)


def _endable_stdin() -> socket.socket:
    """Replace standard input with a socket, fed from the real one by a daemon thread."""
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
    return feed


SSE_PATH: Final = "/sse"
MESSAGES_PATH: Final = "/messages"
MAX_STREAMS: Final = 1_000


def sse_app(server: Server[Any], routes: Sequence[BaseRoute]) -> Starlette:
    """The whole application: the two ends of the transport, and these routes."""
    transport = SseServerTransport(MESSAGES_PATH)
    own = [
        Route(SSE_PATH, _Streams(server, transport), methods=["GET"]),
        Route(MESSAGES_PATH, _Messages(transport), methods=["POST"]),
    ]
    return Starlette(routes=[*own, *routes])


@dataclass(frozen=True)
class _Messages:
    """An ASGI application. A route takes a plain function for one from request to response."""

    transport: SseServerTransport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.transport.handle_post_message(scope, receive, send)


class _Streams:
    """The open streams, no more than there is room for."""

    def __init__(self, server: Server[Any], transport: SseServerTransport) -> None:
        self._server = server
        self._transport = transport
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._open >= MAX_STREAMS:
            await PlainTextResponse("too many open streams", 503)(scope, receive, send)
            return
        self._open += 1
        try:
            async with self._transport.connect_sse(scope, receive, send) as (read, write):
                await self._server.run(read, write, self._server.create_initialization_options())
        finally:
            self._open -= 1
