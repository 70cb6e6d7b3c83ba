"""Streamable HTTP as a transport of the SDK's client session, in msgpack frames where the server offers them.

The first request is JSON and accepts frames. A server that answers in frames is sent msgpack from then on, any other
one JSON. A request that fails on the way is answered with a JSON-RPC error whose `data` is the ClientError itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx2
import pydantic_core
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from pydantic import ValidationError

from leafgate.codec import frames
from leafgate.codec.compression import ENCODINGS, CompressionError, Decompressor
from leafgate.codec.frames import Message
from leafgate.model.errors import LeafgateError
from leafgate.model.leaf import Reason


class ClientError(LeafgateError):
    """The root of the errors of this client."""


class ServerUnreachable(ClientError):
    """There is no connection, or it broke or timed out."""


class HttpError(ClientError):
    """The server refused the request with an HTTP status, and without an error of the protocol."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the server refused with HTTP status {status}")
        self.status = status


class RpcError(ClientError):
    """The server answered with an error of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


class ProtocolError(ClientError):
    """The answer breaks the protocol or a limit of this client."""


class LeafError(ClientError):
    """The ids of a text block fail verification (spec 5.7)."""

    def __init__(self, text_index: int, reason: Reason) -> None:
        super().__init__(f"content[{text_index}] has ids that are not valid: {reason}")
        self.text_index = text_index
        self.reason = reason


STATELESS_VERSION: Final = "2026-07-28"
JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"
MEDIA_TYPES: Final = (frames.FRAMES_TYPE, JSON_TYPE, SSE_TYPE)
VERSION_HEADER: Final = "mcp-protocol-version"
SESSION_HEADER: Final = "mcp-session-id"
RESUME_TRIES: Final = 3
RESUME_SECONDS: Final = 1.0
REST_SECONDS: Final = 1.0

Inbox = MemoryObjectReceiveStream[SessionMessage | Exception]
Outbox = MemoryObjectSendStream[SessionMessage]
Answer = types.JSONRPCResponse | types.JSONRPCError


@dataclass(frozen=True)
class ClientLimits:
    """The largest message, and the most that a compressed answer may unpack to; how long a server may be silent."""

    max_message_bytes: int = 64 << 20
    max_answer_bytes: int = 256 << 20
    connect_seconds: float = 10.0
    silent_seconds: float = 300.0


class FrameTransport:
    """The connection to one endpoint, for one `mcp.ClientSession`."""

    def __init__(self, http: httpx2.AsyncClient, url: str, limits: ClientLimits, *, binary: bool) -> None:
        self._http = http
        self._url = url
        parts = urlsplit(url)
        # For error messages, without a user's name, password and query.
        self._shown_url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._limits = limits
        self._accept = ", ".join(MEDIA_TYPES if binary else MEDIA_TYPES[1:])
        self._version: str | None = None
        self._session_id: str | None = None
        self._posts: dict[types.RequestId, anyio.CancelScope] = {}
        self.speaks_frames = False

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Inbox, Outbox]]:
        """The streams that a client session is built on. Leaving ends the server's session, if it opened one."""
        self._to_session, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbox, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        async with self._to_session, inbox, outbox, from_session, anyio.create_task_group() as group:
            group.start_soon(self._send_all, from_session, group)
            try:
                yield inbox, outbox
            finally:
                if self._session_id:
                    with suppress(ClientError):  # a session also ends by itself, when it is idle for long
                        async with self._open("DELETE", self._headers()):
                            pass
                group.cancel_scope.cancel()

    async def _send_all(self, outgoing: MemoryObjectReceiveStream[SessionMessage], group: TaskGroup) -> None:
        async for item in outgoing:
            message = item.message
            stamp = item.metadata.headers if isinstance(item.metadata, ClientMessageMetadata) else None
            if isinstance(message, types.JSONRPCRequest):
                # The handshake negotiates the version: the one of an attempt without a session does not hold for it.
                self._version = (stamp or {}).get(VERSION_HEADER)
                group.start_soon(self._exchange, message, self._headers(stamp))
            elif isinstance(message, types.JSONRPCNotification):
                if not self._cancel_post(message):
                    await self._send_only(message, self._headers(stamp))
            else:
                group.start_soon(self._send_only, message, self._headers(stamp))

    def _headers(self, stamp: Mapping[str, str] | None = None) -> dict[str, str]:
        version = {VERSION_HEADER: self._version} if self._version else {}
        session = {SESSION_HEADER: self._session_id} if self._session_id else {}
        return {**version, **session, **(stamp or {})}

    def _cancel_post(self, message: types.JSONRPCNotification) -> bool:
        """Abort the request that this message cancels. True if that is all the server needs to know. Without a session,
        closing a request's stream is what cancels it; in a session it is the message."""
        if message.method != "notifications/cancelled":
            return False
        scope = self._posts.get((message.params or {}).get("requestId", ""))
        if scope is not None:
            scope.cancel()
        return self._version == STATELESS_VERSION

    async def _send_only(self, message: types.JSONRPCMessage, headers: Mapping[str, str]) -> None:
        """Send a message that has no answer. A server that refuses it refuses the next request too."""
        with suppress(ClientError):
            async with self._open("POST", headers, message) as (_, messages):
                await _read_rest(messages)

    async def _exchange(self, request: types.JSONRPCRequest, headers: Mapping[str, str]) -> None:
        with anyio.CancelScope() as scope, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._posts[request.id] = scope
            try:
                answer = await self._request(request, headers)
            except ClientError as error:
                failure = types.ErrorData(code=types.INTERNAL_ERROR, message=str(error), data=error)
                answer = types.JSONRPCError(jsonrpc="2.0", id=request.id, error=failure)
            finally:
                self._posts.pop(request.id, None)
            await self._to_session.send(SessionMessage(answer))

    async def _request(self, request: types.JSONRPCRequest, headers: Mapping[str, str]) -> Answer:
        event_id: str | None = None
        answer: Message | None = None
        try:
            async with self._open("POST", headers, request) as (response, messages):
                event_id = response.headers.get(frames.EVENT_ID_HEADER)
                if request.method == "initialize":
                    self._session_id = response.headers.get(SESSION_HEADER)
                answer = await self._find_answer(messages, request.id)
                await _read_rest(messages)
        except ServerUnreachable:
            if event_id is None and answer is None:
                raise
        if answer is None and event_id is not None:
            answer = await self._resume(event_id, request.id)
        return _typed_answer(answer, request.id, response.status_code)

    async def _find_answer(self, messages: AsyncIterator[Message], request_id: types.RequestId) -> Message | None:
        """The message that answers the request. Requests and notifications of the server go to the session."""
        async for message in messages:
            if "method" in message:
                with suppress(ValidationError):  # a malformed notification does not fail the call
                    typed = types.jsonrpc_message_adapter.validate_python(message, by_name=False)
                    await self._to_session.send(SessionMessage(typed))
            elif message.get("id") == request_id or (message.get("id") is None and "error" in message):
                return message
        return None

    async def _resume(self, event_id: str, request_id: types.RequestId) -> Message:
        """Read a stream that broke, or that the server closed, again from its beginning."""
        for _ in range(RESUME_TRIES):
            await anyio.sleep(RESUME_SECONDS)
            with suppress(ServerUnreachable):
                headers = {**self._headers(), "last-event-id": event_id}
                async with self._open("GET", headers) as (_, messages):
                    answer = await self._find_answer(messages, request_id)
                if answer is not None:
                    return answer
        raise ServerUnreachable("the stream of the answer broke and could not be resumed")

    @asynccontextmanager
    async def _open(
        self, method: str, headers: Mapping[str, str], message: types.JSONRPCMessage | None = None
    ) -> AsyncIterator[tuple[httpx2.Response, AsyncIterator[Message]]]:
        all_headers = {"accept": self._accept, "accept-encoding": ", ".join(ENCODINGS), **headers}
        body = None
        if message is not None:
            fields, packed = message.model_dump(by_alias=True, exclude_unset=True), self.speaks_frames
            body = frames.pack_message(fields) if packed else pydantic_core.to_json(fields, inf_nan_mode="constants")
            all_headers["content-type"] = frames.FRAMES_TYPE if packed else JSON_TYPE
        try:
            async with self._http.stream(method, self._url, headers=all_headers, content=body) as response:
                yield response, self._read(response)
        except httpx2.TimeoutException:
            raise ServerUnreachable(f"{self._shown_url}: no answer in time") from None
        except httpx2.TransportError as error:
            raise ServerUnreachable(f"{self._shown_url}: {type(error).__name__}") from None

    async def _read(self, response: httpx2.Response) -> AsyncIterator[Message]:
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type in MEDIA_TYPES:
            self.speaks_frames = media_type == frames.FRAMES_TYPE
        reader = MessageReader(media_type, self._limits.max_message_bytes)
        try:
            unpacker = self._unpacker(response.headers.get("content-encoding", ""))
            async for chunk in response.aiter_raw():
                for part in (chunk,) if unpacker is None else unpacker.feed(chunk):
                    for message in reader.feed(part):
                        yield message
            if unpacker is not None:
                unpacker.end()
            for message in reader.end():
                yield message
        except (frames.FrameError, CompressionError, frames.EventError) as error:
            raise ProtocolError(f"{self._shown_url} sent an invalid answer: {error}") from None

    def _unpacker(self, encoding: str) -> Decompressor | None:
        name = encoding.strip().lower()
        if name in ("", "identity"):
            return None
        if (accepted := next((each for each in ENCODINGS if each == name), None)) is not None:
            return Decompressor(accepted, self._limits.max_answer_bytes)
        raise ProtocolError(f"{self._shown_url} answered in an encoding that was not accepted: {name[:40]}")


class MessageReader:
    """Cuts an answer into messages by its media type; any other media type, such as HTML, holds none. Raises
    frames.FrameError and frames.EventError for bytes that are not messages, and for messages beyond the limit."""

    def __init__(self, media_type: str, max_message_bytes: int) -> None:
        self._media_type = media_type
        self._limit = max_message_bytes
        self._frames = frames.FrameReader(max_message_bytes)
        self._events = frames.EventReader(max_message_bytes)
        self._json = bytearray()

    def feed(self, part: bytes) -> Iterator[Message]:
        """The messages that these bytes complete."""
        if self._media_type == frames.FRAMES_TYPE:
            yield from self._frames.feed(part)
        elif self._media_type == SSE_TYPE:
            yield from (frames.message_from_json(event.data) for event in self._events.feed(part) if event.data)
        elif self._media_type == JSON_TYPE:
            self._json += part
            if len(self._json) > self._limit:
                raise frames.FrameError("too-large", f"an answer is larger than {self._limit} bytes")

    def end(self) -> Iterator[Message]:
        """The message that the end of the answer completes."""
        self._frames.end()
        if self._json:
            yield frames.message_from_json(bytes(self._json))


async def _read_rest(messages: AsyncIterator[Message]) -> None:
    """A connection is used again only if its answer was read to the end, which is near once the result is there."""
    with suppress(ProtocolError), anyio.move_on_after(REST_SECONDS):
        async for _ in messages:
            pass


def _typed_answer(answer: Message | None, request_id: types.RequestId, status: int) -> Answer:
    """Raises HttpError or ProtocolError where the server sent neither a result nor an error of the protocol."""
    error: Any = None if answer is None else answer.get("error")
    if isinstance(error, Mapping) and isinstance(error.get("code"), int):
        failure = types.ErrorData(code=error["code"], message=str(error.get("message")), data=error.get("data"))
        return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=failure)
    if status >= 300:
        raise HttpError(status)
    if answer is None:
        raise ProtocolError("the answer ended without a result")
    result = answer.get("result")
    if not isinstance(result, dict):
        raise ProtocolError("the answer has neither a result nor an error")
    return types.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result)
