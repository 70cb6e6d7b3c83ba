"""What a text is: JSON, a table, a log, prose, or lines; and the alarms of a log.

Detection reads only the beginning and the end of a text, and the brackets of JSON. It has a result for every text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

import re2  # type: ignore[import-untyped]  # it ships no types

from leafgate.digest.outline import NOT_JSON, sample_json
from leafgate.digest.size import count_lines
from leafgate.digest.tables import TableSample, detect_dialect, json_lines, sample_delimited, sample_objects

LOG_LINES: Final = 5
LOG_SHARE: Final = 0.4
FIRST_ALARMS: Final = 12
LAST_ALARMS: Final = 3
MAX_ALARMS: Final = 2_000  # alarms are not counted beyond this number

_HEAD: Final = 8_192  # characters that decide on the kind of a text
_HEAD_LINES: Final = 60  # lines that decide whether a text is a log
_LONG_LINES: Final = 240  # characters on average, from which a text is not read by lines
_SENTENCE_LENGTH: Final = 200  # characters on average, up to which a text is read by sentences
_SENTENCE: Final = re.compile(r"\w[.!?][\"')\]]?\s+[\"'(]?[A-ZÀ-ÞА-Я]")
_STAMPED: Final = re.compile(
    r"\W{0,3}(\d{4}[-/]\d\d[-/]\d\d[T ]|\d\d:\d\d:\d\d|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d|\d{10,13}\b)"
    r"|.{0,60}\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
)
# RE2, because its time grows only with the length of the text
_ALARM: Final = re2.compile(
    rb"(?i)\b(\w*error|\w*exception|traceback|fatal|critical|panic|failed|failure)\b|\b(?:warn|warning)\b"
)


@dataclass(frozen=True)
class Alarms:
    """How many lines report errors and warnings, and the first and last of the errors with their numbers."""

    errors: int
    warnings: int
    samples: tuple[tuple[int, str], ...]
    complete: bool

    def __str__(self) -> str:
        parts = [f"{self.errors} error line{'' if self.errors == 1 else 's'}", f"{self.warnings} warning lines"]
        return ", ".join(parts) + ("" if self.complete else " (in the first of them; not all were counted)")


def looks_like_log(head: str) -> bool:
    """Do the lines begin like those of a log?"""
    lines = [line for line in head.split("\n", _HEAD_LINES)[:_HEAD_LINES] if line.strip()]
    stamped = sum(_STAMPED.match(line[:120]) is not None for line in lines)
    return stamped >= LOG_LINES and stamped >= LOG_SHARE * len(lines)


def find_alarms(text: str, longest: int) -> Alarms:
    """Find the lines of a text that report errors or warnings, each cut to `longest` characters."""
    data = text.encode("utf-8", "replace")
    first: list[tuple[int, str]] = []
    last: list[tuple[int, str]] = []
    counts = {True: 0, False: 0}
    at, number, counted_to = 0, 1, 0
    while sum(counts.values()) < MAX_ALARMS:
        match = _ALARM.search(data, at)
        if match is None:
            break
        is_error = match.group(1) is not None
        start = data.rfind(b"\n", 0, match.start()) + 1
        end = data.find(b"\n", match.end())
        end = len(data) if end < 0 else end
        counts[is_error] += 1
        if is_error:
            number += data.count(b"\n", counted_to, start)
            counted_to = start
            begin = max(start, match.start() - longest // 2) if end - start > 4 * longest else start
            line = data[begin : min(end, begin + 4 * longest)].decode("utf-8", "ignore")[:longest]
            if len(first) < FIRST_ALARMS:
                first.append((number, line))
            else:
                last = [*last[-LAST_ALARMS + 1 :], (number, line)]
        at = end
    return Alarms(counts[True], counts[False], (*first, *last), sum(counts.values()) < MAX_ALARMS)


@dataclass(frozen=True)
class TextShape:
    """What a text is, and as much of its parsed form as a digest needs."""

    kind: Literal["json", "table", "log", "prose", "lines"]
    name: str
    media_type: str = "text/plain"
    value: Any = None
    table: TableSample | None = None


def detect_shape(text: str) -> TextShape:
    """Detect what a text is. A byte order mark and blanks before it do not change the result."""
    if text[:1] == "\ufeff":
        text = text[1:]
    value = sample_json(text)
    if value is not NOT_JSON:
        table = sample_objects(value)
        if table is not None:
            return TextShape("table", "JSON array", "application/json", value, table)
        return TextShape("json", "JSON", "application/json", value)
    records = json_lines(text)
    if records is not None:
        table = sample_objects(records, count_lines(text))
        return TextShape("table" if table else "lines", "JSON lines", "application/x-ndjson", table=table)
    return _detect_lines(text)


def _detect_lines(text: str) -> TextShape:
    head = text[:_HEAD]
    dialect = detect_dialect(text)
    if looks_like_log(head) and not (dialect is not None and dialect.has_header):
        return TextShape("log", "log")
    if dialect is not None:
        return TextShape("table", dialect.form, dialect.media_type, table=sample_delimited(text, dialect))
    sentences = len(_SENTENCE.findall(head))
    has_long_lines = len(head) / (head.count("\n") + 1) > _LONG_LINES
    return TextShape("prose" if has_long_lines or sentences * _SENTENCE_LENGTH > len(head) else "lines", "text")
