"""Opens the transport to one server. In: a ServerSpec. Out: streams for the SDK's client, and word when they end.

Touches processes and the network. A child's stderr goes to the log, prefixed with the server's name.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TextIO

import anyio
import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from leafgate.upstream.child import child_streams
from leafgate.upstream.server_spec import HttpServer, ServerSpec, StdioServer

log = logging.getLogger("leafgate.upstream")

Streams = tuple[Any, Any]


@dataclass
class Refusal:
    """The HTTP status that a request was refused with, which the SDK keeps to itself."""

    status: int | None = None


# Of the request under way in this task. The SDK sends a message in the context of the task that said it, so that each
# request sees its own refusal, however many there are at once.
_REFUSAL: Final[ContextVar[Refusal | None]] = ContextVar("refusal", default=None)


@contextmanager
def noting_refusal() -> Iterator[Refusal]:
    """What is requested inside this context leaves its refusal here."""
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
    spec: ServerSpec, ended: anyio.Event, may_read: Callable[[], Awaitable[None]]
) -> AsyncIterator[Streams]:
    """The read and write stream of a connection, whose end is told. `may_read` is waited for before each message."""
    with _stderr_to_log(spec.name) as errlog:
        async with _transport(spec, errlog) as (read, write):
            yield _Watched(read, ended, may_read), write


def _transport(spec: ServerSpec, errlog: TextIO) -> AbstractAsyncContextManager[Streams]:
    reach = spec.reach
    if isinstance(reach, StdioServer) and sys.platform != "win32":
        return child_streams(reach, errlog)
    if isinstance(reach, StdioServer):
        params = StdioServerParameters(command=reach.command, args=[*reach.args], env=dict(reach.env), cwd=reach.cwd)
        return stdio_client(params, errlog=errlog)
    if reach.transport == "sse":
        return sse_client(reach.url, headers=dict(reach.headers))
    return _streamable(reach)


@asynccontextmanager
async def _streamable(reach: HttpServer) -> AsyncIterator[Streams]:
    timeout = httpx2.Timeout(30.0, read=300.0)
    hooks = {"response": [_note_status]}
    async with (
        httpx2.AsyncClient(headers=dict(reach.headers), timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(reach.url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams


class _Watched:
    """A read stream that waits its turn, and tells when it is over, which the SDK's client keeps to itself."""

    def __init__(self, inner: Any, ended: anyio.Event, may_read: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._ended = ended
        self._may_read = may_read

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        await self._may_read()
        try:
            return await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended.set()
            raise

    async def aclose(self) -> None:
        self._ended.set()
        await self._inner.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Watched:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


@contextmanager
def _stderr_to_log(name: str) -> Iterator[TextIO]:
    """A file that a child can write to, whose lines become log records."""
    reader, writer = os.pipe()

    def pump() -> None:
        with os.fdopen(reader, "r", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                log.info("[%s] %s", name, line.rstrip()[:2000])

    thread = threading.Thread(target=pump, name=f"stderr-{name}", daemon=True)
    thread.start()
    with os.fdopen(writer, "w", encoding="utf-8") as errlog:
        yield errlog
