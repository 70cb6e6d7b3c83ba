"""Turns an answer in JSON or server-sent events into frames (spec 6.4). In: ASGI messages. Out: others to the client.

Touches the client's connection, and threads for what is large. Each event goes out before the next one is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import anyio
from anyio import to_thread
from mcp.types import INTERNAL_ERROR
from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

from leafgate.codec.compression import Compressor, Encoding, compress
from leafgate.codec.frames import CONTENT_TYPE, EVENT_ID_HEADER, FrameError, frame_of, pack_frame
from leafgate.codec.message_json import packed_from_json
from leafgate.codec.sse_events import Event, EventReader
from leafgate.server.frame_wish import JSON_TYPE, SSE_TYPE, media_type

VARY: Final = ("Accept", "Accept-Encoding")
# Translating and compressing this many bytes takes a few milliseconds; a thread that wants to run on a busy loop's
# processor may wait as long for its turn.
THREAD_FROM: Final = 128 << 10

T = TypeVar("T")


class _Body(Protocol):
    """What becomes of an answer's body."""

    async def start(self) -> None: ...

    async def take(self, chunk: bytes, more: bool) -> None: ...


class FrameAnswer:
    """A `send` for the app inside. Pings and events may come from two tasks, so they are taken one at a time."""

    def __init__(self, send: Send, encoding: Encoding | None, compress_from: int, *, starts_at_once: bool) -> None:
        self._send = send
        self._encoding = encoding
        self._compress_from = compress_from
        self._starts_at_once = starts_at_once
        self._body: _Body | None = None
        self._lock = anyio.Lock()

    async def __call__(self, message: Message) -> None:
        async with self._lock:
            if message["type"] == "http.response.start":
                self._body = self._choose_body(message)
                await self._body.start()
            elif message["type"] == "http.response.body" and self._body is not None:
                await self._body.take(message.get("body", b""), message.get("more_body", False))
            else:
                await self._send(message)

    def _choose_body(self, start: Message) -> _Body:
        kind = media_type(MutableHeaders(raw=list(start["headers"])))
        if kind == SSE_TYPE:
            return _Stream(self._send, start, self._encoding, starts_at_once=self._starts_at_once)
        if kind == JSON_TYPE:
            return _Whole(self._send, start, self._encoding, self._compress_from)
        return _AsItIs(self._send, start)


class _AsItIs:
    """An answer that holds no message, such as a bare status."""

    def __init__(self, send: Send, start: Message) -> None:
        self._send = send
        self._start = start

    async def start(self) -> None:
        await self._send(self._start)

    async def take(self, chunk: bytes, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": more})


class _Whole:
    """One message, in one frame."""

    def __init__(self, send: Send, start: Message, encoding: Encoding | None, compress_from: int) -> None:
        self._send = send
        self._start = start
        self._encoding = encoding
        self._compress_from = compress_from
        self._held = bytearray()

    async def start(self) -> None:
        """The length is not known yet."""

    async def take(self, chunk: bytes, more: bool) -> None:
        self._held += chunk
        if more:
            return
        raw = bytes(self._held)
        body, encoding = await in_thread_if_large(len(raw), partial(self._written, raw))
        headers = {"content-length": str(len(body))}
        await self._send(frames_start(self._start, encoding, headers))
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def _written(self, raw: bytes) -> tuple[bytes, Encoding | None]:
        frame = frame_from_json(raw) if raw else b""
        if self._encoding is None or len(frame) < self._compress_from:
            return frame, None
        return compress(frame, self._encoding), self._encoding


class _Stream:
    """A frame for each event that holds a message. Keep-alives are dropped: a frame is always a message."""

    def __init__(self, send: Send, start: Message, encoding: Encoding | None, *, starts_at_once: bool) -> None:
        self._send = send
        self._start = start
        self._encoding = encoding
        self._starts_at_once = starts_at_once
        self._events = EventReader()
        self._compressor = None if encoding is None else Compressor(encoding)
        self._has_started = False

    async def start(self) -> None:
        if self._starts_at_once:
            await self._begin({})

    async def take(self, chunk: bytes, more: bool) -> None:
        events = list(self._events.feed(chunk))
        if not self._has_started:
            await self._begin(_place(events))
        for event in events:
            if event.data:
                body = await in_thread_if_large(len(event.data), partial(self._written, event.data))
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
        if not more:
            rest = b"" if self._compressor is None else self._compressor.end()
            await self._send({"type": "http.response.body", "body": rest, "more_body": False})

    async def _begin(self, headers: dict[str, str]) -> None:
        self._has_started = True
        await self._send(frames_start(self._start, self._encoding, headers))

    def _written(self, data: bytes) -> bytes:
        frame = frame_from_json(data)
        return frame if self._compressor is None else self._compressor.add(frame)


def _place(events: list[Event]) -> dict[str, str]:
    """Where a client of the handshake era goes on when the stream breaks: the id of the event that opens it."""
    opening = events[0] if events else None
    return {EVENT_ID_HEADER: opening.id} if opening is not None and opening.id and not opening.data else {}


def frame_from_json(raw: bytes) -> bytes:
    """The frame of a JSON message; where it has none, of an error with the same id."""
    try:
        return frame_of(packed_from_json(raw))
    except FrameError as error:
        told = {"code": INTERNAL_ERROR, "message": f"the answer cannot be written as a frame: {error}"}
        return pack_frame({"jsonrpc": "2.0", "id": _id_in(raw), "error": told})


def _id_in(raw: bytes) -> Any:
    try:
        found = json.loads(raw)["id"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return found if isinstance(found, str | int) else None


def frames_start(start: Message, encoding: Encoding | None, more: dict[str, str]) -> Message:
    """The start of an answer, told as frames. What the app inside said of itself stays."""
    headers = MutableHeaders(raw=list(start["headers"]))
    del headers["content-length"]
    headers["content-type"] = CONTENT_TYPE
    if encoding is not None:
        headers["content-encoding"] = encoding
    headers["vary"] = _merged(headers.getlist("vary"), VARY)
    headers.update(more)
    return {**start, "headers": headers.raw}


def _merged(told: Sequence[str], more: Sequence[str]) -> str:
    names = [name.strip() for value in told for name in value.split(",")]
    known = {name.lower() for name in names}
    return ", ".join([*names, *(name for name in more if name.lower() not in known)])


async def in_thread_if_large(size: int, work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work) if size >= THREAD_FROM else work()
