"""Pages of a table. In: a table and a selector with columns, conditions and a range. Out: a View. Pure.

Rows are counted from 1, among those that fulfil the conditions; they are written as CSV, whatever the table was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from leafgate.firewall.fit import cut_line
from leafgate.firewall.page import Limit, View
from leafgate.firewall.selectors import Condition, Selector, view_failed
from leafgate.firewall.tables import Row, Table, as_number, cell, csv_line

_FIRST_GUESS: Final = 16
_CHARS_PER_TOKEN: Final = 16
_BORDER: Final = re.compile(r"[\s,][^\s,]*\Z")
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def read_rows(selector: Selector, table: Table, limit: Limit) -> View:
    """A page of rows, under a line with the names of their columns."""
    chosen = _places(table, selector.columns) if selector.columns else list(range(len(table.columns)))
    rows = _matching(table, selector.where or ())
    header = csv_line(table.columns[at] for at in chosen)
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
        if len({table.columns[at] for at in chosen}) < len(chosen):
            return csv_line(row[at] if at < len(row) else None for at in chosen)
        named = {table.columns[at]: row[at] if at < len(row) else None for at in chosen}
        return csv_line(limit.cleaner.json(named).value.values())  # a column's name tells whether a cell is a secret

    def after(last: int) -> Selector | None:
        end = None if window is None else min(last + window, total)
        return selector.at(start=last + 1, end=end, offset=None) if last < total else None

    first = line(start)[selector.offset or 0 :]

    def render(taken: int) -> View:
        last = start + taken - 1
        lines = [first, *(line(number) for number in range(start + 1, last + 1))]
        return View("\n".join([header, *lines]), f"rows {start} to {last} {of}", after(last))

    wanted = total - start + 1 if window is None else min(window, total - start + 1)
    taken = limit.fullest(render, min(wanted, limit.budget), _FIRST_GUESS)
    if taken:
        return render(taken)
    offset = selector.offset or 0
    text = first[: limit.budget * _CHARS_PER_TOKEN]

    def piece(size: int) -> View:
        shown = f"row {start} {of}, characters {offset} to {offset + size} of {offset + len(first)}"
        go_on = selector.at(start=start, offset=offset + size) if size < len(first) else after(start)
        return View(text[:size], shown, go_on)

    size = limit.fullest(piece, len(text), limit.budget * 2) or 1
    border = _BORDER.search(text, int(size * 0.8), size)
    return piece(border.start() + 1 if border is not None and size < len(first) else size)


def _places(table: Table, names: Sequence[str]) -> list[int]:
    return [_place(table, name) for name in names]


def _place(table: Table, name: str) -> int:
    folded = [column.casefold() for column in table.columns]
    if name not in table.columns and name.casefold() not in folded:
        known = ", ".join(cut_line(column, 40) for column in table.columns[:20])
        view_failed(f"there is no column {cut_line(name, 60)!r}; there are {known}")
    return table.columns.index(name) if name in table.columns else folded.index(name.casefold())


def _matching(table: Table, conditions: Sequence[Condition]) -> Sequence[Row]:
    rows = table.rows
    for condition in conditions:
        at = _place(table, condition.column)
        rows = [row for row in rows if _fulfils(row[at] if at < len(row) else None, condition)]
    return rows


def _fulfils(value: Any, condition: Condition) -> bool:
    """Numbers compare as numbers where both sides are; everything else as text."""
    if condition.op == "contains":
        return cell(condition.value).casefold() in cell(value).casefold()
    one, other = as_number(value), as_number(condition.value)
    if one is not None and other is not None:
        return _ORDERS[condition.op](one, other)
    if condition.op not in ("=", "!=") and (value is None or value == ""):
        return False
    return _ORDERS[condition.op](cell(value), cell(condition.value))
