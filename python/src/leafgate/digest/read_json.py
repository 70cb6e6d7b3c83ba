"""Pages of a JSON value and of a table.

A page of a value shows whole members of one array or object. If one member does not fit a page, the next pages read
its own members; `within` says where the reading began, so that a client that follows `next` reads every part once.
Rows of a table count from 1, among those that meet the conditions; they are written as CSV, whatever the table was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from leafgate.digest.instance import write_json
from leafgate.digest.outline import pointer_to
from leafgate.digest.read_lines import PageLimit, View, select_after
from leafgate.digest.selectors import Condition, Selector, view_failed
from leafgate.digest.size import cut_line
from leafgate.digest.tables import Row, Table, as_number, cell, csv_line

_FIRST_GUESS: Final = 8
_LONGEST_POINTER: Final = 300
_LONGEST_STRING: Final = 120  # in an overview with `depth`
_MAX_NAMES: Final = 12  # members that an error lists
_FIRST_ROWS: Final = 16
_CHARS_PER_TOKEN: Final = 16
_BORDER: Final = re.compile(r"[\s,][^\s,]*\Z")
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}

Path = tuple[str | int, ...]


def read_json(selector: Selector, value: Any, limit: PageLimit) -> View:
    """Return a page of the value at the selector's pointer."""
    path = resolve(value, selector.pointer or "", limit.cleaner)
    within = path if selector.within is None else resolve(value, selector.within, limit.cleaner)
    if path[: len(within)] != within:
        within = path
    start = selector.start or 0
    reading = _Reading(value, selector, within, limit)
    length = _length(reading.here(path))
    if start > 0 and start >= length:
        view_failed(f"{_name(path)} has {length} members; {start} is beyond them")
    view = reading.page(path, start, None if selector.end is None else max(selector.end - start, 1))
    while not isinstance(view, View):
        view = reading.page(view, 0, None)
    return view


@dataclass(frozen=True)
class _Reading:
    """The pages of one value, and where the reading began."""

    root: Any
    selector: Selector
    within: Path
    limit: PageLimit

    def here(self, at: Path) -> Any:
        """Return the value at this path, of an object only the members that the selector names."""
        value = _get(self.root, at)
        if isinstance(value, str) and at and isinstance(at[-1], str):  # the name helps to recognise a secret
            value = next(iter(self.limit.cleaner.json({at[-1]: value}).value.values()))
        return self._project(value) if at == self.within else value

    def page(self, at: Path, start: int, window: int | None) -> View | Path:
        """Return the page that begins there, or the path of the member whose own members must be read first."""
        here = self.here(at)
        length = _length(here)
        if not length:
            text = here if isinstance(here, str) else write_json(here)
            whole = View(text, f"{_name(at)}: {_kind(here)}", self._after(at, 0))
            return whole if self.limit.fits(whole) else self._cut(whole)
        available = length - start if window is None else min(window, length - start)

        def render(size: int) -> View:
            following = self._after(at, start + size, window)
            unit = "characters" if isinstance(here, str) else "items" if isinstance(here, list) else "members"
            position = f"{_name(at)}: {unit} {start} to {start + size - 1} of {length}"
            return View(self._text(here, start, size), position, following)

        if isinstance(here, str):
            return render(self.limit.max_units(render, available, self.limit.budget * 2) or 1)
        size = self.limit.max_units(render, min(available, self.limit.budget), _FIRST_GUESS)
        if size:
            return render(size)
        step = start if isinstance(here, list) else list(here)[start]
        inner = here[step]
        longest = min(_LONGEST_POINTER, self.limit.budget)
        is_overview = self.selector.keys is not None or self.selector.depth is not None
        has_pointer = len(pointer_to((*at, step))) + len(pointer_to(self.within)) <= longest
        return (*at, step) if not is_overview and has_pointer and _length(inner) else self._cut(render(1))

    def _cut(self, view: View) -> View:
        """Cut a member that cannot be read in parts: in an overview, or with a name too long for a pointer."""
        size = self.limit.max_units(lambda n: View(view.text[:n] + "…", view.position, view.next), len(view.text), 16)
        return View(view.text[:size] + "…", view.position, view.next)

    def _text(self, here: Any, start: int, size: int) -> str:
        if isinstance(here, str):
            return here[start : start + size]
        if isinstance(here, list):
            return "[" + ",\n".join(self._member(each) for each in here[start : start + size]) + "]"
        items = list(here.items())[start : start + size]
        return "{" + ",\n".join(f"{write_json(key)}:{self._member(inner)}" for key, inner in items) + "}"

    def _project(self, value: Any) -> Any:
        if self.selector.keys is None or not isinstance(value, dict):
            return value
        return {key: value[key] for key in self.selector.keys if key in value}

    def _member(self, value: Any) -> str:
        value = self._project(value) if isinstance(self.here(self.within), list) else value
        return write_json(value if self.selector.depth is None else _overview(value, self.selector.depth))

    def _after(self, at: Path, start: int, window: int | None = None) -> Selector | None:
        """Return the selector of the next page: the rest here, or what follows on the way back to `within`."""
        here = self.here(at)
        while start >= _length(here):
            if at == self.within or not at:
                return None
            at, step = at[:-1], at[-1]
            here = _get(self.root, at)
            start = (step if isinstance(step, int) else list(here).index(step)) + 1
            window = None
        within = None if at == self.within else pointer_to(self.within)
        end = None if window is None else min(start + window, _length(here))
        return replace(self.selector, pointer=pointer_to(at), start=start, end=end, within=within)


def resolve(value: Any, pointer: str, clean: Callable[[str], str]) -> Path:
    """Return the steps of a pointer, or raise VIEW_FAILED with a list of members. Clients send the clean names."""
    path: Path = ()
    here = value
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        step: str | int | None = None
        if isinstance(here, dict):
            step = name if name in here else next((key for key in here if clean(key) == name), None)
        elif isinstance(here, list) and name.lstrip("-").isascii() and name.lstrip("-").isdigit() and len(name) < 16:
            place = int(name) if not name.startswith("-") else len(here) + int(name)
            step = place if 0 <= place < len(here) else None
        if step is None:
            view_failed(f"{_name(path)} has no {cut_line(name, 60)!r}; {_summary(here)}")
        path, here = (*path, step), here[step]
    return path


def _summary(here: Any) -> str:
    if isinstance(here, dict):
        names = ", ".join(cut_line(str(key), 40) for key in list(here)[:_MAX_NAMES])
        return f"it has {len(here)} members: {names}" if here else "it is an empty object"
    return f"it is an array of {len(here)}" if isinstance(here, list) else f"it is a {_kind(here)}"


def _get(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict | str) else 0


def _name(path: Path) -> str:
    return cut_line(pointer_to(path), 120) or "the document"


def _kind(value: Any) -> str:
    return {str: "text", list: "array", dict: "object", bool: "boolean", type(None): "null"}.get(type(value), "number")


def _overview(value: Any, depth: int) -> Any:
    """Return the value with arrays and objects below `depth` replaced by their sizes."""
    if isinstance(value, str):
        return cut_line(value, _LONGEST_STRING)
    if not isinstance(value, list | dict) or not value:
        return value
    if depth == 0:
        return f"[…{len(value)} items]" if isinstance(value, list) else f"{{…{len(value)} members}}"
    if isinstance(value, list):
        return [_overview(each, depth - 1) for each in value]
    return {key: _overview(each, depth - 1) for key, each in value.items()}


# Tables


def read_rows(selector: Selector, table: Table, limit: PageLimit) -> View:
    """Return a page of rows under a line with the names of their columns."""
    columns = [_place(table, name) for name in selector.columns or ()] or list(range(len(table.columns)))
    rows = _matching(table, selector.where or ())
    header = csv_line(table.columns[at] for at in columns)
    total = len(rows)
    of = f"of {total}" if selector.where is None else f"of {total} that match, in {len(table.rows)}"
    if not total:
        return View(header if len(header) < limit.budget else "", f"0 rows {of}")
    start = selector.start or 1
    if start > total:
        view_failed(f"there are {total} rows; row {start} is beyond them")
    window = None if selector.end is None else selector.end - start + 1

    @cache
    def line(number: int) -> str:
        row = rows[number - 1]
        if len({table.columns[at] for at in columns}) < len(columns):
            return csv_line(row[at] if at < len(row) else None for at in columns)
        cells = {table.columns[at]: row[at] if at < len(row) else None for at in columns}
        return csv_line(limit.cleaner.json(cells).value.values())  # the column's name helps to recognise a secret

    first = line(start)[selector.offset or 0 :]

    def render(size: int) -> View:
        last = start + size - 1
        lines = [first, *(line(number) for number in range(start + 1, last + 1))]
        following = select_after(selector, last, window, total)
        return View("\n".join([header, *lines]), f"rows {start} to {last} {of}", following)

    available = total - start + 1 if window is None else min(window, total - start + 1)
    page_rows = limit.max_units(render, min(available, limit.budget), _FIRST_ROWS)
    if page_rows:
        return render(page_rows)
    offset = selector.offset or 0
    text = first[: limit.budget * _CHARS_PER_TOKEN]

    def piece(size: int) -> View:
        position = f"row {start} {of}, characters {offset} to {offset + size} of {offset + len(first)}"
        rest = replace(selector, start=start, offset=offset + size)
        return View(text[:size], position, rest if size < len(first) else select_after(selector, start, window, total))

    return limit.fill(piece, text, len(first), _BORDER)


def _place(table: Table, name: str) -> int:
    folded = [column.casefold() for column in table.columns]
    if name not in table.columns and name.casefold() not in folded:
        names = ", ".join(cut_line(column, 40) for column in table.columns[:20])
        view_failed(f"no column {cut_line(name, 60)!r}; the columns are {names}")
    return table.columns.index(name) if name in table.columns else folded.index(name.casefold())


def _matching(table: Table, conditions: Sequence[Condition]) -> Sequence[Row]:
    rows = table.rows
    for condition in conditions:
        at = _place(table, condition.column)
        rows = [row for row in rows if _fulfils(row[at] if at < len(row) else None, condition)]
    return rows


def _fulfils(value: Any, condition: Condition) -> bool:
    """Does the value meet the condition? Two numbers compare as numbers, other values as text."""
    if condition.op == "contains":
        return cell(condition.value).casefold() in cell(value).casefold()
    one, other = as_number(value), as_number(condition.value)
    if one is not None and other is not None:
        return _ORDERS[condition.op](one, other)
    if condition.op not in ("=", "!=") and (value is None or value == ""):
        return False
    return _ORDERS[condition.op](cell(value), cell(condition.value))
