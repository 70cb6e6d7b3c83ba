"""One request of the stateless protocol, answered in the task that brought it. In: an HTTP request. Out: its answer.

Touches the connection. The SDK puts three tasks and a stream between a request and its answer, in case there is more
to say than that; here a stream of events begins when something is said, and a watch over the client's connection when
the call takes its time. Reaches into the SDK's handler; test_quick_exchange.py fails loudly when that changes.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

import anyio
import pydantic_core
from anyio.abc import TaskGroup
from mcp.server import Server, ServerRequestContext
from mcp.server._streamable_http_modern import handle_modern_request
from mcp.server.context import CallNext, HandlerResult
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

log = logging.getLogger("leafgate.server")

# Until then nobody looks whether the client is still there; afterwards its call ends when it goes.
QUICK_SECONDS: Final = 0.25
PING_SECONDS: Final = 15.0

CALL_METHOD: Final = "tools/call"

_VERSION: Final = MCP_PROTOCOL_VERSION_HEADER.encode()
_HANDSHAKE: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)
_SCOPE_KEY: Final = "leafgate.answer"
_STREAM_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)


def is_quick(scope: Scope) -> bool:
    """Whether a request is one of the stateless protocol, from a client that takes JSON and events by name."""
    headers = dict(scope["headers"])
    accept = headers.get(b"accept", b"")
    is_stateless = headers.get(_VERSION, b"2025-11-25") not in _HANDSHAKE
    takes_both = b"application/json" in accept and b"text/event-stream" in accept
    return is_stateless and takes_both and scope["method"] == "POST"


async def let_speak(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server, the outermost: what is said during a request goes out with its answer, and the
    result of a tool is written here. The SDK would copy it, and write it at a quarter of the speed: long lists of ids
    tell. Other results the SDK may want to see: it lists the tools for itself during a call."""
    answer = None if ctx.request is None else ctx.request.scope.get(_SCOPE_KEY)
    if answer is None:
        return await call_next(ctx)
    channel = ctx.session._request_outbound
    if getattr(channel, "sink", answer) is None:
        channel.sink = answer  # type: ignore[attr-defined]  # the SDK's channel of a stateless request has one
    result = await call_next(ctx)
    may_write = ctx.method == CALL_METHOD and isinstance(result, dict)
    return {} if may_write and answer.write(ctx.request_id, result) else result


@dataclass(frozen=True)
class Exchanges:
    """Serves such requests. `group` is where the companions of long calls live."""

    server: Server[Any]
    rules: TransportSecuritySettings | None
    lifespan_state: Any
    group: TaskGroup

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        with anyio.CancelScope() as call:
            # A timer costs a fraction of a task, and nearly every call ends before it.
            late = asyncio.get_running_loop().call_later(
                QUICK_SECONDS, self.group.start_soon, _accompany, answer, receive, call
            )
            told = {**scope, _SCOPE_KEY: answer}
            try:
                await handle_modern_request(
                    self.server, self.rules, True, self.lifespan_state, told, receive, answer.reply
                )
            finally:
                late.cancel()
                answer.end()


class _Answer:
    """What goes out for one request: plain JSON, unless something is said before it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._form: Literal["open", "events", "sdk"] = "open"
        self._turn = asyncio.Lock()
        self._written: bytes | None = None
        self.is_over = False
        self.companion: anyio.CancelScope | None = None

    def write(self, request_id: int | str | None, result: dict[str, Any]) -> bool:
        """The response that is to go out in the place of the SDK's; False where it is one that only the SDK can write,
        with lone surrogates in it."""
        try:
            self._written = pydantic_core.to_json({"jsonrpc": "2.0", "id": request_id, "result": result})
        except ValueError:
            return False
        return True

    async def send(self, event: bytes) -> None:
        """An event, as the SDK writes it. What is said too late is refused, as by a stream of the SDK's."""
        async with self._turn:
            if self.is_over or self._form == "sdk":
                raise anyio.ClosedResourceError
            if self._form == "open":
                self._form = "events"
                await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM_HEADERS]})
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def ping(self) -> None:
        """Shows whoever is between us and the client that the call goes on. A stream of the SDK's does so itself."""
        with suppress(anyio.ClosedResourceError):
            await self.send(b": ping\r\n\r\n")

    async def reply(self, message: Message) -> None:
        """What the SDK answers with: it knows nothing of a stream, so that its JSON becomes the last event of one."""
        if self._written is not None:
            message = self._with_written(message, self._written)
        if self._form == "events":
            if message["type"] == "http.response.body":
                await self._last(message.get("body", b""))
            return
        self._form = "sdk"
        await self._send(message)

    @staticmethod
    def _with_written(message: Message, written: bytes) -> Message:
        if message["type"] == "http.response.body":
            return {**message, "body": written}
        length = (b"content-length", b"%d" % len(written))
        return {**message, "headers": [*(each for each in message["headers"] if each[0] != length[0]), length]}

    async def _last(self, answer: bytes) -> None:
        async with self._turn:
            self.is_over = True
            event = b"event: message\r\ndata: " + answer + b"\r\n\r\n"
            await self._send({"type": "http.response.body", "body": event, "more_body": False})

    def end(self) -> None:
        self.is_over = True
        if self.companion is not None:
            self.companion.cancel()


async def _accompany(answer: _Answer, receive: Receive, call: anyio.CancelScope) -> None:
    """Ends a long call when its client goes, and keeps its connection open meanwhile."""
    if answer.is_over:
        return
    with anyio.CancelScope() as answer.companion:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_end_with_client, receive, call)
                while True:
                    await anyio.sleep(PING_SECONDS)
                    await answer.ping()
        except Exception as error:
            log.debug("the client of a long call cannot be reached: %r", error)
            call.cancel()


async def _end_with_client(receive: Receive, call: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    call.cancel()
