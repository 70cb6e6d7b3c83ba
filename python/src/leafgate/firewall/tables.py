"""Tables in texts: CSV, TSV, markdown, JSON lines, JSON arrays of objects. In: a text or value. Out: a Table. Pure.

A look at the first rows decides whether a text is a table; a sample of rows is enough for a digest, and all of them are
parsed only for a view.
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

from leafgate.firewall.json_sample import elements, members
from leafgate.firewall.size import count_lines

Row = Sequence[Any]

_LOOK: Final = 16_384  # characters that decide
_ENDS: Final = 8_192  # characters of the end that are looked at for the last rows
_COUNTED: Final = 262_144  # characters up to which rows with quotes are counted by parsing them
_SHOWN: Final = 8  # rows kept of each end
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
    """What a digest says of a table: its columns, how many rows, the first and the last of them."""

    form: str
    columns: tuple[str, ...]
    rows: int
    exact: bool
    first: tuple[Row, ...]
    last: tuple[Row, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        known = (*self.first, *self.last)
        return tuple(_column_kind([row[at] for row in known if at < len(row)]) for at in range(len(self.columns)))


@dataclass(frozen=True)
class Table:
    """A whole table."""

    columns: tuple[str, ...]
    rows: Sequence[Row]


def delimited(text: str) -> Dialect | None:
    """The dialect of a text that is a table, or None."""
    head = _whole_lines(text, _LOOK)
    lines = [line for line in head.split("\n", 60)[:60] if line.strip()]
    if len(lines) >= 3 and "|" in lines[0] and _MARKDOWN_RULE.fullmatch(lines[1].rstrip("\r")[:2000]):
        return Dialect("markdown", "|", has_header=True) if all("|" in line for line in lines) else None
    for delimiter, form in _DELIMITERS.items():
        if lines and delimiter in lines[0]:
            rows = _parse(head, delimiter, 60)
            if len(text) > len(head) and len(rows) < 60:
                rows = rows[:-1]
            if _regular(rows, delimiter):
                return Dialect(form, delimiter, _has_header(rows))
    return None


def sample_delimited(text: str, dialect: Dialect) -> TableSample:
    """The columns and ends of a table."""
    rows = list(islice(_rows(_whole_lines(text, _LOOK), dialect), _SHOWN + 1))
    columns, first = _split_header(rows, dialect)
    tail = text if len(text) <= _ENDS else text[text.find("\n", len(text) - _ENDS) + 1 :]
    last = [row for row in _rows(tail, dialect) if len(row) == len(columns)][-_SHOWN:]
    total, exact = _count_rows(text, dialect)
    total = max(total - dialect.has_header, 0)
    return TableSample(dialect.form, columns, total, exact, tuple(first[:total]), tuple(last[-total:] if total else ()))


def read_delimited(text: str, dialect: Dialect) -> Table:
    """The whole table."""
    columns, rows = _split_header(list(_rows(text, dialect)), dialect)
    return Table(columns, rows)


def sample_objects(form: str, value: Any, length: int | None = None) -> TableSample | None:
    """A table from an array of flat objects, sampled or whole; None for any other value."""
    found = elements(value)
    if found is None or found[0] < 3:
        return None
    known = [members(item) for item in found[1]]
    records = [item[1] for item in known if item is not None]
    if len(records) < len(known) or sum(_is_flat(record) for record in records) < 0.8 * len(records):
        return None
    columns = _columns(records)
    rows = [tuple(record.get(name) for name in columns) for record in records]
    total = found[0] if length is None else length
    return TableSample(form, columns, total, True, tuple(rows[:_SHOWN]), tuple(rows[-_SHOWN:][-total:]))


def table_of_objects(items: Sequence[Any]) -> Table:
    """A whole table from an array of objects; a value that is no object stands in a column of its own."""
    if not items:
        return Table((), ())
    if not any(isinstance(item, Mapping) for item in items):
        return Table(("value",), [(item,) for item in items])
    columns = _columns([item for item in items if isinstance(item, Mapping)])
    rest = () if all(isinstance(item, Mapping) for item in items) else ("value",)
    rows = [
        (*(item.get(name) for name in columns), *(None for _ in rest))
        if isinstance(item, Mapping)
        else (*(None for _ in columns), item)
        for item in items
    ]
    return Table((*columns, *rest), rows)


def json_lines(text: str) -> list[Any] | None:
    """The first and last values of a text with one JSON object per line, or None for any other text."""
    if text[:1] != "{":
        return None
    head = _whole_lines(text, _LOOK).split("\n", 40)[:40]
    tail = text[text.find("\n", max(0, len(text) - _ENDS)) + 1 :].split("\n")[-12:] if len(text) > _LOOK else []
    try:
        found = [json.loads(line) for line in (*head, *tail) if line.strip()]
    except (ValueError, RecursionError):
        return None
    return found if len(found) >= 3 and all(isinstance(item, dict) for item in found) else None


def cell(value: Any) -> str:
    """A value as it stands in a row."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda part: f"<{type(part).__name__}>")


def csv_line(row: Iterable[Any]) -> str:
    """A row as one line, quoted where it must be."""
    return ",".join(_quoted(cell(value)) for value in row)


def as_number(value: Any) -> float | None:
    """The number that a cell holds."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value.strip()[:80]) else None


def _quoted(text: str) -> str:
    if any(mark in text for mark in ',"\n\r'):
        return '"' + text.replace('"', '""').replace("\r", "").replace("\n", "\\n") + '"'
    return text


def _whole_lines(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    end = text.rfind("\n", 0, size)
    return text[: end + 1] if end > 0 else text[:size]


def _parse(text: str, delimiter: str, limit: int | None = None) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    with suppress(csv.Error):  # a cell beyond the module's bound, or a NUL: what was read before it stands
        rows.extend(row for row in islice(reader, limit) if row)
    return rows


def _rows(text: str, dialect: Dialect) -> Iterator[Row]:
    if dialect.form != "markdown":
        yield from _parse(text, dialect.delimiter)
        return
    for line in text.split("\n"):
        if "|" in line and not _MARKDOWN_RULE.fullmatch(line[:2000]):
            yield [part.strip() for part in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _regular(rows: Sequence[Row], delimiter: str) -> bool:
    """Whether rows have the same width all the way, and do not merely hold a comma each as prose does."""
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
    typed = any(_column_kind([row[at] for row in rest]) not in ("text", "empty") for at in range(len(first)))
    return typed or max(map(len, first)) <= 30


def _split_header(rows: Sequence[Row], dialect: Dialect) -> tuple[tuple[str, ...], Sequence[Row]]:
    if not rows:
        return (), ()
    if dialect.has_header:
        return tuple(str(name).strip() for name in rows[0]), rows[1:]
    return tuple(f"column {at}" for at in range(1, len(rows[0]) + 1)), rows


def _count_rows(text: str, dialect: Dialect) -> tuple[int, bool]:
    """The rows of a table, header included, and whether that is certain."""
    if dialect.form == "markdown":
        return max(count_lines(text) - 1, 0), True
    if '"' not in text:
        blank = text.count("\n\n") + text.count("\n\r\n")
        return max(count_lines(text) - blank, 0), "\n\n\n" not in text
    if len(text) <= _COUNTED:
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
