"""One MCP request over HTTP and its answer, in both eras of the protocol.

An `Outlet` is one HTTP response. An `EventStream` sends messages over it in order. An `Exchange` is the stream of one
request: a quick answer is plain JSON; events start when there is something to send before the answer. In a session,
events are stored: after `STREAM_AFTER_SECONDS` the client gets the id of a first event, and a client whose connection
breaks resumes from there. A stateless call ends when its client disconnects.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Mapping
from itertools import count
from typing import Any, Final

import anyio
import pydantic_core
from anyio.abc import TaskGroup
from mcp import MCPError, types
from mcp.server.runner import modern_error_data
from mcp.shared.dispatcher import CallOptions, OnRequest
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from starlette.requests import Request as HttpRequest
from starlette.types import Send

from leafgate.server.session_events import SessionEvents
from leafgate.server.transports import STOPPED

log = logging.getLogger("leafgate.server")

# A call of a session that takes longer gets its stream, which the client can resume.
STREAM_AFTER_SECONDS: Final = 0.05
# Until then the client of a stateless call that disconnects is not noticed; afterwards its call ends.
WATCH_AFTER_SECONDS: Final = 0.25
PING_SECONDS: Final = 15.0
RETRY_MILLISECONDS: Final = 1_000
_LAST_WORDS_SECONDS: Final = 1.0

_STREAM_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)


class Outlet:
    """One HTTP response: plain JSON, or events. Its sender sends one thing at a time."""

    def __init__(self, request: HttpRequest, send: Send, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.receive = request.receive
        self.headers = headers
        self.is_stream = False
        self.is_complete = False
        self._send = send

    async def send_json(self, status: int, content: bytes) -> None:
        self.is_complete = True
        headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json"), *self.headers]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": content, "more_body": False})

    async def send_event(self, event: bytes, *, is_last: bool = False) -> None:
        if self.is_complete:
            return
        self.is_complete = is_last
        if not self.is_stream:
            self.is_stream = True
            headers = [*_STREAM_HEADERS, *self.headers]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": event, "more_body": not is_last})


class EventStream:
    """Messages to one client, in order. With `events` they are stored, also while no response is open."""

    def __init__(self, name: str, events: SessionEvents | None = None, outlet: Outlet | None = None) -> None:
        self.name = name
        self.is_over = False
        self.starts_with_id = False  # whether the client takes an event without a message, to resume after it
        self._events = events
        self._outlet = outlet
        self._is_open = False
        self._turn = asyncio.Lock()
        self._hold: anyio.CancelScope | None = None

    @property
    def has_client(self) -> bool:
        return self._outlet is not None

    async def push(self, message: Mapping[str, Any]) -> None:
        """Send one message. What comes after the end of the stream is dropped."""
        raw = dump(message)
        async with self._turn:
            if not self.is_over:
                await self._open()
                await self._put(raw)

    async def attach(self, outlet: Outlet, since: str | None = None) -> None:
        """Go on with another response: first with what came after the event `since`."""
        async with self._turn:
            if self._hold is not None:
                self._hold.cancel()
            self._outlet = outlet
            self._is_open = True
            await outlet.send_event(b"")
            if since is not None and self._events is not None:
                for event in await self._events.read(since):
                    if event.stream == self.name and event.message and event.id != since:
                        await outlet.send_event(write_event(event.message, event.id))

    async def hold(self, outlet: Outlet) -> bool:
        """Keep a response open, with pings. Returns True once its client is gone; False if the stream left it."""
        if self.is_over or self._outlet is not outlet:
            return False
        try:
            with anyio.CancelScope() as scope:
                self._hold = scope
                async with anyio.create_task_group() as group:
                    group.start_soon(self._ping)
                    while (await outlet.receive())["type"] != "http.disconnect":
                        pass
                    group.cancel_scope.cancel()
        finally:
            if self._outlet is outlet:
                self._outlet = None
        if scope.cancelled_caught:
            async with self._turn:
                await outlet.send_event(b"", is_last=True)
        return not scope.cancelled_caught

    def close(self) -> None:
        """End the stream. The response that is open is completed by the one who holds it."""
        self.is_over = True
        if self._hold is not None:
            self._hold.cancel()

    async def _ping(self) -> None:
        while True:
            await anyio.sleep(PING_SECONDS)
            async with self._turn:
                if not self.is_over and self._outlet is not None:
                    await self._open()
                    await self._send(b": ping\r\n\r\n")

    async def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            if self.starts_with_id:
                await self._put(b"")

    async def _put(self, raw: bytes, *, is_last: bool = False) -> None:
        self.is_over = is_last
        id = None if self._events is None else await self._events.add(self.name, raw)
        await self._send(write_event(raw, id), is_last=is_last)

    async def _send(self, event: bytes, *, is_last: bool = False) -> None:
        """Send to the open response, if any. One that cannot be written ends, and not the call: a client can resume."""
        if self._outlet is None:
            return
        try:
            await self._outlet.send_event(event, is_last=is_last)
        except OSError as error:
            log.debug("the client of a stream cannot be reached: %r", error)
            self._outlet = None


class Questions:
    """The requests that a session's client was sent and has not answered yet."""

    def __init__(self) -> None:
        self._open: dict[types.RequestId, asyncio.Future[dict[str, Any]]] = {}
        # Gateways that share a session must not ask with the same id: one would take the answer to the other's.
        self._ids = count(secrets.randbits(48))

    async def ask(self, stream: EventStream, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Send a question on a stream and return the client's result; MCPError if there is none."""
        id = next(self._ids)
        future = self._open[id] = asyncio.get_running_loop().create_future()
        try:
            await stream.push({**notification(method, params), "id": id})
            answer: dict[str, Any] = await future
            return answer
        except asyncio.CancelledError:
            with anyio.move_on_after(_LAST_WORDS_SECONDS, shield=True):
                await stream.push(notification("notifications/cancelled", {"requestId": id}))
            raise
        finally:
            del self._open[id]

    def take(self, message: types.JSONRPCResponse | types.JSONRPCError) -> None:
        """Take the answer to a question."""
        future = None if message.id is None else self._open.get(message.id)  # "5" does not answer 5
        if future is None or future.done():
            return
        if isinstance(message, types.JSONRPCError):
            future.set_exception(MCPError.from_error_data(message.error))
        else:
            future.set_result(message.result)

    def close(self) -> None:
        for future in self._open.values():
            if not future.done():
                future.set_exception(MCPError(types.CONNECTION_CLOSED, "Connection closed"))


class Exchange(EventStream):
    """One request and its answer: the SDK's DispatchContext. A stateless request has no `events` and no `questions`.

    A notification has no outlet either: it is not answered.
    """

    def __init__(
        self,
        request: HttpRequest,
        rpc: types.JSONRPCRequest | types.JSONRPCNotification,
        outlet: Outlet | None = None,
        events: SessionEvents | None = None,
        questions: Questions | None = None,
    ) -> None:
        self.request_id = rpc.id if isinstance(rpc, types.JSONRPCRequest) else None
        super().__init__(str(self.request_id), events, outlet)
        can_ask = questions is not None
        self.transport = TransportContext(kind="streamable-http", can_send_request=can_ask, headers=request.headers)
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self.cancel_requested = anyio.Event()
        self._rpc = rpc
        self._response = outlet
        self._questions = questions
        self._call = anyio.CancelScope()
        self._reason: types.ErrorData | None = None

    @property
    def can_send_request(self) -> bool:
        return self._questions is not None and not self.is_over

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if self._questions is None or self.is_over:
            raise NoBackChannelError(method)
        return await self._questions.ask(self, method, params)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self.push(notification(method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        token = progress_token_from_params(self._rpc.params)
        if token is not None:
            params = {"progressToken": token, "progress": progress, "total": total, "message": message}
            await self.notify("notifications/progress", {key: each for key, each in params.items() if each is not None})

    async def run(self, on_request: OnRequest, group: TaskGroup) -> None:
        """Answer with the result of `on_request`. It runs in the task of the HTTP request, which is the cheapest."""
        delay = WATCH_AFTER_SECONDS if self._events is None else STREAM_AFTER_SECONDS
        # A timer costs a fraction of a task, and nearly every call ends before it.
        timer = asyncio.get_running_loop().call_later(delay, group.start_soon, self._accompany)
        error: types.ErrorData | None = None
        result: dict[str, Any] = {}
        try:
            with self._call:
                try:
                    result = await on_request(self, self._rpc.method, self._rpc.params)
                except Exception as failure:
                    error = modern_error_data(failure)
            if not self._call.cancelled_caught:
                await self.answer(result, error)
            elif self._reason is not None:
                await self.answer({}, self._reason)
        except asyncio.CancelledError:
            with anyio.move_on_after(_LAST_WORDS_SECONDS, shield=True):
                await self.answer({}, STOPPED)
            raise
        finally:
            timer.cancel()
            self.close()

    def cancel(self, reason: types.ErrorData | None) -> None:
        """End the call; the reason is its answer."""
        self._reason = reason
        self._call.cancel()

    async def answer(self, result: dict[str, Any], error: types.ErrorData | None = None) -> None:
        """Plain JSON, or the last event of the stream."""
        status = 200 if error is None or self._events else ERROR_CODE_HTTP_STATUS.get(error.code, 200)
        body = {"jsonrpc": "2.0", "id": self.request_id, "result": result}
        raw = dump(body if error is None else error_body(self.request_id, error))
        async with self._turn:
            if self.is_over:
                return
            if self._is_open:
                await self._put(raw, is_last=True)
            elif self._response is not None:
                self.is_over = True
                await self._response.send_json(status, raw)

    async def _accompany(self) -> None:
        """Take care of a long call: a session's gets its stream, a stateless one ends when its client disconnects."""
        try:
            if self._events is not None:
                async with self._turn:
                    if not self.is_over:
                        await self._open()
            is_gone = self._response is None or await self.hold(self._response)
        except Exception as error:
            log.debug("the client of a long call cannot be reached: %r", error)
            is_gone = True
        if is_gone and self._events is None:
            self._call.cancel()


def notification(method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": dict(params)})


def error_body(request_id: types.RequestId | None, error: types.ErrorData) -> dict[str, Any]:
    fields = error.model_dump(mode="json", exclude_none=True)
    return {"jsonrpc": "2.0", "id": request_id, "error": fields}


def dump(body: Mapping[str, Any]) -> bytes:
    """The JSON of a message. The fast writer, four times as fast on long lists of ids, refuses lone surrogates."""
    try:
        return pydantic_core.to_json(body)
    except ValueError:
        return json.dumps(body, separators=(",", ":")).encode()


def write_event(raw: bytes, id: str | None) -> bytes:
    """The event of a message; one without a message tells the client how soon to come back."""
    place = b"" if id is None else f"id: {id}\r\n".encode()
    if not raw:
        return place + b"retry: %d\r\ndata: \r\n\r\n" % RETRY_MILLISECONDS
    return place + b"event: message\r\ndata: " + raw + b"\r\n\r\n"
