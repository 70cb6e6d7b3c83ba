"""The log, for people or for machines. In: log records. Out: lines on stderr, each with the id of its request.

Touches the process's logging. Never a request's arguments or a result: our own lines hold none, other libraries' are
heard from warnings on and cut short, and whatever is known for a secret, or looks like one, is replaced in both.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, get_args

from leafgate.firewall.redact import redact_text
from leafgate.model.errors import ConfigError
from leafgate.model.served import SERVING, Served

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

LONGEST: Final = 4_000
LONGEST_FOREIGN: Final = 200
FRAMES: Final = 20
MOST_REPEATS: Final = 10
REPEATS_SECONDS: Final = 60.0
MOST_KINDS: Final = 1_000
# Shorter ones would blot out words that are none.
SHORTEST_KNOWN: Final = 6
HIDDEN: Final = "[redacted]"
_OURS: Final = "leafgate"
_CREDENTIAL: Final = re.compile(
    r"""(?ix)
    (?P<name> authorization | api[-_]?key | [-_]key | token | secret | password | passwd )
    (?P<between> ["']? \s* [:=] \s* \[? )
    (?: "[^"]*" | '[^']*' | (?:(?:bearer|basic|digest|token)\s+)? [^\s,;&"'\]]+ )
    | (?P<cookies> cookie ) (?P<then> ["']? \s* [:=] \s* ) .+
    """
)


# Grows only: a server that has left the configuration may still write its last lines.
_known: Final[set[str]] = set()


def keep_out(secrets: Iterable[str]) -> None:
    """These texts stand in no line of the log and in no status, from now on: servers repeat their own credentials."""
    _known.update(secret for secret in secrets if len(secret) >= SHORTEST_KNOWN)


def setup_logging(level: str = "warning", format: str = "text", stream: TextIO | None = None) -> None:
    """The process's log from now on: our lines from this level on, those of libraries from warnings on."""
    if level not in get_args(LogLevel):
        raise ConfigError(f"log level: one of {', '.join(get_args(LogLevel))}")
    if format not in get_args(LogFormat):
        raise ConfigError(f"log format: one of {', '.join(get_args(LogFormat))}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    number = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger(_OURS).setLevel(number)


class Repeats(logging.Filter):
    """Libraries' lines of one kind, so many a minute: whoever is refused ten thousand times must not fill the disk."""

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
            left_out = times - MOST_REPEATS
            if left_out > 0:
                record.msg, record.args = f"{said(record)} (and {left_out} more)", None
            since, times = now, 0
        if len(self._seen) >= MOST_KINDS:
            self._seen.clear()
        self._seen[kind] = since, times + 1
        return times < MOST_REPEATS


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message; and of a request its correlation_id, operation, server."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": said(record),
        }
        served = SERVING.get()
        if served is not None:
            line |= _about(served)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line["exception"] = {"type": type(error).__name__, "frames": _frames(error)}
        return json.dumps(line, ensure_ascii=False)


class TextLines(logging.Formatter):
    """`WARNING leafgate.gateway [3f2a91c0]: …`; an exception follows as its frames, without what it said."""

    def format(self, record: logging.LogRecord) -> str:
        served = SERVING.get()
        request = "" if served is None else f" [{served.correlation_id}]"
        line = f"{record.levelname} {record.name}{request}: {said(record)}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return line
        return "\n".join([line, *(f"  {frame}" for frame in _frames(error)), f"  {type(error).__name__}"])


def said(record: logging.LogRecord) -> str:
    """The message, on one line and bounded, with marks where secrets were."""
    try:
        message = record.getMessage()
    except Exception:  # a record whose arguments do not fit its message, from some library
        message = str(record.msg)
    longest = LONGEST if _is_ours(record) else LONGEST_FOREIGN
    # Redacted before it is cut: half a secret is not recognised.
    shown = _on_one_line(without_secrets(message[: 4 * longest]))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == _OURS or record.name.startswith(f"{_OURS}.")


def without_secrets(text: str) -> str:
    """The text with known secrets, credentials and anything that looks like a secret replaced."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return redact_text(_CREDENTIAL.sub(_hidden, text)).text


def _hidden(found: re.Match[str]) -> str:
    return f"{found['name'] or found['cookies']}{found['between'] or found['then']}{HIDDEN}"


def _on_one_line(text: str) -> str:
    """What a server wrote can neither end a line nor steer a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def _about(served: Served) -> dict[str, str]:
    about = {"correlation_id": served.correlation_id, "operation": served.operation}
    return about | ({"server": served.server} if served.server else {})


def _frames(error: BaseException) -> list[str]:
    """Where it happened. What an exception says may be a server's or a client's words, so it is not among them."""
    found = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    return [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in found]
