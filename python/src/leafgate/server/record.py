"""Writes what passes between clients and the gateway into a file, for `leafgate context`. In: MCP requests. Out: lines.

Touches the clock and one file, from a thread of its own: the event loop only hands messages over, and drops them (with
a note in the file) where the disk is slower than the clients. What was asked is redacted, answers have been through the
firewall, and headers are never seen here. The file is its owner's alone.
"""

from __future__ import annotations

import io
import json
import logging
import os
import queue
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from pydantic import BaseModel, ValidationError

from leafgate.model.errors import ConfigError

log = logging.getLogger("leafgate.server")

MOST_WAITING: Final = 1_000
MOST_BYTES: Final = 1 << 30
CLOSING_SECONDS: Final = 5.0
INTERNAL_ERROR: Final = -32603
INVALID_PARAMS: Final = -32602

WritableFile = io.RawIOBase | BinaryIO
Redact = Callable[[Any], Any]
Line = dict[str, Any]


class Recorder:
    """A middleware of the MCP server. It sees every request of every transport, and the answer as it leaves."""

    def __init__(self, file: WritableFile, redact: Redact, *, most_bytes: int = MOST_BYTES) -> None:
        self._file = file
        self._redact = redact
        self._room = most_bytes
        self._waiting: queue.Queue[Line | None] = queue.Queue(MOST_WAITING)
        self._exchanges = count(time.time_ns() // 1000)  # several runs may be appended to one file
        self._dropped = 0  # only the loop counts here, only the writer below: so neither needs a lock
        self._told = 0
        self._writer = threading.Thread(target=self._write_all, name="recorder", daemon=True)
        self._writer.start()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        exchange = next(self._exchanges)
        asked: Line = {"jsonrpc": "2.0", "method": ctx.method}
        asked |= {} if ctx.request_id is None else {"id": ctx.request_id}
        asked |= {} if ctx.params is None else {"params": ctx.params}
        self._hand_over(exchange, "in", asked)
        if ctx.request_id is None:
            return await call_next(ctx)
        answer: Line = {"jsonrpc": "2.0", "id": ctx.request_id}
        try:
            result = await call_next(ctx)
        except MCPError as error:
            self._hand_over(exchange, "out", answer | {"error": {"code": error.code, "message": error.message}})
            raise
        except Exception as error:
            code = INVALID_PARAMS if isinstance(error, ValidationError) else INTERNAL_ERROR
            self._hand_over(exchange, "out", answer | {"error": {"code": code, "message": type(error).__name__}})
            raise
        self._hand_over(exchange, "out", answer | {"result": result})
        return result

    def close(self) -> None:
        """Waits, a bounded time, until everything is on the disk."""
        try:
            self._waiting.put(None, timeout=CLOSING_SECONDS)
        except queue.Full:
            return
        self._writer.join(CLOSING_SECONDS)

    def _hand_over(self, exchange: int, direction: str, message: Line) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            self._waiting.put_nowait({"time": now, "direction": direction, "exchange": exchange, "message": message})
        except queue.Full:
            self._dropped += 1

    def _write_all(self) -> None:
        try:
            while (line := self._waiting.get()) is not None:
                if self._room > 0:
                    self._write_or_tell(line)
            self._tell_dropped()
        except OSError as error:
            log.error("the recording ends here: %s", error.strerror)
            self._drain()
        except ValueError:  # closed by a gateway that would not wait any longer
            log.error("the recording ends here: the disk did not keep up")

    def _write_or_tell(self, line: Line) -> None:
        """One message that cannot be written (nested too deeply, no JSON) does not end the recording."""
        try:
            self._write(line)
        except OSError:
            raise
        except Exception as error:
            self._put({"recorder": f"a message could not be written: {type(error).__name__}"})

    def _write(self, line: Line) -> None:
        self._tell_dropped()
        if line["direction"] == "in":
            line = {**line, "message": self._redact(line["message"])}
        self._put(line)
        if self._room <= 0:
            self._put({"recorder": "the recording ends here: the file has reached its limit"})

    def _tell_dropped(self) -> None:
        more = self._dropped - self._told
        if more:
            self._told += more
            self._put({"recorder": f"{more} messages were dropped: the disk was too slow"})

    def _put(self, line: Line) -> None:
        written = json.dumps(line, separators=(",", ":"), allow_nan=False, default=_plain).encode() + b"\n"
        self._room -= len(written)
        while written:  # a disk that is nearly full takes a part
            written = written[self._file.write(written) :]

    def _drain(self) -> None:
        while self._waiting.get() is not None:
            pass


@contextmanager
def recording(path: Path, redact: Redact) -> Iterator[Recorder]:
    """A recorder that appends to this file. ConfigError where the file cannot be had."""
    with _own_file(path) as file:
        recorder = Recorder(file, redact)
        try:
            yield recorder
        finally:
            recorder.close()


def _own_file(path: Path) -> io.FileIO:
    """The file, for its owner alone, and no other file that a link might lead to.

    It is not buffered: a line is on the disk when it is written, and nothing is left to fail when the file is closed.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot record into {path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ConfigError(f"cannot record into {path}: it is no regular file")
    os.fchmod(handle, 0o600)
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":  # an earlier run was cut off within a line
        os.write(handle, b"\n")
    return io.FileIO(handle, "ab")


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dict(value) if isinstance(value, Mapping) else str(value)
