"""Pages of lines. In: the bytes of a text and a selector for head, tail or lines. Out: a View. Pure.

A line ends with a line feed. A line that does not fit a page is read in pieces, by an offset in bytes; following `next`
reads every byte once.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from leafgate.firewall.page import Limit, View
from leafgate.firewall.selectors import Selector, view_failed

_FIRST_GUESS: Final = 32
_BYTES_PER_TOKEN: Final = 16  # of a piece that are looked at
_BORDER: Final = re.compile(r"\s\S*\Z")


class Lines:
    """Where the lines of a text stand."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        self.total = len(self._ends) + (bool(data) and not data.endswith(b"\n"))

    def start(self, number: int) -> int:
        """Where the line of this number, counted from 1, begins."""
        return 0 if number == 1 else int(self._ends[number - 2]) + 1

    def end(self, number: int) -> int:
        """Where it ends, its line feed left out."""
        return int(self._ends[number - 1]) if number <= len(self._ends) else len(self._data)

    def number_at(self, place: int) -> int:
        """The number of the line at this place."""
        return int(np.searchsorted(self._ends, place)) + 1

    def text(self, start: int, end: int) -> str:
        return self._data[start:end].decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\r")

    def piece(self, start: int, end: int) -> str:
        """A part of a line, without a character that is cut in two at its end."""
        return self._data[start:end].decode("utf-8", "ignore")


def read_lines(selector: Selector, data: bytes, limit: Limit) -> View:
    """A page of lines."""
    lines = Lines(data)
    if lines.total == 0:
        return View("", "0 lines")
    if selector.type == "tail":
        return _tail(lines, selector.lines, limit)
    start, end = selector.start or 1, selector.end
    if selector.type == "head":
        start, end = 1, selector.lines
    if start > lines.total:
        view_failed(f"the text has {lines.total} lines; line {start} is beyond them")
    offset = min(selector.offset or 0, lines.end(start) - lines.start(start))
    return _page(lines, start, offset, end, limit)


def _page(lines: Lines, start: int, offset: int, end: int | None, limit: Limit) -> View:
    window = None if end is None else end - start + 1
    wanted = min(lines.total, end or lines.total) - start + 1

    def render(taken: int) -> View:
        last = start + taken - 1
        text = lines.text(lines.start(start) + offset, lines.end(last))
        return View(text, f"lines {start} to {last} of {lines.total}", _after(lines, last, window))

    taken = limit.fullest(render, wanted, _FIRST_GUESS)
    return render(taken) if taken else _piece(lines, start, offset, window, limit)


def _after(lines: Lines, last: int, window: int | None) -> Selector | None:
    if last >= lines.total:
        return None
    end = None if window is None else min(last + window, lines.total)
    return Selector("lines", start=last + 1, end=end)


def _piece(lines: Lines, number: int, offset: int, window: int | None, limit: Limit) -> View:
    """As much of one line as fits."""
    begin, end = lines.start(number) + offset, lines.end(number)
    text = lines.piece(begin, min(end, begin + limit.budget * _BYTES_PER_TOKEN))
    if not text:  # an offset inside a character: its rest is skipped
        text = "�" if begin < end else ""
        return View(text, f"line {number} of {lines.total}", _after(lines, number, window))

    def render(taken: int) -> View:
        to = offset + len(text[:taken].encode("utf-8", "replace"))
        shown = f"line {number} of {lines.total}, bytes {offset} to {to} of {end - lines.start(number)}"
        last = None if window is None else min(number + window - 1, lines.total)
        go_on = Selector("lines", start=number, end=last, offset=to)
        if lines.start(number) + to >= end:
            return View(text[:taken], shown, _after(lines, number, window))
        return View(text[:taken], shown, go_on)

    taken = limit.fullest(render, len(text), limit.budget * 2) or 1
    border = _BORDER.search(text, int(taken * 0.8), taken)
    if taken < len(text) and border is not None and border.start() > 0:
        nicer = render(border.start() + 1)
        if limit.fits(nicer):
            return nicer
    return render(taken)


def _tail(lines: Lines, wanted: int | None, limit: Limit) -> View:
    """The last lines; where not all that were wanted fit, `next` reads those before them."""
    most_wanted = min(wanted or lines.total, lines.total)
    earliest = lines.total - most_wanted + 1

    def render(taken: int) -> View:
        first = lines.total - taken + 1
        text = lines.text(lines.start(first), lines.end(lines.total))
        before = Selector("lines", start=earliest, end=first - 1) if wanted and first > earliest else None
        return View(text, f"lines {first} to {lines.total} of {lines.total}", before)

    taken = limit.fullest(render, most_wanted, _FIRST_GUESS)
    if taken:
        return render(taken)
    start, end = lines.start(lines.total), lines.end(lines.total)
    text = lines.text(max(start, end - limit.budget * _BYTES_PER_TOKEN), end).lstrip("�")
    whole = Selector("lines", start=lines.total)

    def ending(size: int) -> View:
        return View(f"…{text[len(text) - size :]}", f"the end of line {lines.total} of {lines.total}; whole", whole)

    return ending(limit.fullest(ending, len(text), limit.budget) or 1)
