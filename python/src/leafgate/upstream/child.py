"""A child process that speaks MCP on its standard input and output, as two streams of messages.

Replaces the SDK's transport, which reads a line in the square of its length (100 MB took 90 s, blocking all requests)
and ends at the first byte that is not UTF-8. Here the time grows with the length of a line; a line that is not a
message is skipped, and one of more than MAX_LINE bytes is not kept in memory. If a line would be the answer to a
request, that request fails at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from time import thread_time
from typing import Any, Final, NamedTuple, Self, TextIO

import anyio
import anyio.lowlevel
import pydantic_core
from mcp import types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from leafgate.clean.invisibles import replace_surrogates
from leafgate.ports import Intake, Receipt
from leafgate.upstream import StdioServer
from leafgate.upstream.raw_session import (
    MAX_ANSWER,
    MAX_SIGNS,
    SIGNS_FROM,
    TOO_LARGE,
    count_signs,
    find_answer_id,
    mark_server_error,
    refused_answer,
)

log = logging.getLogger("leafgate.upstream")

MAX_LINE: Final = MAX_ANSWER
GRACE_SECONDS: Final = 1.0  # for each step; a client gives a gateway two seconds to end, and two more after SIGTERM
POLL_SECONDS: Final = 0.01

MOST_ANSWERS: Final = 1_000  # to questions of a child that wait until it reads them

CHUNK: Final = 65_536
_CODES_OF_THE_SDK: Final = (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.PARSE_ERROR)
_PIPE_ERRORS: Final = (OSError, RuntimeError)  # uvloop raises the latter for a pipe that was closed


@dataclass
class ServerEnd:
    """How a connection to a child process ended: the exit code, if the process ended by itself, and the last line that
    it wrote to stderr, as it wrote it."""

    exit_code: int | None = None
    last_line: str = ""


@asynccontextmanager
async def child_streams(
    reach: StdioServer, errlog: TextIO, end: ServerEnd | None = None, intake: Intake | None = None
) -> AsyncIterator[tuple[Any, Any]]:
    """Start the command. At the end of the context it and its children are stopped, first without force.

    `end` gets the exit code of a process that ended by itself.
    """
    process = _start(reach, errlog)
    with anyio.CancelScope(shield=True):  # it takes no time
        pipes = await _connect(process)
    outgoing = _Outgoing(pipes)
    try:
        # The messages are read by the task that receives them, without another task in between.
        with nullcontext() if intake is None else intake.receive() as receipt:
            yield _messages(pipes.stdout, receipt), outgoing
    finally:
        outgoing.is_closed = True
        ended_itself = pipes.stdout.at_eof() or process.poll() is not None
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                # Its output is still read, so that the child can finish writing and end.
                group.start_soon(_discard, pipes.stdout)
                was_forced = await _stop(process, pipes)
                group.cancel_scope.cancel()
        if end is not None and ended_itself and not was_forced:
            end.exit_code = process.returncode


def _start(reach: StdioServer, errlog: TextIO) -> subprocess.Popen[bytes]:
    """Not by the event loop: uvloop gives a child sockets for pipes, and copies that the child cannot close."""
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
    """The gateway's ends. `stdout_transport` closes that of stdout."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stdout_transport: asyncio.BaseTransport


async def _connect(process: subprocess.Popen[bytes]) -> _Pipes:
    loop = asyncio.get_running_loop()
    stdout, unused = asyncio.StreamReader(), asyncio.StreamReader()
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), process.stdout)
    writing, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(unused), process.stdin)
    return _Pipes(asyncio.StreamWriter(writing, protocol, unused, loop), stdout, reading)


class _Outgoing:
    """The messages to the child. A line is written whole or not at all, also if its sender is cancelled. Senders write
    one after another: otherwise all that wait for a slow child would write at once when it reads again."""

    def __init__(self, pipes: _Pipes) -> None:
        self._pipes = pipes
        self._turn = asyncio.Lock()
        self._waiting = 0
        self.is_closed = False

    async def send(self, item: SessionMessage) -> None:
        if self.is_closed:
            raise anyio.ClosedResourceError
        if self._waiting >= MOST_ANSWERS and isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            return  # the child asks, and does not read the answers
        stdin = self._pipes.stdin
        self._waiting += 1
        try:
            async with self._turn:
                await stdin.drain()  # returns at once, unless the child has read too little for too long
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(line.encode() + b"\n")
        except _PIPE_ERRORS:
            # A child that does not read has ended the connection, whether the process lives or not.
            self._pipes.stdout_transport.close()
            raise anyio.BrokenResourceError from None
        finally:
            self._waiting -= 1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Do nothing, likewise."""


async def _discard(stdout: asyncio.StreamReader) -> None:
    with suppress(*_PIPE_ERRORS):  # RuntimeError also where another task still waits for a message
        while await stdout.read(CHUNK):
            pass


async def _messages(stdout: asyncio.StreamReader, receipt: Receipt | None) -> AsyncIterator[SessionMessage]:
    async for line in _lines(stdout, receipt):
        started = thread_time()
        message = line.refusal if isinstance(line, _LongLine) else _message(line)
        if receipt is not None and (message is None or _is_charged(line, message)):
            receipt.spend(thread_time() - started)
        if message is not None:
            yield message
        elif not isinstance(line, _LongLine) and line.strip():
            log.debug("a line on a server's stdout is not a message: %r", line[:200])
            await anyio.lowlevel.checkpoint()  # a server may write nothing else
        del line, message  # they may be large, and the next ones may be long in coming


def _is_charged(line: bytes | bytearray | _LongLine, message: SessionMessage) -> bool:
    """Whether a server pays for a message with its allowance of time: not for the usual answer to a request."""
    is_large = isinstance(line, _LongLine) or len(line) >= CHUNK
    return is_large or not isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError)


def _message(line: bytes | bytearray) -> SessionMessage | None:
    if len(line) >= SIGNS_FROM and count_signs(line) > MAX_SIGNS:
        request_id = find_answer_id(line)
        return None if request_id is None else SessionMessage(refused_answer(request_id, TOO_LARGE))
    try:
        # Parsed first, then validated: parsing it as each kind of message in turn takes three times as long.
        message = types.jsonrpc_message_adapter.validate_python(_read_json(line), by_name=False)
    except ValueError:
        return _malformed_answer(line)
    return SessionMessage(mark_server_error(message, _CODES_OF_THE_SDK))


def _read_json(line: bytes | bytearray) -> Any:
    try:
        return pydantic_core.from_json(line)
    except ValueError:
        whole = bytes(line)
        repaired = replace_surrogates(whole)
        if repaired is whole:
            raise
        return pydantic_core.from_json(repaired)


def _malformed_answer(line: bytes | bytearray) -> SessionMessage | None:
    """A malformed answer with the id of a request becomes an error, so that the request does not time out."""
    request_id = find_answer_id(line)
    return None if request_id is None else SessionMessage(refused_answer(request_id))


@dataclass(frozen=True)
class _LongLine:
    """The beginning and the end of a line that is too long."""

    head: bytes
    tail: bytes

    @property
    def refusal(self) -> SessionMessage | None:
        """The error in place of the answer that the line would have been."""
        request_id = find_answer_id(self.head + b" " * 512 + self.tail)
        return None if request_id is None else SessionMessage(refused_answer(request_id, TOO_LARGE))


async def _lines(stdout: asyncio.StreamReader, receipt: Receipt | None) -> AsyncIterator[bytes | bytearray | _LongLine]:
    """The lines. One that comes in several chunks grows in place: to join 500 chunks at its end took 20 ms."""
    line = bytearray()
    size = 0
    head = tail = b""
    while True:
        try:
            chunk = await stdout.read(CHUNK)
        except OSError:
            return
        if not chunk:
            return
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if receipt is not None and size:
                receipt.clear()
            if size + len(end) <= MAX_LINE:
                if line:
                    line += end
                whole, line = line or end, bytearray()
                yield whole
                del whole
            else:
                log.warning("a line of %d bytes on a server's stdout is too long and was skipped", size + len(end))
                yield _LongLine(head, (tail + end)[-CHUNK:])
            line, size = bytearray(), 0
        head = rest if not size else head
        size += len(rest)
        if size <= MAX_LINE:
            line += rest
            if receipt is not None and rest:
                receipt.count(len(rest))
        else:
            line, tail = bytearray(), (tail + rest)[-CHUNK:]
            if receipt is not None:
                receipt.clear()


async def _stop(process: subprocess.Popen[bytes], pipes: _Pipes) -> bool:
    """Close its input, which asks a server to end; then send signals to it and its children. Returns whether it took
    a signal."""
    was_forced = False
    with suppress(*_PIPE_ERRORS):
        pipes.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _has_ended(process):
            break
        was_forced = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
    if not await _has_ended(process):
        log.warning("process %d does not end, and is left alone", process.pid)
    # A grandchild may hold the pipes open without reading what is still to be written.
    if pipes.stdin.transport.get_write_buffer_size():
        pipes.stdin.transport.abort()
    pipes.stdout_transport.close()
    return was_forced


async def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Look at the process, not at its pipes, which a grandchild may hold open."""
    with anyio.move_on_after(GRACE_SECONDS):
        while process.poll() is None:  # noqa: ASYNC110  there is no event for its end
            await anyio.sleep(POLL_SECONDS)
    return process.poll() is not None
