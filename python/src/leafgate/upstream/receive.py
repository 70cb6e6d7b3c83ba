"""Reading what servers send: bounded before the SDK sees it, so that no server costs another (spec 10).

Over HTTP an answer is counted after decompression and refused before it is parsed. Progress is passed on here, and of
other notifications so many a second. An answer that cannot be read becomes an error for the request that it answers,
which would otherwise time out.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import anyio
import anyio.lowlevel
import httpx2
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp.types import REQUEST_TIMEOUT, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic import ValidationError

from leafgate.clean.invisibles import SurrogateFilter
from leafgate.ports import Intake, Receipt
from leafgate.upstream.raw_session import (
    MALFORMED,
    MAX_ANSWER,
    MAX_SIGNS,
    TOO_LARGE,
    ProgressRoutes,
    count_signs,
    find_answer_id,
    mark_server_error,
    refused_answer,
)

# The SDK's client of the older SSE transport ends the connection at an event of 1 MiB.
MAX_SSE_EVENT: Final = 1000 * 1000
# Compressed answers of this size are refused at this ratio. Text has 3 to 30, one line repeated up to 200, and a file
# that is made to fill the memory of its reader 1,000.
BOMB_FROM: Final = 2 * 1024 * 1024
BOMB_RATIO: Final = 300
_EVENT_HEAD: Final = 1_024
_HELD_FROM: Final = 1024 * 1024
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")

# Of log lines and updates of one server so many are passed on in a second; for progress each call has its own limit.
MOST_OF_A_KIND: Final = 200
# What a server pays for a message that the SDK, or a client, gets; and for each byte of a response that is unpacked.
PASSED_SECONDS: Final = 0.0005
UNPACKED_SECONDS: Final = 2.5e-9
# And for each line and each event of an event stream, whatever is in them.
LINE_SECONDS: Final = 2e-6
EVENT_SECONDS: Final = 20e-6
MANY_EVENTS: Final = 32  # in one chunk: then other tasks have their turn after each KiB
LOG_LINE: Final = "notifications/message"
_LIMITED: Final = {LOG_LINE: "log", "notifications/resources/updated": "update"}
_LARGE_CHUNK: Final = 65_536
_SHORT_STEP: Final = 0.001


@dataclass
class Refusal:
    """The HTTP status that a request was refused with, which the SDK does not return; whether we refused its answer."""

    status: int | None = None
    is_too_large: bool = False


# Of the request under way in this task. The SDK sends a message in the context of the task that made the request, so
# each request sees its own refusal, however many there are at once.
_REFUSAL: Final[ContextVar[Refusal | None]] = ContextVar("refusal", default=None)


@contextmanager
def note_refusal() -> Iterator[Refusal]:
    """Note the status that a request inside this context was refused with."""
    refusal = Refusal()
    token = _REFUSAL.set(refusal)
    try:
        yield refusal
    finally:
        _REFUSAL.reset(token)


async def note_status(response: httpx2.Response) -> None:
    refusal = _REFUSAL.get()
    if refusal is not None:
        refusal.status = response.status_code if response.status_code >= 400 else None


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client whose responses have a limited size, and no lone surrogates: the SDK refuses a whole message for
    one of them."""

    def __init__(self, intake: Intake | None, max_event: int = MAX_ANSWER, **options: Any) -> None:
        super().__init__(**options)
        self._intake = intake
        self._max_event = max_event

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        source = await super().send(request, stream=True, **options)
        response = _Response(
            source.status_code,
            headers=source.headers,
            stream=source.stream,
            request=source.request,
            extensions=source.extensions,
            history=source.history,
        )
        response.next_request = source.next_request
        response.intake, response.max_event = self._intake, self._max_event
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response


class _UnreadableAnswer(httpx2.StreamError):
    """An answer that is too large, or does not unpack. The SDK answers the request with an error for it."""


class _Response(httpx2.Response):
    """Counts what was received after it is unpacked, and refuses what is too large before it is parsed."""

    intake: Intake | None = None
    max_event = MAX_ANSWER

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        surrogates = SurrogateFilter()
        is_stream = self.headers.get("content-type", "").lower().startswith("text/event-stream")
        limit = EventLimit(self.max_event, _refuse_answer) if is_stream else None
        size = signs = 0
        with nullcontext() if self.intake is None else self.intake.receive() as receipt:
            async with aclosing(super().aiter_bytes(chunk_size)) as chunks:
                try:
                    async for chunk in chunks:
                        size += len(chunk)
                        ends = 0 if limit is None else limit.ends
                        passed = [chunk] if limit is None else limit.feed(chunk)
                        signs += count_signs(chunk) if limit is None else 0
                        if limit is None and (size > MAX_ANSWER or signs > MAX_SIGNS or self._is_bomb(size)):
                            _refuse_answer()
                            raise _UnreadableAnswer(TOO_LARGE)
                        if receipt is not None:
                            receipt.clear()
                            receipt.count(size if limit is None else limit.size)
                        if limit is not None and receipt is not None:
                            _charge_events(receipt, chunk, limit.ends - ends)
                        if len(chunk) >= _LARGE_CHUNK:  # a few bytes may unpack to many chunks
                            if receipt is not None:
                                receipt.spend(len(chunk) * UNPACKED_SECONDS)
                            await anyio.lowlevel.checkpoint()
                        if receipt is not None:
                            await receipt.wait_for_turn()
                        for piece in _cut(passed, small=limit is not None and limit.ends - ends > MANY_EVENTS):
                            yield surrogates.feed(piece)
                            await anyio.lowlevel.checkpoint()
                except httpx2.DecodingError as error:
                    raise _UnreadableAnswer(MALFORMED) from error
            for piece in [] if limit is None else limit.flush():
                yield surrogates.feed(piece)
            yield surrogates.flush()

    def _is_bomb(self, size: int) -> bool:
        """Whether so many bytes were made of so few that the rest need not be unpacked."""
        return size > BOMB_FROM and size > BOMB_RATIO * self.num_bytes_downloaded


def _cut(pieces: Iterable[bytes], *, small: bool) -> Iterator[bytes]:
    """The pieces; with `small` in smaller ones, because the SDK reads all events of a piece in one step."""
    for piece in pieces:
        if small:
            yield from (piece[place : place + 1024] for place in range(0, len(piece), 1024))
        else:
            yield piece


def _charge_events(receipt: Receipt, chunk: bytes, events: int) -> None:
    """Charge for the lines and events of a chunk. Other tasks have their turn between them."""
    seconds = LINE_SECONDS * (chunk.count(b"\n") + chunk.count(b"\r")) + EVENT_SECONDS * events
    steps = 1 + int(seconds / _SHORT_STEP)
    for _ in range(steps):
        receipt.spend(seconds / steps)


def _refuse_answer() -> None:
    refusal = _REFUSAL.get()
    if refusal is not None:
        refusal.is_too_large = True


class EventLimit:
    """Passes the bytes of an event stream on, except for events that are too large.

    Of such an event the SDK gets the beginning, which is not JSON, and then an error for the request that it would have
    answered. A large event is held back until its end has come: the SDK would make four copies of what it then refuses.
    """

    def __init__(self, limit: int, on_excess: Callable[[], None]) -> None:
        self.size = 0  # of the event that is not complete yet
        self._limit = limit
        self._on_excess = on_excess
        self._head = b""
        self._last = b""  # bytes of the chunk before, which may begin an end
        self._is_skipping = False
        self._signs = 0
        self._held: list[bytes] = []
        self.ends = 0  # of events, so far

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return what is passed on now, in pieces. Raises _UnreadableAnswer for one that contains too many values."""
        signs, before = count_signs(chunk), len(self._last)
        ends = [end.end() - before for end in _EVENT_END.finditer(self._last + chunk) if end.end() > before]
        self._last = (self._last + chunk[-3:])[-3:]
        self.ends += len(ends)
        passed: list[bytes] = []
        if ends:
            if signs > MAX_SIGNS:  # a few packed bytes may unpack to a whole event
                self._on_excess()
                raise _UnreadableAnswer(TOO_LARGE)
            passed = [*self._held, chunk[ends[0] if self._is_skipping else 0 : ends[-1]]]
            self._held.clear()
            self._is_skipping, self.size, self._head, self._signs = False, 0, b"", 0
        if self._is_skipping:
            return passed
        rest = chunk[ends[-1] :] if ends else chunk
        self.size += len(rest)
        self._head = (self._head + rest[:_EVENT_HEAD])[:_EVENT_HEAD]
        self._signs += count_signs(rest) if ends else signs
        if self.size > self._limit or self._signs > MAX_SIGNS:
            self._on_excess()
            self._held.clear()
            self._is_skipping, self.size = True, 0
            return [*passed, self._refusal()]
        if self.size > _HELD_FROM:
            self._held.append(rest)
            return passed
        return [*passed, rest]

    def flush(self) -> list[bytes]:
        """Return what was held back of an event that has no end."""
        return self._held

    def _refusal(self) -> bytes:
        _, brace, members = self._head.partition(b"{")
        request_id = find_answer_id(brace + members + b"}")
        # The end of an event, also if nothing of it was passed on: then it is an empty line.
        error = "" if request_id is None else f"data: {refused_answer(request_id, TOO_LARGE).model_dump_json()}"
        return b"\n\n" + error.encode() + b"\n\n"


class BoundedStream:
    """Waits while `intake` is full, and sets `ended` at the end of the stream, which the SDK does not report.

    Passes progress on itself. Other notifications reach the SDK, which starts two tasks for each: so many a second at
    most.
    """

    def __init__(
        self, inner: Any, ended: anyio.Event, intake: Intake | None, routes: ProgressRoutes, *, is_http: bool
    ) -> None:
        self._inner = inner
        self._ended = ended
        self._intake = intake
        self._routes = routes
        self._is_http = is_http
        self._pace = NotificationPace()

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> BoundedStream:
        return self

    async def __anext__(self) -> Any:
        while True:
            if self._intake is not None and self._intake.is_full:
                await self._intake.wait_for_space()
            try:
                received = await anext(self._inner)
            except (StopAsyncIteration, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._ended.set()
                raise
            if isinstance(received, Exception):
                return _refuse_malformed(received)
            message = received.message
            if isinstance(message, JSONRPCNotification | JSONRPCRequest):
                if await self._may_pass(message):
                    return received
            else:
                answered = self._check_id(message)
                if answered is not None:
                    # The SDK's HTTP transports write errors of their own into the stream, but none with this code.
                    received.message = mark_server_error(answered, (REQUEST_TIMEOUT,))
                    return received

    async def _may_pass(self, message: JSONRPCNotification | JSONRPCRequest) -> bool:
        """Whether the SDK gets a notification or a question. Other tasks have their turn after each of them."""
        await anyio.lowlevel.checkpoint()
        if message.method == "notifications/progress":
            self._routes.take(message.params)
            return False
        if self._pace.is_too_many(message.method):
            if self._intake is not None:
                self._intake.note_dropped(_LIMITED[message.method])
            return False
        if self._intake is not None:
            self._intake.spend(PASSED_SECONDS)
        return True

    def _check_id(self, message: Any) -> Any:
        """The message; None for an answer whose id is a text for a number: the SDK would take "5" for 5.

        Over HTTP a request gets one answer, and no other follows: there it fails.
        """
        is_answer = isinstance(message, JSONRPCResponse | JSONRPCError)
        if not is_answer or not isinstance(message.id, str):
            return message
        number = coerce_request_id(message.id)
        if not isinstance(number, int):
            return message
        return refused_answer(number) if self._is_http else None

    async def __aenter__(self) -> BoundedStream:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._ended.set()
        await self._inner.aclose()


def _refuse_malformed(error: Exception) -> Any:
    """What the SDK gets for a message that it could not read: an error for the request that the message answers.

    Without it the request would wait until it times out.
    """
    content = error.errors(include_url=False)[0].get("input") if isinstance(error, ValidationError) else None
    request_id = None
    if isinstance(content, str | bytes):
        request_id = find_answer_id(content.encode("utf-8", "replace") if isinstance(content, str) else content)
    elif isinstance(content, dict) and type(content.get("id")) is int and "method" not in content:
        request_id = content["id"]
    return error if request_id is None else SessionMessage(refused_answer(request_id))


class NotificationPace:
    """Counts the log lines and updates of one server, by second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second = 0.0
        self._by_method: Counter[str] = Counter()

    def is_too_many(self, method: str) -> bool:
        """Whether as many of this kind were passed on in this second as may be; counts it. Others are all passed on:
        one that is lost would be missed."""
        if method not in _LIMITED:
            return False
        now = self._clock()
        if now - self._second >= 1:
            self._second = now
            self._by_method.clear()
        self._by_method[method] += 1
        return self._by_method[method] > MOST_OF_A_KIND
