"""A session that answers a quick tool call with plain JSON. In: HTTP requests of one session. Out: JSON, or a stream.

Touches the session's streams. The SDK opens an event stream for every request, which costs more than a small call does;
here one is opened only for a call that has more to say than its answer, or takes its time: from then on all is the
SDK's, resumable as ever. What is asked less often than calls is the SDK's from the beginning. Reaches into the SDK's
transport; test_quick_session.py fails loudly when that changes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import anyio
import pydantic_core
from mcp.server.streamable_http import (
    CONTENT_TYPE_SSE,
    MCP_SESSION_ID_HEADER,
    REQUEST_STREAM_BUFFER_SIZE,
    EventMessage,
    SSEEvent,
    StreamableHTTPServerTransport,
    check_accept_headers,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import (
    DEFAULT_NEGOTIATED_VERSION,
    INTERNAL_ERROR,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from sse_starlette import EventSourceResponse
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from leafgate.server.quick_exchange import CALL_METHOD

# A call that takes longer gets its stream, which a client whose connection breaks can take up again.
QUICK_SECONDS: Final = 0.05

_GONE: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)


class _Waiting:
    """A request whose answer may still be plain JSON."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.answer: JSONRPCResponse | JSONRPCError | None = None
        self.settled = anyio.Event()
        self.becomes_stream = False
        self.opening = anyio.Lock()
        self.streams: tuple[Any, Any] | None = None
        self.priming: SSEEvent | None = None


class QuickTransport(StreamableHTTPServerTransport):
    """The SDK's transport of one session."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._waiting: dict[str, _Waiting] = {}

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[tuple[Any, Any], None]:
        async with super().connect() as (read, write):
            shortcut = _Shortcut(write, self)
            self._write_stream = shortcut  # type: ignore[assignment]  # the SDK only sends on it, and closes it
            try:
                yield read, shortcut
            finally:
                for waiting in self._waiting.values():
                    waiting.settled.set()

    async def pass_on(self, said: SessionMessage) -> bool:
        """Takes an answer that can go out as JSON. Anything else is the router's, and has its stream from here on."""
        key = _request_of(said)
        waiting = None if key is None else self._waiting.get(key)
        if key is None or waiting is None:
            return False
        message = said.message
        if isinstance(message, JSONRPCResponse | JSONRPCError) and not waiting.becomes_stream:
            waiting.answer = message
            waiting.settled.set()
            return True
        await self._open_stream(key, waiting)
        waiting.settled.set()
        return False

    async def _handle_post_request(self, scope: Scope, request: Request, receive: Receive, send: Send) -> None:
        asked = await self._call(request)
        if asked is None:
            await super()._handle_post_request(scope, request, receive, send)
            return
        key = str(asked.id)
        if key in self._waiting or key in self._request_streams:
            # Whose would an answer be? The SDK would leave the first client waiting for ever.
            told = "Bad Request: a request with this id is still being answered"
            await self._create_error_response(told, HTTPStatus.BAD_REQUEST)(scope, receive, send)
            return
        waiting = self._waiting[key] = _Waiting(
            request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        )
        try:
            await self._settle(asked, request, waiting)
            await self._answer(key, waiting, scope, receive, send)
        finally:
            self._close(key, waiting)

    async def _answer(self, key: str, waiting: _Waiting, scope: Scope, receive: Receive, send: Send) -> None:
        if waiting.answer is not None:
            await self._create_json_response(waiting.answer)(scope, receive, send)
        elif waiting.streams is not None:
            await self._stream(key, waiting, scope, receive, send)
        else:
            told = "Session terminated before the request completed"
            error = self._create_error_response(told, HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR)
            await error(scope, receive, send)

    async def _call(self, request: Request) -> JSONRPCRequest | None:
        """A tool call of this session that is in order. What is not, and all else, the SDK judges."""
        in_order = (
            all(check_accept_headers(request))
            and self._check_content_type(request)
            and self._get_session_id(request) == self.mcp_session_id
        )
        if not in_order:
            return None
        try:
            message = jsonrpc_message_adapter.validate_python(
                pydantic_core.from_json(await request.body()), by_name=False
            )
        except (ValueError, ClientDisconnect):
            return None
        return message if isinstance(message, JSONRPCRequest) and message.method == CALL_METHOD else None

    async def _settle(self, asked: JSONRPCRequest, request: Request, waiting: _Waiting) -> None:
        """Has the session work on it, until it is known how the answer goes out."""
        assert self._read_stream_writer is not None
        key = str(asked.id)
        said = self._create_session_message(asked, request, key, waiting.version)
        try:
            await self._read_stream_writer.send(said)
            with anyio.move_on_after(QUICK_SECONDS):
                await waiting.settled.wait()
            if not waiting.settled.is_set():
                await self._open_stream(key, waiting)
        except _GONE:
            return
        finally:
            del self._waiting[key]

    async def _open_stream(self, key: str, waiting: _Waiting) -> None:
        """The priming event is stored before any other of its stream: whoever starts after it misses nothing."""
        waiting.becomes_stream = True
        async with waiting.opening:
            if waiting.streams is not None:
                return
            waiting.priming = await self._mint_priming_event(key, waiting.version)
            if not self.is_terminated:
                waiting.streams = anyio.create_memory_object_stream[EventMessage](REQUEST_STREAM_BUFFER_SIZE)
                self._request_streams[key] = waiting.streams

    def _close(self, key: str, waiting: _Waiting) -> None:
        """Nobody may be left who waits for room in a stream that nobody reads. By now it may be another's: of a client
        that has taken it up again, or that asked twice under one id."""
        streams = waiting.streams
        if streams is not None and self._request_streams.get(key) is streams:
            del self._request_streams[key]
        for end in streams or ():
            end.close()

    async def _stream(self, key: str, waiting: _Waiting, *asgi: Any) -> None:
        assert waiting.streams is not None
        writer, reader = anyio.create_memory_object_stream[SSEEvent](0)
        self._sse_stream_writers[key] = writer
        headers = {"Cache-Control": "no-cache, no-transform", "Connection": "keep-alive"}
        headers |= {"Content-Type": CONTENT_TYPE_SSE, MCP_SESSION_ID_HEADER: self.mcp_session_id or ""}
        write = partial(self._run_sse_writer, key, writer, waiting.streams[1], waiting.priming)
        try:
            async with writer, reader:
                await EventSourceResponse(content=reader, data_sender_callable=write, headers=headers)(*asgi)
        finally:
            if self._sse_stream_writers.get(key) is writer:
                del self._sse_stream_writers[key]


class _Shortcut:
    """The session's way out: past the router where an answer is waited for, and through it with all else."""

    def __init__(self, inner: Any, transport: QuickTransport) -> None:
        self._inner = inner
        self._transport = transport

    async def send(self, said: SessionMessage) -> None:
        if not await self._transport.pass_on(said):
            await self._inner.send(said)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> _Shortcut:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def _request_of(said: SessionMessage) -> str | None:
    """The client's request that a message belongs to."""
    if isinstance(said.message, JSONRPCResponse | JSONRPCError):
        return None if said.message.id is None else str(said.message.id)
    about = said.metadata
    related = about.related_request_id if isinstance(about, ServerMessageMetadata) else None
    return None if related is None else str(related)
