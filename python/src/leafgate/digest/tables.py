"""Tables in texts: CSV, TSV, markdown, JSON lines, JSON arrays of objects.

The first rows decide whether a text is a table. A digest needs only a sample of rows; a view parses them all.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from leafgate.digest.outline import elements, members
from leafgate.digest.size import count_lines

Row = Sequence[Any]

_HEAD: Final = 16_384  # characters that decide
_TAIL: Final = 8_192  # characters of the end that are searched for the last rows
_PARSED_FOR_COUNT: Final = 262_144  # characters up to which rows with quotes are counted by parsing them
_SAMPLE_ROWS: Final = 8  # rows of each end in a sample
_MAX_COLUMNS: Final = 200
_DELIMITERS: Final = {"\t": "TSV", ",": "CSV", ";": "CSV", "|": "CSV"}
_MARKDOWN_RULE: Final = re.compile(r"\s*\|?\s*:?-{1,100}:?\s*(\|\s*:?-{1,100}:?\s*){0,200}\|?\s*")
_NUMBER: Final = re.compile(r"[-+]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][-+]?\d{1,4})?")
_NAME: Final = re.compile(r"[^\W\d][\w .()/%#:+-]{0,60}")
_MEDIA_TYPES: Final = {"CSV": "text/csv", "TSV": "text/tab-separated-values", "markdown": "text/markdown"}


@dataclass(frozen=True)
class Dialect:
    """How a text writes a table."""

    form: str  # CSV, TSV, markdown
    delimiter: str
    has_header: bool

    @property
    def media_type(self) -> str:
        return _MEDIA_TYPES[self.form]


@dataclass(frozen=True)
class TableSample:
    """The columns of a table, the number of its rows, and the first and the last of them."""

    columns: tuple[str, ...]
    rows: int
    exact: bool
    first: tuple[Row, ...]
    last: tuple[Row, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        rows = (*self.first, *self.last)
        return tuple(_column_kind([row[at] for row in rows if at < len(row)]) for at in range(len(self.columns)))


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: Sequence[Row]


def detect_dialect(text: str) -> Dialect | None:
    """Return the dialect of a text that is a table, or None."""
    head = _whole_lines(text, _HEAD)
    lines = [line for line in head.split("\n", 60)[:60] if line.strip()]
    if len(lines) >= 3 and "|" in lines[0] and _MARKDOWN_RULE.fullmatch(lines[1].rstrip("\r")[:2000]):
        return Dialect("markdown", "|", has_header=True) if all("|" in line for line in lines) else None
    for delimiter, form in _DELIMITERS.items():
        if lines and delimiter in lines[0]:
            rows = _parse(head, delimiter, 60)
            if len(text) > len(head) and len(rows) < 60:
                rows = rows[:-1]
            if _is_regular(rows, delimiter):
                return Dialect(form, delimiter, _has_header(rows))
    return None


def sample_delimited(text: str, dialect: Dialect) -> TableSample:
    """Read the columns and both ends of a table."""
    rows = list(islice(_rows(_whole_lines(text, _HEAD), dialect), _SAMPLE_ROWS + 1))
    columns, first = _split_header(rows, dialect)
    tail = text if len(text) <= _TAIL else text[text.find("\n", len(text) - _TAIL) + 1 :]
    last = [row for row in _rows(tail, dialect) if len(row) == len(columns)][-_SAMPLE_ROWS:]
    total, exact = _count_rows(text, dialect)
    total = max(total - dialect.has_header, 0)
    return TableSample(columns, total, exact, tuple(first[:total]), tuple(last[-total:] if total else ()))


def read_delimited(text: str, dialect: Dialect) -> Table:
    columns, rows = _split_header(list(_rows(text, dialect)), dialect)
    return Table(columns, rows)


def sample_objects(value: Any, length: int | None = None) -> TableSample | None:
    """Read a table from an array of flat objects, sampled or whole; return None for any other value."""
    sample = elements(value)
    if sample is None or sample[0] < 3:
        return None
    items = [members(item) for item in sample[1]]
    records = [item[1] for item in items if item is not None]
    if len(records) < len(items) or sum(map(_is_flat, records)) < 0.8 * len(records):
        return None
    columns = _columns(records)
    rows = [tuple(record.get(name) for name in columns) for record in records]
    total = sample[0] if length is None else length
    return TableSample(columns, total, True, tuple(rows[:_SAMPLE_ROWS]), tuple(rows[-_SAMPLE_ROWS:][-total:]))


def table_of_objects(items: Sequence[Any]) -> Table:
    """Return a table of an array of objects; a value that is not an object stands in a separate column."""
    records = [item for item in items if isinstance(item, Mapping)]
    columns = _columns(records)
    rest = () if len(records) == len(items) else ("value",)
    rows = tuple(
        (*(item.get(name) for name in columns), *(None for _ in rest))
        if isinstance(item, Mapping)
        else (*(None for _ in columns), item)
        for item in items
    )
    return Table((*columns, *rest), rows)


def json_lines(text: str) -> list[Any] | None:
    """Return the first and last values of a text with one JSON object per line, or None for any other text."""
    if text[:1] != "{":
        return None
    head = _whole_lines(text, _HEAD).split("\n", 40)[:40]
    tail = text[text.find("\n", max(0, len(text) - _TAIL)) + 1 :].split("\n")[-12:] if len(text) > _HEAD else []
    try:
        values = [json.loads(line) for line in (*head, *tail) if line.strip()]
    except (ValueError, RecursionError):
        return None
    return values if len(values) >= 3 and all(isinstance(item, dict) for item in values) else None


def cell(value: Any) -> str:
    """Write a value as the cell of a row."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda part: f"<{type(part).__name__}>")


def csv_line(row: Iterable[Any]) -> str:
    """Write a row as one line, quoted where necessary."""
    texts = map(cell, row)
    return ",".join(f'"{_escape(text)}"' if any(mark in text for mark in ',"\n\r') else text for text in texts)


def as_number(value: Any) -> float | None:
    """Return the number that a cell holds, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value.strip()[:80]) else None


def _escape(text: str) -> str:
    return text.replace('"', '""').replace("\r", "").replace("\n", "\\n")


def _whole_lines(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    end = text.rfind("\n", 0, size)
    return text[: end + 1] if end > 0 else text[:size]


def _parse(text: str, delimiter: str, limit: int | None = None) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    with suppress(csv.Error):  # a cell beyond the module's limit, or a NUL: the rows before it stay
        rows.extend(row for row in islice(reader, limit) if row)
    return rows


def _rows(text: str, dialect: Dialect) -> Iterator[Row]:
    if dialect.form != "markdown":
        yield from _parse(text, dialect.delimiter)
        return
    for line in text.split("\n"):
        if "|" in line and not _MARKDOWN_RULE.fullmatch(line[:2000]):
            yield [part.strip() for part in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _is_regular(rows: Sequence[Row], delimiter: str) -> bool:
    """Do all rows have the same width, and not merely a comma each, as prose does?"""
    if len(rows) < 3 or not 2 <= len(rows[0]) <= _MAX_COLUMNS or any(len(row) != len(rows[0]) for row in rows):
        return False
    if delimiter == "\t":
        return True
    cells = [part for row in rows for part in row[1:]]
    if sum(part.startswith(" ") for part in cells) > len(cells) / 2:
        return False
    return _has_header(rows) or len(rows[0]) >= 3


def _has_header(rows: Sequence[Row]) -> bool:
    first, rest = rows[0], rows[1:]
    if len(set(first)) < len(first) or any(not _NAME.fullmatch(name.strip()) for name in first):
        return False
    if any(name in {row[at] for row in rest} for at, name in enumerate(first)):
        return False
    has_types = any(_column_kind([row[at] for row in rest]) not in ("text", "empty") for at in range(len(first)))
    return has_types or max(map(len, first)) <= 30


def _split_header(rows: Sequence[Row], dialect: Dialect) -> tuple[tuple[str, ...], Sequence[Row]]:
    if not rows:
        return (), ()
    if dialect.has_header:
        return tuple(str(name).strip() for name in rows[0]), rows[1:]
    return tuple(f"column {at}" for at in range(1, len(rows[0]) + 1)), rows


def _count_rows(text: str, dialect: Dialect) -> tuple[int, bool]:
    """Return the number of rows, including the header, and whether it is exact."""
    if dialect.form == "markdown":
        return max(count_lines(text) - 1, 0), True
    if '"' not in text:
        blank = text.count("\n\n") + text.count("\n\r\n")
        return max(count_lines(text) - blank, 0), "\n\n\n" not in text
    if len(text) <= _PARSED_FOR_COUNT:
        return len(_parse(text, dialect.delimiter)), True
    pieces = text.split('"')  # every second piece is quoted, and its line feeds end no row
    inside = sum(piece.count("\n") for piece in pieces[1::2])
    return max(count_lines(text) - inside, 0), False


def _columns(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    names = dict.fromkeys(name for record in records for name in record)
    return tuple(islice(names, _MAX_COLUMNS))


def _is_flat(record: Mapping[str, Any]) -> bool:
    nested = sum(elements(value) is not None or members(value) is not None for value in record.values())
    return bool(record) and nested <= len(record) / 3


def _column_kind(values: Sequence[Any]) -> str:
    kinds = {_cell_kind(value) for value in values} - {"empty"}
    if not kinds:
        return "empty"
    if kinds <= {"integer", "number"}:
        return "number" if "number" in kinds else "integer"
    return kinds.pop() if len(kinds) == 1 else "text"


def _cell_kind(value: Any) -> str:
    if value is None or value == "":
        return "empty"
    if isinstance(value, bool) or (isinstance(value, str) and value.lower() in ("true", "false")):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) else "number"
    if isinstance(value, str):
        number = _NUMBER.fullmatch(value.strip()[:80])
        return "text" if number is None else "number" if number[2] or number[3] or "." in value else "integer"
    return "nested"
