"""The log on stderr, as text or JSON, each line with the id of its request.

A line never contains arguments or results. Our own lines contain none; lines of libraries are logged from warnings on
and cut short. In both, configured secrets and everything that looks like a secret are replaced. No request waits for
the reader of the log: lines wait in a bounded queue, and those that do not fit are dropped and counted.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, get_args

from leafgate.clean.redact import redact_text
from leafgate.model.errors import ConfigError
from leafgate.model.request import SERVING
from leafgate.telemetry.counters import label

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

LONGEST: Final = 4_000
LONGEST_FOREIGN: Final = 200
LONGEST_FAILURE: Final = 500  # why a server is down
FRAMES: Final = 20
MOST_REPEATS: Final = 10
REPEATS_SECONDS: Final = 60.0
MOST_KINDS: Final = 1_000
MOST_WAITING: Final = 256 * 1024  # characters of lines that wait for the reader of the log
LAST_LINES_SECONDS: Final = 0.5  # for the lines that still wait when the process ends
# Replacing shorter ones would hide ordinary words.
SHORTEST_SECRET: Final = 6
REDACTED: Final = "[redacted]"
_OURS: Final = "leafgate"
_RETRY_SECONDS: Final = 0.05
_CREDENTIAL: Final = re.compile(
    r"""(?ix)
    (?P<name> authorization | api[-_]?key | [-_]key | token | secret | password | passwd )
    (?P<between> ["']? \s* [:=] \s* \[? )
    (?: "[^"]*" | '[^']*' | (?:(?:bearer|basic|digest|token)\s+)? [^\s,;&"'\]]+ )
    | (?P<cookies> cookie ) (?P<then> ["']? \s* [:=] \s* ) .+
    """
)

# Never shrinks: a server that has left the configuration may still write its last lines.
_secrets: Final[set[str]] = set()


def hide_secrets(secrets: Iterable[str]) -> None:
    """Replace these texts in the log and the status from now on: servers may repeat their credentials."""
    _secrets.update(secret for secret in secrets if len(secret) >= SHORTEST_SECRET)


def setup_logging(level: str = "warning", format: str = "text", stream: TextIO | None = None) -> None:
    """Configure the log of the process: our lines from this level on, those of libraries from warnings on.

    The SDK's client is logged at the level debug only."""
    if level not in get_args(LogLevel):
        raise ConfigError(f"log level: one of {', '.join(get_args(LogLevel))}")
    if format not in get_args(LogFormat):
        raise ConfigError(f"log format: one of {', '.join(get_args(LogFormat))}")
    handler = QueuedLines(stream or sys.stderr)
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    number = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger(_OURS).setLevel(number)
    # It quotes servers: names of events and notifications, media types. What fails is reported by our own lines.
    logging.getLogger("mcp.client").setLevel(logging.WARNING if number <= logging.DEBUG else logging.CRITICAL)


class QueuedLines(logging.Handler):
    """Writes lines to a stream in a thread, so that a stream that is not read blocks nothing else.

    A pipe holds 64 KB: without the queue, a client that starts a gateway on stdio and does not read its stderr stops
    it after that many bytes of log.
    """

    def __init__(self, stream: TextIO, most_waiting: int = MOST_WAITING) -> None:
        super().__init__()
        self._write = _make_writer(stream)
        self._most_waiting = most_waiting
        self._lines: deque[str] = deque()
        self._waiting = 0  # characters
        self._dropped = self._dropped_in_all = 0
        self._change = threading.Condition()
        self._is_writing = False
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """How many lines were dropped since the start."""
        return self._dropped_in_all

    @property
    def waiting(self) -> int:
        """How many characters wait to be written."""
        return self._waiting

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"  # here, where the request of the line is known
        except Exception:
            self.handleError(record)
            return
        with self._change:
            if self._waiting + len(line) > self._most_waiting:
                self._dropped += 1
                self._dropped_in_all += 1
                return
            self._lines.append(line)
            self._waiting += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
                atexit.register(self.flush)
            self._change.notify_all()

    def flush(self) -> None:
        """Wait until every line is written, but not for long: the stream may not be read any more."""
        with self._change:
            self._change.wait_for(lambda: not self._lines and not self._is_writing, LAST_LINES_SECONDS)

    def close(self) -> None:
        self.flush()
        super().close()

    def _run(self) -> None:
        while True:
            with self._change:
                self._is_writing = False
                self._change.notify_all()
                self._change.wait_for(lambda: bool(self._lines))
                text, self._waiting = "".join(self._lines), 0
                self._lines.clear()
                dropped, self._dropped = self._dropped, 0
                self._is_writing = True
            self._write(text)
            if dropped:
                logging.getLogger(f"{_OURS}.log").warning("%d lines of the log were dropped: it was not read", dropped)


def _make_writer(stream: TextIO) -> Callable[[str], None]:
    """A function that writes to a stream; to its file itself where it has one.

    A thread that is blocked in the stream holds its lock, and a process that ends then is aborted by the interpreter.
    """
    try:
        file = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return _without_errors(lambda text: stream.write(text) and stream.flush())

    def write(text: str) -> None:
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        while data:
            try:
                data = data[os.write(file, data) :]
            except BlockingIOError:  # another process that shares the pipe has made it non-blocking, as Node.js does
                time.sleep(_RETRY_SECONDS)

    return _without_errors(write)


def _without_errors(write: Callable[[str], object]) -> Callable[[str], None]:
    def write_if_possible(text: str) -> None:
        with suppress(OSError, ValueError):  # there is no place left to report it
            write(text)

    return write_if_possible


def log_queues() -> list[QueuedLines]:
    """The queues of the process's log, for the metrics."""
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, QueuedLines)]


class Repeats(logging.Filter):
    """Limits equal lines of libraries to MOST_REPEATS a minute, so that a failing client cannot fill the disk."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_ours(record):
            return True
        kind, now = (record.name, record.levelno, str(record.msg)[:LONGEST_FOREIGN]), self._clock()
        since, times = self._seen.get(kind, (now, 0))
        if now - since >= REPEATS_SECONDS:
            omitted = times - MOST_REPEATS
            if omitted > 0:
                record.msg, record.args = f"{message_of(record)} (and {omitted} more)", None
            since, times = now, 0
        if len(self._seen) >= MOST_KINDS:
            self._seen.clear()
        self._seen[kind] = since, times + 1
        return times < MOST_REPEATS


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message; in a request also correlation_id, operation, and principal,
    server and tool where there are any; in the line of a call also its outcome, ms and tokens."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
        }
        served = SERVING.get()
        if served is not None:
            line |= {"correlation_id": served.correlation_id, "operation": served.operation}
            names = {"principal": served.principal, "server": served.server, "tool": served.tool}
            line |= {name: label(value) for name, value in names.items() if value}
        line |= getattr(record, "fields", {})
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line["exception"] = {"type": type(error).__name__, "frames": _frames(error)}
        return json.dumps(line, ensure_ascii=False)


class TextLines(logging.Formatter):
    """`2026-11-18T10:22:48.123+00:00 WARNING leafgate.gateway [3f2a91c0]: …`; an exception follows as its frames,
    without its message."""

    def format(self, record: logging.LogRecord) -> str:
        served = SERVING.get()
        request = "" if served is None else f" [{served.correlation_id}]"
        line = f"{_time_of(record)} {record.levelname} {record.name}{request}: {message_of(record)}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return line
        return "\n".join([line, *(f"  {frame}" for frame in _frames(error)), f"  {type(error).__name__}"])


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def message_of(record: logging.LogRecord) -> str:
    """The message on one line, bounded, with secrets replaced."""
    try:
        message = record.getMessage()
    except Exception:  # a library logged arguments that do not fit the message
        message = str(record.msg)
    return redacted_line(message, LONGEST if _is_ours(record) else LONGEST_FOREIGN)


def redacted_line(text: str, longest: int = LONGEST_FAILURE) -> str:
    """The text on one line of at most `longest` characters, with secrets replaced."""
    # Redacted before it is cut: half a secret is not recognised.
    text = without_secrets(text[: 4 * longest])
    # Without line ends and control characters, which a server may have written.
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == _OURS or record.name.startswith(f"{_OURS}.")


def without_secrets(text: str) -> str:
    """The text with configured secrets, credentials and everything that looks like a secret replaced."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    text = _CREDENTIAL.sub(lambda m: f"{m['name'] or m['cookies']}{m['between'] or m['then']}{REDACTED}", text)
    return redact_text(text).value


def _frames(error: BaseException) -> list[str]:
    """The places in the code. Not the message of the exception, which may quote a server or a client."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    return [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
