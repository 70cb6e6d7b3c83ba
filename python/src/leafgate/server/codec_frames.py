"""The binary transport round the MCP endpoint (spec 6.4). In: an ASGI app that speaks JSON. Out: one that speaks both.

Touches the requests and answers of one path. A request that wants nothing of it passes through as the same objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
from mcp.types import INVALID_REQUEST, PARSE_ERROR
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leafgate.codec.compression import ENCODINGS, CompressionError, Encoding, decompress
from leafgate.codec.frames import FrameError
from leafgate.codec.message_json import json_from_packed
from leafgate.server.frame_answer import THREAD_FROM, FrameAnswer, in_thread_if_large
from leafgate.server.frame_wish import JSON_TYPE, FrameWish, Refusal, body_encoding, is_plain, read_wish, scope_for_json

COMPRESS_FROM: Final = 1024


@dataclass(frozen=True)
class FrameLimits:
    """The largest request body, as it comes; as it unpacks, and as JSON; and how long it may take to come.

    The SDK takes no JSON beyond 4 MiB either, and its refusal would be no frame.
    """

    max_body_bytes: int = 4 << 20
    max_message_bytes: int = 4 << 20
    body_seconds: float = 60


class ClientGone(Exception):
    """The client hung up before its request was whole: there is nobody to answer."""


class CodecFrames:
    """Puts the binary transport round an app's MCP endpoint."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        path: str = "/mcp",
        compress_from: int = COMPRESS_FROM,
        limits: FrameLimits | None = None,
    ) -> None:
        self._app = app
        self._path = path
        self._compress_from = compress_from
        self._limits = limits or FrameLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path or is_plain(scope):
            await self._app(scope, receive, send)
            return
        try:
            wish = read_wish(scope)
        except Refusal as refusal:
            await _refuse(refusal, send)
            return
        if not wish.is_binary and not wish.wants_json:
            await self._app(scope, receive, send)
            return
        answer = self._answer(wish, send)
        try:
            json_body = await self._json_body(scope, receive) if wish.sends_packed else None
        except Refusal as refusal:
            await _refuse(refusal, answer)
        except ClientGone:
            return
        else:
            inner = scope_for_json(scope, wish, json_body)
            await self._app(inner, receive if json_body is None else _replay(json_body, receive), answer)

    def _answer(self, wish: FrameWish, send: Send) -> Send:
        if not wish.wants_frames:
            return send
        # Nothing opens a GET's stream but its first message, which may come much later, or never.
        return FrameAnswer(send, wish.encoding, self._compress_from, starts_at_once=wish.method == "GET")

    async def _json_body(self, scope: Scope, receive: Receive) -> bytes:
        """The JSON of a msgpack body."""
        encoding = body_encoding(Headers(scope=scope))
        raw = await self._read_in_time(scope, receive)
        # A compressed body says nothing of its true size.
        size = len(raw) if encoding is None else THREAD_FROM
        try:
            return await in_thread_if_large(size, partial(self._translated, raw, encoding))
        except CompressionError as error:
            status = 413 if error.reason == "too-large" else 400
            raise Refusal(status, PARSE_ERROR if status == 400 else INVALID_REQUEST, str(error)) from None
        except FrameError as error:
            raise Refusal(400, PARSE_ERROR, f"Parse error: {error}") from None

    def _translated(self, raw: bytes, encoding: Encoding | None) -> bytes:
        limit = self._limits.max_message_bytes
        json_body = json_from_packed(raw if encoding is None else decompress(raw, encoding, limit))
        if len(json_body) > limit:  # what is one byte in msgpack may be six in JSON
            raise Refusal(413, INVALID_REQUEST, f"the body is larger than {limit} bytes as JSON")
        return json_body

    async def _read_in_time(self, scope: Scope, receive: Receive) -> bytes:
        """A client that sends a byte now and then must not hold what it has sent forever."""
        seconds = self._limits.body_seconds
        with anyio.move_on_after(seconds):
            return await self._read_body(scope, receive)
        raise Refusal(408, INVALID_REQUEST, f"the body is not whole after {seconds:g} seconds")

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._limits.max_body_bytes
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > limit:
            raise Refusal(413, INVALID_REQUEST, f"the body is larger than {limit} bytes")
        held = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            held += message.get("body", b"")
            if len(held) > limit:
                raise Refusal(413, INVALID_REQUEST, f"the body is larger than {limit} bytes")
            if not message.get("more_body", False):
                return bytes(held)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body first; then whatever the client still does, which is hanging up."""
    waiting: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def next_message() -> Message:
        return next(waiting, None) or await receive()

    return next_message


async def _refuse(refusal: Refusal, send: Send) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": refusal.code, "message": str(refusal)}}
    body = json.dumps(error, separators=(",", ":")).encode()
    headers = [(b"content-type", JSON_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    if refusal.status == 415:
        headers.append((b"accept-encoding", ", ".join(ENCODINGS).encode()))
    if refusal.status == 408:  # what is still to come of the body belongs to nobody
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
