"""Logs: whether a text is one, and which of its lines are alarms. In: a text. Out: counts and lines. Pure.

The engine is RE2: its time grows with the text alone, whatever the text is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import re2  # type: ignore[import-untyped]  # it ships no types

LOG_LINES: Final = 5
LOG_SHARE: Final = 0.4
FIRST_ALARMS: Final = 12
LAST_ALARMS: Final = 3
MAX_ALARMS: Final = 2_000  # beyond, "2000 or more" says enough

_LOOKED_AT: Final = 60
_STAMPED: Final = re.compile(
    r"\W{0,3}(\d{4}[-/]\d\d[-/]\d\d[T ]|\d\d:\d\d:\d\d|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d|\d{10,13}\b)"
    r"|.{0,60}\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
)
_ALARM: Final = re2.compile(
    rb"(?i)\b(\w*error|\w*exception|traceback|fatal|critical|panic|failed|failure)\b|\b(?:warn|warning)\b"
)


@dataclass(frozen=True)
class Alarm:
    """A line that tells of trouble."""

    number: int
    line: str
    is_error: bool


@dataclass(frozen=True)
class Alarms:
    """How many lines tell of errors and of warnings, and the first and last of the errors."""

    errors: int
    warnings: int
    shown: tuple[Alarm, ...]
    complete: bool

    def __str__(self) -> str:
        parts = [f"{self.errors} error line{'' if self.errors == 1 else 's'}", f"{self.warnings} warning lines"]
        return ", ".join(parts) + ("" if self.complete else " (in the first of them; not all were counted)")


def looks_like_log(head: str) -> bool:
    """Whether lines begin as those of a log do."""
    lines = [line for line in head.split("\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]
    stamped = sum(_STAMPED.match(line[:120]) is not None for line in lines)
    return stamped >= LOG_LINES and stamped >= LOG_SHARE * len(lines)


def find_alarms(text: str, longest: int) -> Alarms:
    """The lines of a text that tell of trouble; of a very long line, so many characters."""
    data = text.encode("utf-8", "replace")
    first: list[Alarm] = []
    last: list[Alarm] = []
    counts = {True: 0, False: 0}
    at, number, counted_to = 0, 1, 0
    while sum(counts.values()) < MAX_ALARMS:
        found = _ALARM.search(data, at)
        if found is None:
            break
        is_error = found.group(1) is not None
        start = data.rfind(b"\n", 0, found.start()) + 1
        end = data.find(b"\n", found.end())
        end = len(data) if end < 0 else end
        counts[is_error] += 1
        if is_error:
            number += data.count(b"\n", counted_to, start)
            counted_to = start
            begin = max(start, found.start() - longest // 2) if end - start > 4 * longest else start
            line = data[begin : min(end, begin + 4 * longest)].decode("utf-8", "ignore")
            alarm = Alarm(number, line[:longest], is_error)
            if len(first) < FIRST_ALARMS:
                first.append(alarm)
            else:
                last = [*last[-LAST_ALARMS + 1 :], alarm]
        at = end
    return Alarms(counts[True], counts[False], (*first, *last), sum(counts.values()) < MAX_ALARMS)
