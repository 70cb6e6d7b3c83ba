"""The binary transport of the MCP endpoint (spec 6.4): what a request asks for, its translation, answers as frames.

Requests that do not ask for frames pass through unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

import anyio
from anyio import to_thread
from mcp.types import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leafgate.codec import compression, frames
from leafgate.codec.compression import ENCODINGS, Encoding, choose_encoding
from leafgate.codec.frames import EVENT_ID_HEADER, FRAMES_TYPE, FrameError
from leafgate.server.front import BodyTooLargeError, ClientGoneError, read_body, replay_body

JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"
FORMAT_PARAMETER: Final = "stream_format"

_MARK: Final = FRAMES_TYPE.encode()
_NAMING: Final = (b"accept", b"content-type")


class FrameRefusal(Exception):
    """A request that ends here, with a status and a JSON-RPC error."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class FrameWish:
    """Whether the answer is to be frames, or JSON by name, and in which encoding; whether the body is msgpack."""

    wants_frames: bool
    wants_json: bool
    encoding: Encoding | None
    sends_packed: bool


def is_plain(scope: Scope) -> bool:
    """Whether a request certainly does not use the binary transport, like almost all requests."""
    headers = (value.lower() for name, value in scope["headers"] if name in _NAMING)
    return not scope["query_string"] and not any(_MARK in value for value in headers)


def read_wish(scope: Scope) -> FrameWish:
    """The query takes precedence over Accept. FrameRefusal if the query names an unknown format."""
    headers = Headers(scope=scope)
    formats = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get(FORMAT_PARAMETER)
    chosen = None if formats is None else formats[-1]
    if chosen not in (None, "msgpack", "json"):
        raise FrameRefusal(400, INVALID_REQUEST, f"{FORMAT_PARAMETER} is msgpack or json")
    return FrameWish(
        wants_frames=chosen == "msgpack" or (chosen is None and prefers_frames(_header_values(headers, "accept"))),
        wants_json=chosen == "json",
        encoding=choose_encoding(_header_values(headers, "accept-encoding")),
        sends_packed=scope["method"] == "POST" and media_type(headers) == FRAMES_TYPE,
    )


def prefers_frames(accept: str) -> bool:
    """Only a client that names frames can read them: a wildcard does not ask for them."""
    preferences = compression.weights(accept)
    return preferences.get(FRAMES_TYPE, 0.0) > 0 and preferences[FRAMES_TYPE] >= preferences.get(JSON_TYPE, 0.0)


def media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def body_encoding(headers: Headers) -> Encoding | None:
    """How the body of a request is compressed; FrameRefusal if it cannot be decompressed."""
    choice = _header_values(headers, "content-encoding").strip().lower()
    if choice in ("", "identity"):
        return None
    for encoding in ENCODINGS:
        if choice == encoding:
            return encoding
    encodings = " or ".join(ENCODINGS)
    raise FrameRefusal(415, INVALID_REQUEST, f"a body may be encoded as {encodings}, not both, and nothing else")


def scope_for_json(scope: Scope, wish: FrameWish, json_body: bytes | None) -> Scope:
    """The request as a JSON client would have sent it."""
    headers = MutableHeaders(raw=list(scope["headers"]))
    if wish.wants_frames or wish.wants_json:
        headers["accept"] = f"{JSON_TYPE}, {SSE_TYPE}"
    if wish.wants_frames:
        del headers["accept-encoding"]
    if json_body is not None:
        del headers["content-encoding"]
        del headers["transfer-encoding"]
        headers["content-type"] = JSON_TYPE
        headers["content-length"] = str(len(json_body))
    return {**scope, "headers": headers.raw}


def _header_values(headers: Headers, name: str) -> str:
    return ",".join(headers.getlist(name))


COMPRESS_FROM: Final = 1024
VARY: Final = ("Accept", "Accept-Encoding")
# Translating and compressing this many bytes takes a few milliseconds; a thread that wants to run on a busy loop's
# processor may wait as long for its turn.
THREAD_FROM: Final = 128 << 10

T = TypeVar("T")


@dataclass(frozen=True)
class FrameLimits:
    """The largest request body, as it comes; as it unpacks, and as JSON; and how long it may take to come."""

    max_body_bytes: int = 4 << 20
    max_message_bytes: int = 4 << 20  # the SDK's limit too, whose refusal would not be a frame
    body_seconds: float = 60


@dataclass(frozen=True)
class CodecFrames:
    """Adds the binary transport to the MCP endpoint of an app."""

    app: ASGIApp
    path: str = "/mcp"
    compress_from: int = COMPRESS_FROM
    limits: FrameLimits = FrameLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self.path or is_plain(scope):
            await self.app(scope, receive, send)
            return
        try:
            wish = read_wish(scope)
            if wish.wants_frames:
                # Only its first message opens the stream of a GET; that may come much later, or never.
                at_once = scope["method"] == "GET"
                send = FrameAnswer(send, wish.encoding, self.compress_from, starts_at_once=at_once)
            json_body = await self._json_body(scope, receive) if wish.sends_packed else None
        except FrameRefusal as refusal:
            await _response(refusal)(scope, receive, send)
        except ClientGoneError:
            return
        else:
            receive = receive if json_body is None else replay_body(json_body, receive)
            await self.app(scope_for_json(scope, wish, json_body), receive, send)

    async def _json_body(self, scope: Scope, receive: Receive) -> bytes:
        """The JSON of a msgpack body. A client that sends it too slowly is refused."""
        encoding = body_encoding(Headers(scope=scope))
        limits = self.limits
        try:
            with anyio.fail_after(limits.body_seconds):
                raw = await read_body(scope, receive, limits.max_body_bytes)
            # A compressed body says nothing of its true size.
            size = len(raw) if encoding is None else THREAD_FROM
            return await in_thread_if_large(size, partial(self._translate, raw, encoding))
        except TimeoutError:
            reason = f"the body is not complete after {limits.body_seconds:g} seconds"
            raise FrameRefusal(408, INVALID_REQUEST, reason) from None
        except BodyTooLargeError:
            reason = f"the body is larger than {limits.max_body_bytes} bytes"
            raise FrameRefusal(413, INVALID_REQUEST, reason) from None
        except compression.CompressionError as error:
            status, code = (413, INVALID_REQUEST) if error.reason == "too-large" else (400, PARSE_ERROR)
            raise FrameRefusal(status, code, str(error)) from None
        except FrameError as error:
            raise FrameRefusal(400, PARSE_ERROR, f"Parse error: {error}") from None

    def _translate(self, raw: bytes, encoding: Encoding | None) -> bytes:
        limit = self.limits.max_message_bytes
        json_body = frames.json_from_packed(raw if encoding is None else compression.decompress(raw, encoding, limit))
        if len(json_body) > limit:  # what is one byte in msgpack may be six in JSON
            raise FrameRefusal(413, INVALID_REQUEST, f"the body is larger than {limit} bytes as JSON")
        return json_body


def _response(refusal: FrameRefusal) -> JSONResponse:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": refusal.code, "message": str(refusal)}}
    # After 408 the rest of the body is not read.
    headers = {415: {"accept-encoding": ", ".join(ENCODINGS)}, 408: {"connection": "close"}}
    return JSONResponse(error, refusal.status, headers.get(refusal.status))


class FrameAnswer:
    """A `send` for the app inside. Pings and events may come from two tasks, so they are sent one at a time.

    JSON becomes one frame. Of an event stream, each event that holds a message becomes a frame; keep-alives are
    dropped: a frame is always a message. An answer without a message, such as a bare status, stays as it is.
    """

    def __init__(self, send: Send, encoding: Encoding | None, compress_from: int, *, starts_at_once: bool) -> None:
        self._send = send
        self._encoding = encoding
        self._compress_from = compress_from
        self._starts_at_once = starts_at_once
        self._lock = anyio.Lock()
        self._start: Message = {}
        self._media_type = ""
        self._has_started = False
        self._json = bytearray()
        self._events = frames.EventReader()
        self._compressor: compression.Compressor | None = None

    async def __call__(self, message: Message) -> None:
        async with self._lock:
            if message["type"] == "http.response.start":
                await self._prepare(message)
            elif message["type"] != "http.response.body" or self._media_type not in (SSE_TYPE, JSON_TYPE):
                await self._send(message)
            else:
                send = self._send_events if self._media_type == SSE_TYPE else self._send_json
                await send(message.get("body", b""), message.get("more_body", False))

    async def _prepare(self, start: Message) -> None:
        """The start of JSON waits for its length, that of a stream for the id of its first event."""
        self._start = start
        self._media_type = media_type(Headers(raw=start["headers"]))
        if self._media_type == SSE_TYPE:
            self._compressor = None if self._encoding is None else compression.Compressor(self._encoding)
            if self._starts_at_once:
                await self._begin({})
        elif self._media_type != JSON_TYPE:
            await self._send(start)

    async def _begin(self, headers: dict[str, str]) -> None:
        self._has_started = True
        await self._send(frames_start(self._start, self._encoding, headers))

    async def _send_json(self, chunk: bytes, more: bool) -> None:
        self._json += chunk
        if more:
            return
        raw = bytes(self._json)
        body, encoding = await in_thread_if_large(len(raw), partial(self._frame_of_json, raw))
        await self._send(frames_start(self._start, encoding, {"content-length": str(len(body))}))
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def _frame_of_json(self, raw: bytes) -> tuple[bytes, Encoding | None]:
        frame = frame_from_json(raw) if raw else b""
        if self._encoding is None or len(frame) < self._compress_from:
            return frame, None
        return compression.compress(frame, self._encoding), self._encoding

    async def _send_events(self, chunk: bytes, more: bool) -> None:
        events = list(self._events.feed(chunk))
        if not self._has_started:
            # Where a client of the handshake era resumes a broken stream: the id of the event that opens it.
            place = events[0].id if events and not events[0].data else None
            await self._begin({EVENT_ID_HEADER: place} if place else {})
        for event in events:
            if event.data:
                body = await in_thread_if_large(len(event.data), partial(self._frame_of_event, event.data))
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
        if not more:
            rest = b"" if self._compressor is None else self._compressor.end()
            await self._send({"type": "http.response.body", "body": rest, "more_body": False})

    def _frame_of_event(self, data: bytes) -> bytes:
        frame = frame_from_json(data)
        return frame if self._compressor is None else self._compressor.add(frame)


def frame_from_json(raw: bytes) -> bytes:
    """The frame of a JSON message; if it cannot be written as one, the frame of an error with the same id."""
    try:
        return frames.add_frame_head(frames.packed_from_json(raw))
    except FrameError as error:
        error_body = {"code": INTERNAL_ERROR, "message": f"the answer cannot be written as a frame: {error}"}
        return frames.pack_frame({"jsonrpc": "2.0", "id": _id_in(raw), "error": error_body})


def _id_in(raw: bytes) -> Any:
    try:
        request_id = json.loads(raw)["id"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return request_id if isinstance(request_id, str | int) else None


def frames_start(start: Message, encoding: Encoding | None, more: dict[str, str]) -> Message:
    """The start of an answer in frames; the other headers of the application inside stay."""
    headers = MutableHeaders(raw=list(start["headers"]))
    del headers["content-length"]
    headers["content-type"] = FRAMES_TYPE
    if encoding is not None:
        headers["content-encoding"] = encoding
    names = [name.strip() for value in headers.getlist("vary") for name in value.split(",")]
    present = {name.lower() for name in names}
    headers["vary"] = ", ".join([*names, *(name for name in VARY if name.lower() not in present)])
    headers.update(more)
    return {**start, "headers": headers.raw}


async def in_thread_if_large(size: int, work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work) if size >= THREAD_FROM else work()
