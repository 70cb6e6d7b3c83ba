"""One exchange over HTTP: a message out, messages in, as they come. In: a message. Out: the answer's messages.

Touches the network. The first request is JSON and says that frames are welcome; a server that answers in frames gets
its requests as msgpack from then on, and any other is spoken to in JSON.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import pydantic_core

from leafgate.client.answer_reader import JSON_TYPE, KINDS, SSE_TYPE, choose_reader
from leafgate.client.errors import AnswerInvalid, ServerUnreachable
from leafgate.codec.compression import ENCODINGS, CompressionError, Decompressor
from leafgate.codec.frames import CONTENT_TYPE, FrameError, Message, pack_message
from leafgate.codec.sse_events import EventError

ACCEPT_BOTH: Final = ", ".join(KINDS)
ACCEPT_JSON: Final = f"{JSON_TYPE}, {SSE_TYPE}"


@dataclass(frozen=True)
class ClientLimits:
    """The largest message, and the most that a compressed answer may unpack to; how long a server may be silent."""

    max_message_bytes: int = 64 << 20
    max_answer_bytes: int = 256 << 20
    connect_seconds: float = 10.0
    silent_seconds: float = 300.0


@dataclass(frozen=True)
class Answer:
    """The head of an answer, and its messages; those can be read once."""

    status: int
    headers: Mapping[str, str]
    messages: AsyncIterator[Message]


class Wire:
    """The connection to one endpoint."""

    def __init__(self, http: httpx2.AsyncClient, url: str, limits: ClientLimits, *, binary: bool) -> None:
        self._http = http
        self._url = url
        self._shown = _without_secrets(url)
        self._limits = limits
        self._accept = ACCEPT_BOTH if binary else ACCEPT_JSON
        self.speaks_frames = False

    @asynccontextmanager
    async def post(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> AsyncIterator[Answer]:
        packed = self.speaks_frames
        body = pack_message(message) if packed else pydantic_core.to_json(message, inf_nan_mode="constants")
        kind = CONTENT_TYPE if packed else JSON_TYPE
        async with self._open("POST", {**headers, "content-type": kind}, body) as answer:
            yield answer

    @asynccontextmanager
    async def resume(self, place: str, headers: Mapping[str, str]) -> AsyncIterator[Answer]:
        """What a broken stream carried after this place, and what it carries from now on."""
        async with self._open("GET", {**headers, "last-event-id": place}, None) as answer:
            yield answer

    async def delete(self, headers: Mapping[str, str]) -> None:
        async with self._open("DELETE", headers, None):
            pass

    @asynccontextmanager
    async def _open(self, method: str, headers: Mapping[str, str], body: bytes | None) -> AsyncIterator[Answer]:
        wanted = {"accept": self._accept, "accept-encoding": ", ".join(ENCODINGS), **headers}
        try:
            async with self._http.stream(method, self._url, headers=wanted, content=body) as response:
                yield Answer(response.status_code, response.headers, self._read(response))
        except httpx2.TimeoutException:
            raise ServerUnreachable(f"{self._shown}: no answer in time") from None
        except httpx2.TransportError as error:
            raise ServerUnreachable(f"{self._shown}: {type(error).__name__}") from None

    async def _read(self, response: httpx2.Response) -> AsyncIterator[Message]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in KINDS:
            self.speaks_frames = kind == CONTENT_TYPE
        reader = choose_reader(kind, self._limits.max_message_bytes)
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
        except (FrameError, CompressionError, EventError) as error:
            raise AnswerInvalid(f"{self._shown} answered with what is no message: {error}") from None

    def _unpacker(self, encoding: str) -> Decompressor | None:
        named = encoding.strip().lower()
        if named in ("", "identity"):
            return None
        for known in ENCODINGS:
            if named == known:
                return Decompressor(known, self._limits.max_answer_bytes)
        raise AnswerInvalid(f"{self._shown} answered in an encoding that nobody asked for: {named[:40]}")


def _without_secrets(url: str) -> str:
    """A user's name and password, and whatever stands in the query, are not for error messages."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
