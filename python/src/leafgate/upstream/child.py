"""A child process that speaks MCP on its standard input and output. In: a StdioServer. Out: two streams of messages.

Touches processes. It stands in the place of the SDK's transport, which reads a line in the square of its length (100 MB
took 90 s, with everybody waiting) and ends at the first byte that is not UTF-8. Here a line costs its length, a line
that is no message is passed over, and one beyond any use is not kept in memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple, Self, TextIO

import anyio
import pydantic_core
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    jsonrpc_message_adapter,
)

from leafgate.upstream.classify import SaidByServer
from leafgate.upstream.server_spec import StdioServer

log = logging.getLogger("leafgate.upstream")

MAX_LINE: Final = 256 * 1024 * 1024
GRACE_SECONDS: Final = 1.0  # for each step; a client gives us two seconds to end, and two more after SIGTERM
POLL_SECONDS: Final = 0.01

CHUNK: Final = 65_536

_GONE: Final = (OSError, RuntimeError)  # the faster event loop has the latter for a pipe that was closed


@asynccontextmanager
async def child_streams(reach: StdioServer, errlog: TextIO) -> AsyncIterator[tuple[Any, Any]]:
    """Starts the command; at the end of the context it and its children are stopped, first gently."""
    process = _started(reach, errlog)
    with anyio.CancelScope(shield=True):  # it takes no time
        pipes = await _connected(process)
    heard, said = _Heard(pipes.stdout), _Said(pipes)
    try:
        yield heard, said
    finally:
        said.is_closed = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                # It is read on, so that the child can finish writing and end.
                group.start_soon(_read_on, pipes.stdout)
                await _stop(process, pipes)
                group.cancel_scope.cancel()


def _started(reach: StdioServer, errlog: TextIO) -> subprocess.Popen[bytes]:
    """Not by the event loop: the faster one gives a child sockets for pipes, and copies that it cannot close."""
    return subprocess.Popen(
        [reach.command, *reach.args],
        env={**get_default_environment(), **reach.env},
        cwd=reach.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errlog,
        start_new_session=True,
    )


class _Pipes(NamedTuple):
    """Our ends. `hearing` is what closes that of its stdout."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    hearing: asyncio.BaseTransport


async def _connected(process: subprocess.Popen[bytes]) -> _Pipes:
    loop = asyncio.get_running_loop()
    stdout, silent = asyncio.StreamReader(), asyncio.StreamReader()
    hearing, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), process.stdout)
    told, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(silent), process.stdin)
    return _Pipes(asyncio.StreamWriter(told, protocol, silent, loop), stdout, hearing)


class _Stream:
    """What the SDK does with both streams alike."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """The child is told by the end of its context."""


class _Heard(_Stream):
    """What the child says, message by message. Whoever asks for one reads it: a call waits for no task in between."""

    def __init__(self, stdout: asyncio.StreamReader) -> None:
        self._messages = _messages(stdout)

    def __aiter__(self) -> AsyncIterator[SessionMessage]:
        return self._messages

    async def __anext__(self) -> SessionMessage:
        return await anext(self._messages)

    async def receive(self) -> SessionMessage:
        try:
            return await anext(self._messages)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None


class _Said(_Stream):
    """What the child is told. A line is written whole or not at all, whoever is cancelled meanwhile.

    One after another: else all who wait for a child that reads too little would write at once when it reads again.
    """

    def __init__(self, pipes: _Pipes) -> None:
        self._pipes = pipes
        self._turn = asyncio.Lock()
        self.is_closed = False

    async def send(self, item: SessionMessage) -> None:
        if self.is_closed:
            raise anyio.ClosedResourceError
        stdin = self._pipes.stdin
        try:
            async with self._turn:
                await stdin.drain()  # returns at once, unless the child has read too little for too long
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(line.encode() + b"\n")
        except _GONE:
            # A child that hears nothing has ended the connection, whether it lives or not.
            self._pipes.hearing.close()
            raise anyio.BrokenResourceError from None


async def _read_on(stdout: asyncio.StreamReader) -> None:
    with suppress(*_GONE):  # also where somebody still waits for a message, and reads on by that
        while await stdout.read(CHUNK):
            pass


async def _messages(stdout: asyncio.StreamReader) -> AsyncIterator[SessionMessage]:
    async for line in _lines(stdout):
        message = _message(line)
        if message is not None:
            yield message
        elif line.strip():
            log.debug("a line on a server's stdout is no message: %r", line[:200])
        del line, message  # they may be large, and the next ones may be long in coming


def _message(line: bytes) -> SessionMessage | None:
    try:
        # Read first, then judged: read as each kind of message in turn, a long list of ids costs three times as much.
        message = jsonrpc_message_adapter.validate_python(pydantic_core.from_json(line), by_name=False)
    except ValueError:
        return _wrong_answer(line)
    if isinstance(message, JSONRPCError) and message.error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
        marked = message.error.model_copy(update={"data": SaidByServer(message.error.data)})
        message = message.model_copy(update={"error": marked})
    return SessionMessage(message)


def _wrong_answer(line: bytes) -> SessionMessage | None:
    """A malformed answer that says whose it is becomes an error, so that its caller need not wait for nothing."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or "method" in said or type(said.get("id")) not in (int, str):
        return None
    error = ErrorData(code=INTERNAL_ERROR, message="the answer is malformed")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=said["id"], error=error))


async def _lines(stdout: asyncio.StreamReader) -> AsyncIterator[bytes]:
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = await stdout.read(CHUNK)
        except OSError:
            return
        if not chunk:
            return
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if size + len(end) <= MAX_LINE:
                parts.append(end)
                line = b"".join(parts)
                parts = []
                yield line
                del line
            else:
                log.warning("a line of %d bytes on a server's stdout is too long and was passed over", size + len(end))
            parts, size = [], 0
        size += len(rest)
        if size <= MAX_LINE:
            parts.append(rest)
        else:
            parts = []


async def _stop(process: subprocess.Popen[bytes], pipes: _Pipes) -> None:
    """Closes its input, which is how a server is told to end; then by signals, to it and its children."""
    with suppress(*_GONE):
        pipes.stdin.close()
    for harder in (signal.SIGTERM, signal.SIGKILL):
        if await _ended(process):
            break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, harder)
    if not await _ended(process):
        log.warning("process %d does not end, and is left alone", process.pid)
    # A grandchild may hold the pipes open, and not read what is left to say.
    if pipes.stdin.transport.get_write_buffer_size():
        pipes.stdin.transport.abort()
    pipes.hearing.close()


async def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Looks at the process, not at its pipes, which a grandchild may hold open."""
    with anyio.move_on_after(GRACE_SECONDS):
        while process.poll() is None:  # noqa: ASYNC110  nobody tells of its end
            await anyio.sleep(POLL_SECONDS)
    return process.poll() is not None
