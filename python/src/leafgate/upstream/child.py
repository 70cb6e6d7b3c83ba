"""A child process that speaks MCP on its standard input and output. In: a StdioServer. Out: two streams of messages.

Touches processes. It stands in the place of the SDK's transport, which reads a line in the square of its length (100 MB
took 90 s, with everybody waiting) and ends at the first byte that is not UTF-8. Here a line costs its length, a line
that is no message is passed over, and one beyond any use is not kept in memory.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TextIO

import anyio
from anyio.abc import ByteReceiveStream, ObjectReceiveStream, ObjectSendStream, Process
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

_GONE: Final = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def child_streams(reach: StdioServer, errlog: TextIO) -> AsyncIterator[tuple[Any, Any]]:
    """Starts the command; at the end of the context it and its children are stopped, first gently."""
    process = await anyio.open_process(
        [reach.command, *reach.args],
        env={**get_default_environment(), **reach.env},
        cwd=reach.cwd,
        stderr=errlog,
        start_new_session=True,
    )
    heard, read = anyio.create_memory_object_stream[SessionMessage](0)
    write, said = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_hear, process, heard)
        group.start_soon(_say, process, said, heard)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                read.close()
                write.close()
                await _stop(process)
            group.cancel_scope.cancel()


async def _hear(process: Process, heard: ObjectSendStream[SessionMessage]) -> None:
    """Passes messages on. When nobody wants them any more it reads on, so that the child can finish writing and end."""
    assert process.stdout is not None
    wanted = True
    async with heard:
        async for message in _messages(process.stdout):
            if wanted:
                try:
                    await heard.send(message)
                except _GONE:
                    wanted = False
            del message


async def _messages(stdout: ByteReceiveStream) -> AsyncIterator[SessionMessage]:
    async for line in _lines(stdout):
        message = _message(line)
        if message is not None:
            yield message
        elif line.strip():
            log.debug("a line on a server's stdout is no message: %r", line[:200])
        del line, message  # they may be large, and the next ones may be long in coming


def _message(line: bytes) -> SessionMessage | None:
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
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


async def _lines(stdout: ByteReceiveStream) -> AsyncIterator[bytes]:
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = await stdout.receive()
        except _GONE:
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


async def _say(
    process: Process, said: ObjectReceiveStream[SessionMessage], heard: ObjectSendStream[SessionMessage]
) -> None:
    assert process.stdin is not None
    try:
        async with said:
            async for each in said:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(line.encode() + b"\n")
    except _GONE:
        await heard.aclose()  # a child that hears nothing has ended the connection, whether it lives or not


async def _stop(process: Process) -> None:
    """Closes its input, which is how a server is told to end; then by signals, to it and its children."""
    assert process.stdin is not None
    with suppress(*_GONE):
        await process.stdin.aclose()
    for harder in (signal.SIGTERM, signal.SIGKILL):
        if await _ended(process):
            break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, harder)
    if not await _ended(process):
        log.warning("process %d does not end, and is left alone", process.pid)
        return
    # A grandchild may hold the pipes open; nothing public closes our ends of them then.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        transport.close()


async def _ended(process: Process) -> bool:
    """Looks at the process, not at its pipes, which a grandchild may hold open."""
    with anyio.move_on_after(GRACE_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110  to wait for the process is to wait for its pipes too
            await anyio.sleep(POLL_SECONDS)
    return process.returncode is not None
