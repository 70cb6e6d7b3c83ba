"""What a text is: JSON, a table, a log, prose, or lines. In: a text. Out: a Shape. Pure.

Looks at beginnings and ends only, but for the brackets of JSON; whatever the text is, there is an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from leafgate.firewall.json_sample import NOT_JSON, sample_json
from leafgate.firewall.logs import looks_like_log
from leafgate.firewall.size import count_lines
from leafgate.firewall.tables import TableSample, delimited, json_lines, sample_delimited, sample_objects

Kind = Literal["json", "table", "log", "prose", "lines"]

_LOOK: Final = 8_192
_LONG_LINES: Final = 240  # characters on average, from which a text is not read by lines
_SENTENCE_LENGTH: Final = 200  # characters on average, up to which a text is read by sentences
_SENTENCE: Final = re.compile(r"\w[.!?][\"')\]]?\s+[\"'(]?[A-ZÀ-ÞА-Я]")


@dataclass(frozen=True)
class Shape:
    """What a text is, and as much of its parsed form as a digest needs."""

    kind: Kind
    name: str
    media_type: str = "text/plain"
    value: Any = None
    table: TableSample | None = None


def shape_of(text: str) -> Shape:
    """The shape of a text. A byte order mark and blanks before it do not change what it is."""
    if text[:1] == "\ufeff":
        text = text[1:]
    value = sample_json(text)
    if value is not NOT_JSON:
        table = sample_objects("JSON", value)
        if table is not None:
            return Shape("table", "JSON array", "application/json", value, table)
        return Shape("json", "JSON", "application/json", value)
    records = json_lines(text)
    if records is not None:
        table = sample_objects("JSON lines", records, count_lines(text))
        return Shape("table" if table else "lines", "JSON lines", "application/x-ndjson", table=table)
    return _of_lines(text)


def _of_lines(text: str) -> Shape:
    head = text[:_LOOK]
    dialect = delimited(text)
    if dialect is not None and dialect.has_header:
        return Shape("table", dialect.form, dialect.media_type, table=sample_delimited(text, dialect))
    if looks_like_log(head):
        return Shape("log", "log")
    if dialect is not None:
        return Shape("table", dialect.form, dialect.media_type, table=sample_delimited(text, dialect))
    lines = head.count("\n") + 1
    sentences = len(_SENTENCE.findall(head))
    if len(head) / lines > _LONG_LINES or sentences * _SENTENCE_LENGTH > len(head):
        return Shape("prose", "text")
    return Shape("lines", "text")
