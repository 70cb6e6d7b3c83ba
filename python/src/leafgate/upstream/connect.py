"""The transport to one server: streams for the SDK's client, and an event at their end.

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
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, TextIO

import anyio
import anyio.lowlevel
import httpx2
from anyio import to_thread
from mcp import StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from leafgate.ports import Intake
from leafgate.upstream import HttpServer, ServerSpec, StdioServer
from leafgate.upstream.child import ServerEnd, child_streams
from leafgate.upstream.raw_session import ProgressRoutes
from leafgate.upstream.receive import MAX_SSE_EVENT, BoundedClient, BoundedStream, note_status

log = logging.getLogger("leafgate.upstream")

Streams = tuple[Any, Any]


@asynccontextmanager
async def open_streams(
    spec: ServerSpec, ended: anyio.Event, intake: Intake | None, end: ServerEnd, routes: ProgressRoutes
) -> AsyncIterator[Streams]:
    """The streams of a connection. `ended` is set at its end, and `end` says what is known of a process then; messages
    are read only while `intake` has space. Progress is passed on by `routes`."""
    async with _stderr_to_log(spec.name, end) as errlog, _transport(spec, errlog, end, intake) as (read, write):
        yield BoundedStream(read, ended, intake, routes, is_http=isinstance(spec.reach, HttpServer)), write


def _transport(
    spec: ServerSpec, errlog: TextIO, end: ServerEnd, intake: Intake | None
) -> AbstractAsyncContextManager[Streams]:
    reach = spec.reach
    if isinstance(reach, StdioServer) and sys.platform != "win32":
        return child_streams(reach, errlog, end, intake)
    if isinstance(reach, StdioServer):
        params = StdioServerParameters(command=reach.command, args=[*reach.args], env=dict(reach.env), cwd=reach.cwd)
        return stdio_client(params, errlog=errlog)
    if reach.transport == "sse":
        return sse_client(reach.url, headers=dict(reach.headers), httpx_client_factory=partial(_make_client, intake))
    return _streamable(reach, intake)


@asynccontextmanager
async def _streamable(reach: HttpServer, intake: Intake | None) -> AsyncIterator[Streams]:
    timeout = httpx2.Timeout(30.0, read=300.0)
    hooks = {"response": [note_status]}
    async with (
        BoundedClient(intake, headers=dict(reach.headers), timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(reach.url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams


def _make_client(
    intake: Intake | None,
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    return BoundedClient(intake, MAX_SSE_EVENT, headers=headers, timeout=timeout, auth=auth)


STDERR_LINE: Final = 2_000  # bytes of a line that are read
MOST_LINES: Final = 200  # of one server that are logged in a second
LAST_LINE_SECONDS: Final = 0.5
# A server that writes more than so many bytes in a second is read with pauses: 64 KiB, then the next pause.
FREE_STDERR: Final = 1024 * 1024
STDERR_PAUSE: Final = 0.002
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
                time.sleep(lines.feed(chunk))
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
        self._read = (0.0, 0)  # likewise, and the bytes that were read in it
        self._dropped = 0
        self._node_error = ""

    def feed(self, chunk: bytes) -> float:
        """Take a chunk; return the seconds to wait before the next one is read."""
        *ends, rest = chunk.split(b"\n", MOST_LINES)
        if b"\n" in rest:  # a flood: the lines in between are not worth a look
            between, _, rest = rest.rpartition(b"\n")
            ends.append(between[between.rfind(b"\n") + 1 :])
        for part in ends:
            self._take((self._rest + part)[:STDERR_LINE])
            self._rest = b""
        self._rest = (self._rest + rest)[:STDERR_LINE]
        self._dropped += chunk.count(b"\n") - len(ends)
        start, size = self._read
        now = self._clock()
        self._read = (start, size + len(chunk)) if now - start < 1 else (now, len(chunk))
        return STDERR_PAUSE if self._read[1] > FREE_STDERR else 0.0

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
