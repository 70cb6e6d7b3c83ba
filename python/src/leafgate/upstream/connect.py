"""The transport to one server: streams for the SDK's client, an event at their end, and the HTTP status of a refusal.

The stderr of a child process goes to the log, prefixed with the server's name: a bounded number of lines a second, each
of a bounded length. The last line says why a server ended.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TextIO

import anyio
import httpx2
from anyio import to_thread
from mcp import StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import REQUEST_TIMEOUT

from leafgate.clean.invisibles import SurrogateFilter
from leafgate.ports import Intake
from leafgate.upstream import HttpServer, ServerSpec, StdioServer
from leafgate.upstream.child import ServerEnd, child_streams
from leafgate.upstream.raw_session import mark_server_error

log = logging.getLogger("leafgate.upstream")

Streams = tuple[Any, Any]


@dataclass
class Refusal:
    """The HTTP status that a request was refused with. The SDK does not return it."""

    status: int | None = None


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


async def _note_status(response: httpx2.Response) -> None:
    refusal = _REFUSAL.get()
    if refusal is not None:
        refusal.status = response.status_code if response.status_code >= 400 else None


@asynccontextmanager
async def open_streams(
    spec: ServerSpec, ended: anyio.Event, intake: Intake | None, end: ServerEnd
) -> AsyncIterator[Streams]:
    """The streams of a connection. `ended` is set at its end, and `end` says what is known of a process then; messages
    are read only while `intake` has space."""
    async with _stderr_to_log(spec.name, end) as errlog, _transport(spec, errlog, end) as (read, write):
        yield _ReadStream(read, ended, intake), write


def _transport(spec: ServerSpec, errlog: TextIO, end: ServerEnd) -> AbstractAsyncContextManager[Streams]:
    reach = spec.reach
    if isinstance(reach, StdioServer) and sys.platform != "win32":
        return child_streams(reach, errlog, end)
    if isinstance(reach, StdioServer):
        params = StdioServerParameters(command=reach.command, args=[*reach.args], env=dict(reach.env), cwd=reach.cwd)
        return stdio_client(params, errlog=errlog)
    if reach.transport == "sse":
        return sse_client(reach.url, headers=dict(reach.headers), httpx_client_factory=_make_client)
    return _streamable(reach)


@asynccontextmanager
async def _streamable(reach: HttpServer) -> AsyncIterator[Streams]:
    timeout = httpx2.Timeout(30.0, read=300.0)
    hooks = {"response": [_note_status]}
    async with (
        _HttpClient(headers=dict(reach.headers), timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(reach.url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams


class _HttpClient(httpx2.AsyncClient):
    """An HTTP client whose responses have no lone surrogates: the SDK refuses a whole message for one of them."""

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
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response


class _Response(httpx2.Response):
    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        surrogates = SurrogateFilter()
        async with aclosing(super().aiter_bytes(chunk_size)) as chunks:
            async for chunk in chunks:
                yield surrogates.feed(chunk)
        yield surrogates.flush()


def _make_client(
    headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    return _HttpClient(headers=headers, timeout=timeout, auth=auth)


class _ReadStream:
    """Waits while `intake` is full, and sets `ended` at the end of the stream, which the SDK does not report."""

    def __init__(self, inner: Any, ended: anyio.Event, intake: Intake | None) -> None:
        self._inner = inner
        self._ended = ended
        self._intake = intake

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> _ReadStream:
        return self

    async def __anext__(self) -> Any:
        if self._intake is not None and self._intake.is_full:
            await self._intake.wait_for_space()
        try:
            received = await anext(self._inner)
        except (StopAsyncIteration, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended.set()
            raise
        if isinstance(received, SessionMessage):
            # The SDK's HTTP transports write errors of their own into the stream, but none with this code.
            received.message = mark_server_error(received.message, (REQUEST_TIMEOUT,))
        return received

    async def __aenter__(self) -> _ReadStream:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._ended.set()
        await self._inner.aclose()


STDERR_LINE: Final = 2_000  # bytes of a line that are read
MOST_LINES: Final = 200  # of one server that are logged in a second
LAST_LINE_SECONDS: Final = 0.5
_CHUNK: Final = 65_536
_NODE_VERSION: Final = re.compile(r"Node\.js v[0-9.]+")  # the last line of every Node.js program that crashes
_NODE_ERROR: Final = re.compile(r"\w*Error\b.*")


@asynccontextmanager
async def _stderr_to_log(name: str, end: ServerEnd) -> AsyncIterator[TextIO]:
    """A file that a child can write to, whose lines become log records. At the end `end` has the last line."""
    reader, writer = os.pipe()
    lines = StderrLines(name)

    def pump() -> None:
        with os.fdopen(reader, "rb", buffering=0) as source:
            while chunk := source.read(_CHUNK):
                lines.feed(chunk)
        lines.flush()

    thread = threading.Thread(target=pump, name=f"stderr-{name}", daemon=True)
    thread.start()
    try:
        with os.fdopen(writer, "w", encoding="utf-8") as errlog:
            yield errlog
    finally:
        if end.exit_code is not None:  # its last line may still be in the pipe, which a grandchild may hold open
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(thread.join, LAST_LINE_SECONDS)
        end.last_line = lines.last


class StderrLines:
    """Cuts the bytes of a server's stderr into lines, logs them, and remembers the last one. Memory is bounded, also
    where no line ever ends; of a flood of lines only the last one is looked at."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.last = ""
        self._name = name
        self._clock = clock
        self._rest = b""
        self._second = (0.0, 0)  # the start of the present second, and the lines that were logged in it
        self._dropped = 0
        self._node_error = ""

    def feed(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n", MOST_LINES)
        if b"\n" in rest:  # a flood: the lines in between are not worth a look
            between, _, rest = rest.rpartition(b"\n")
            ends.append(between[between.rfind(b"\n") + 1 :])
        for part in ends:
            self._take((self._rest + part)[:STDERR_LINE])
            self._rest = b""
        self._rest = (self._rest + rest)[:STDERR_LINE]
        self._dropped += chunk.count(b"\n") - len(ends)

    def flush(self) -> None:
        """Take the last line, which may have no end."""
        self._take(self._rest)
        self._rest = b""
        self._report_dropped()

    def _take(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        if not line:
            return
        if _NODE_ERROR.fullmatch(line):
            self._node_error = line
        self.last = self._node_error if _NODE_VERSION.fullmatch(line) and self._node_error else line
        start, times = self._second
        now = self._clock()
        if now - start >= 1:
            start, times = now, 0
            self._report_dropped()
        self._second = start, times + 1
        if times >= MOST_LINES:
            self._dropped += 1
            return
        log.info("[%s] %s", self._name, line)

    def _report_dropped(self) -> None:
        if self._dropped:
            log.info("[%s] … and %d more lines", self._name, self._dropped)
            self._dropped = 0
