"""Records the messages between clients and the gateway into a file, for `leafgate context`.

A separate thread writes the file: the event loop only hands messages over, and drops them, with a note in the file,
where the disk is slower than the clients. Requests are redacted, answers have been through the firewall, and headers
are not recorded. Only the owner of the file can read it.
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
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import BaseModel, ValidationError

from leafgate.model.errors import ConfigError

log = logging.getLogger("leafgate.server")

MOST_WAITING: Final = 1_000
MOST_BYTES: Final = 1 << 30
CLOSING_SECONDS: Final = 5.0

WritableFile = io.RawIOBase | BinaryIO
Redact = Callable[[Any], Any]
Line = dict[str, Any]


class SessionRecorder:
    """A middleware of the MCP server. It sees every request of every transport, and the answer as it leaves."""

    def __init__(self, file: WritableFile, redact: Redact, *, most_bytes: int = MOST_BYTES) -> None:
        self._file = file
        self._redact = redact
        self._room = most_bytes
        self._waiting: queue.Queue[Line | None] = queue.Queue(MOST_WAITING)
        self._exchanges = count(time.time_ns() // 1000)  # several runs may be appended to one file
        self._dropped = 0  # only the loop counts here, only the writer below: so neither needs a lock
        self._reported = 0
        self._writer = threading.Thread(target=self._write_all, name="recorder", daemon=True)
        self._writer.start()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        exchange = next(self._exchanges)
        question: Line = {"jsonrpc": "2.0", "method": ctx.method}
        question |= {} if ctx.request_id is None else {"id": ctx.request_id}
        question |= {} if ctx.params is None else {"params": ctx.params}
        self._hand_over(exchange, "in", question)
        if ctx.request_id is None:
            return await call_next(ctx)
        answer: Line = {}
        try:
            result = await call_next(ctx)
            answer = {"result": result}
            return result
        except MCPError as error:
            answer = {"error": {"code": error.code, "message": error.message}}
            raise
        except Exception as error:
            code = INVALID_PARAMS if isinstance(error, ValidationError) else INTERNAL_ERROR
            answer = {"error": {"code": code, "message": type(error).__name__}}
            raise
        finally:
            if answer:  # a cancelled request has none
                self._hand_over(exchange, "out", {"jsonrpc": "2.0", "id": ctx.request_id} | answer)

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
                    self._write(line)
            self._note_dropped()
        except OSError as error:
            log.error("the recording ends here: %s", error.strerror)
            while self._waiting.get() is not None:
                pass
        except ValueError:  # closed by a gateway that would not wait any longer
            log.error("the recording ends here: the disk did not keep up")

    def _write(self, line: Line) -> None:
        """One message that cannot be written (nested too deeply, no JSON) does not end the recording."""
        try:
            self._note_dropped()
            if line["direction"] == "in":
                line = {**line, "message": self._redact(line["message"])}
            self._put(line)
            if self._room <= 0:
                self._put({"recorder": "the recording ends here: the file has reached its limit"})
        except OSError:
            raise
        except Exception as error:
            self._put({"recorder": f"a message could not be written: {type(error).__name__}"})

    def _note_dropped(self) -> None:
        more = self._dropped - self._reported
        if more:
            self._reported += more
            self._put({"recorder": f"{more} messages were dropped: the disk was too slow"})

    def _put(self, line: Line) -> None:
        data = json.dumps(line, separators=(",", ":"), allow_nan=False, default=_plain).encode() + b"\n"
        self._room -= len(data)
        while data:  # a disk that is nearly full takes a part
            data = data[self._file.write(data) :]


@contextmanager
def recording(path: Path, redact: Redact) -> Iterator[SessionRecorder]:
    """A recorder that appends to this file. ConfigError where the file cannot be had."""
    with _own_file(path) as file, closing(SessionRecorder(file, redact)) as recorder:
        yield recorder


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
        raise ConfigError(f"cannot record into {path}: it is not a regular file")
    os.fchmod(handle, 0o600)
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":  # an earlier run was cut off within a line
        os.write(handle, b"\n")
    return io.FileIO(handle, "ab")


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dict(value) if isinstance(value, Mapping) else str(value)
