"""Pages of a text: as many lines, or as many search hits, as fit a budget in tokens.

A page ends with a note: which part it is, and the selector that reads on. Whether a page fits is counted on its final
form, after cleaning and with the note. A line ends with a line feed; a line that does not fit a page is read in pieces,
by an offset in bytes. A client that follows `next` reads every byte once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import re2  # type: ignore[import-untyped]  # it ships no types

from leafgate.clean.cleaner import Cleaner
from leafgate.digest.selectors import Selector, view_failed
from leafgate.digest.size import LONGEST_TOKEN, Count, most

_FIRST_GUESS: Final = 32
_BYTES_PER_TOKEN: Final = 16  # bytes of a line that are considered for a piece, per token of the budget
_BORDER: Final = re.compile(r"\s\S*\Z")
_LINES: Final = Selector("lines")

MAX_HITS: Final = 5_000
_LONGEST: Final = 400  # characters of a line that a search shows
_FIRST_MATCHES: Final = 8
_MEMORY: Final = 8 << 20


@dataclass(frozen=True)
class View:
    """A part of an artifact, its position in the whole, and the selector of the next part; or a single block."""

    text: str
    position: str
    next: Selector | None = None
    block: Mapping[str, Any] | None = None
    encoded: bool = False  # base64, which cleaning would only damage

    def page(self) -> str:
        note = self.position
        if self.next is not None:
            note += f"; next: {json.dumps(self.next.as_json(), ensure_ascii=False, separators=(',', ':'))}"
        return f"{self.text}\n[{note}]" if self.text else f"[{note}]"


@dataclass(frozen=True)
class PageLimit:
    """How many tokens a page may have, and how it is cleaned."""

    count: Count
    cleaner: Cleaner
    budget: int

    def finish(self, view: View) -> str:
        return view.page() if view.encoded else self.cleaner(view.page())

    def fits(self, view: View) -> bool:
        page = view.page()
        return len(page) <= LONGEST_TOKEN * self.budget and self.count(self.finish(view)) <= self.budget

    def max_units(self, render: Callable[[int], View], upper: int, first: int) -> int:
        """Return how many units fit on the page that `render` makes of them. `first`: the number to try first."""
        return most(lambda n: self.fits(render(n)), upper, first)

    def fill(self, render: Callable[[int], View], text: str, whole: int, border: re.Pattern[str]) -> View:
        """Return the page with as many characters of a text as fit, ended at a border if one is near.

        `whole`: the number of characters if nothing had been cut off the text.
        """
        size = self.max_units(render, len(text), self.budget * 2) or 1
        match = border.search(text, int(size * 0.8), size)
        if size < whole and match is not None and match.start() > 0:
            nicer = render(match.start() + 1)
            if self.fits(nicer):
                return nicer
        return render(size)


class Lines:
    """The places of the lines of a text. Numbers count from 1."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        self.total = len(self._ends) + (bool(data) and not data.endswith(b"\n"))

    def start(self, number: int) -> int:
        return 0 if number == 1 else int(self._ends[number - 2]) + 1

    def end(self, number: int) -> int:
        """Return where the line ends, without its line feed."""
        return int(self._ends[number - 1]) if number <= len(self._ends) else len(self._data)

    def number_at(self, place: int) -> int:
        return int(np.searchsorted(self._ends, place)) + 1

    def text(self, start: int, end: int) -> str:
        return self._data[start:end].decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\r")

    def piece(self, start: int, end: int) -> str:
        """Return a part of a line, without a character that is cut in two at its end."""
        return self._data[start:end].decode("utf-8", "ignore")


def read_lines(selector: Selector, data: bytes, limit: PageLimit) -> View:
    """Return a page of lines for a selector of type head, tail or lines."""
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


def _page(lines: Lines, start: int, offset: int, end: int | None, limit: PageLimit) -> View:
    window = None if end is None else end - start + 1
    available = min(lines.total, end or lines.total) - start + 1

    def render(size: int) -> View:
        last = start + size - 1
        text = lines.text(lines.start(start) + offset, lines.end(last))
        return View(text, f"lines {start} to {last} of {lines.total}", select_after(_LINES, last, window, lines.total))

    size = limit.max_units(render, available, _FIRST_GUESS)
    return render(size) if size else _piece(lines, start, offset, window, limit)


def select_after(selector: Selector, last: int, window: int | None, total: int) -> Selector | None:
    """Return the selector of the lines or rows behind the last one of a page, or None at the end."""
    end = None if window is None else min(last + window, total)
    return replace(selector, start=last + 1, end=end, offset=None) if last < total else None


def _piece(lines: Lines, number: int, offset: int, window: int | None, limit: PageLimit) -> View:
    """Return a page with as much of one line as fits."""
    begin, end = lines.start(number) + offset, lines.end(number)
    text = lines.piece(begin, min(end, begin + limit.budget * _BYTES_PER_TOKEN))
    after = select_after(_LINES, number, window, lines.total)
    if not text:  # an offset inside a character: its rest is skipped
        return View("�" if begin < end else "", f"line {number} of {lines.total}", after)

    def render(size: int) -> View:
        to = offset + len(text[:size].encode("utf-8", "replace"))
        position = f"line {number} of {lines.total}, bytes {offset} to {to} of {end - lines.start(number)}"
        last = None if window is None else min(number + window - 1, lines.total)
        rest = Selector("lines", start=number, end=last, offset=to)
        return View(text[:size], position, after if lines.start(number) + to >= end else rest)

    return limit.fill(render, text, len(text), _BORDER)


def _tail(lines: Lines, number: int | None, limit: PageLimit) -> View:
    """Return a page of the last lines. If a requested number of lines does not fit, `next` reads those before them."""
    upper = min(number or lines.total, lines.total)
    earliest = lines.total - upper + 1

    def render(size: int) -> View:
        first = lines.total - size + 1
        text = lines.text(lines.start(first), lines.end(lines.total))
        before = Selector("lines", start=earliest, end=first - 1) if number and first > earliest else None
        return View(text, f"lines {first} to {lines.total} of {lines.total}", before)

    size = limit.max_units(render, upper, _FIRST_GUESS)
    if size:
        return render(size)
    start, end = lines.start(lines.total), lines.end(lines.total)
    text = lines.text(max(start, end - limit.budget * _BYTES_PER_TOKEN), end).lstrip("�")
    whole = Selector("lines", start=lines.total)

    def ending(size: int) -> View:
        return View(f"…{text[len(text) - size :]}", f"the end of line {lines.total} of {lines.total}; whole", whole)

    return ending(limit.max_units(ending, len(text), limit.budget) or 1)


# Search. The engine is RE2: for any expression, its time grows only with the length of the text.


def find_text(selector: Selector, data: bytes, limit: PageLimit) -> View:
    """Return a page of the lines with hits, and as many lines around them as `context` says.

    A line is shown once, with its number; of a long line, the part around its first hit.
    """
    lines = Lines(data)
    hits = _find_hits(_compile(selector), data, lines)
    amount = f"{len(hits)} hits" if len(hits) < MAX_HITS else f"the first {MAX_HITS} hits"
    context = selector.context or 0
    first = selector.start or 1
    ranges = (range(max(first, hit - context), min(lines.total, hit + context) + 1) for hit in hits)
    numbers = sorted({number for numbers in ranges for number in numbers})
    longest = min(_LONGEST, limit.budget * 2)

    def render(size: int) -> View:
        text = "\n".join(_line(lines, data, number, hits.get(number), longest) for number in numbers[:size])
        following = replace(selector, start=numbers[size]) if size < len(numbers) else None
        return View(text, f"{amount} in {lines.total} lines", following)

    size = limit.max_units(render, len(numbers), _FIRST_MATCHES)
    while numbers and not size and longest > 8:
        longest //= 2
        size = limit.max_units(render, len(numbers), 1)
    return render(size or min(1, len(numbers)))


def _compile(selector: Selector) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    options.never_nl = True
    if selector.text is not None:
        options.literal = True
        options.case_sensitive = False
        return re2.compile(selector.text.encode(), options)
    try:
        return re2.compile(b"(?m)" + (selector.regex or "").encode(), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else ""
        view_failed(f"this is not a regular expression in RE2 syntax: {reason[:200]}")


def _find_hits(pattern: Any, data: bytes, lines: Lines) -> dict[int, tuple[int, int]]:
    """Return the span of the first hit of each line by the number of the line."""
    hits: dict[int, tuple[int, int]] = {}
    at = 0
    while at <= len(data) and len(hits) < MAX_HITS:
        match = pattern.search(data, at)
        if match is None or not lines.total:
            break
        number = lines.number_at(match.start())
        if number > lines.total:
            break
        hits[number] = match.start(), match.end()
        at = lines.end(number) + 1
    return hits


def _line(lines: Lines, data: bytes, number: int, hit: tuple[int, int] | None, longest: int) -> str:
    start, end = lines.start(number), lines.end(number)
    before = behind = ""
    if end - start > longest:
        first, behind_hit = (start, start) if hit is None else hit
        middle = (first + min(behind_hit, first + longest)) // 2
        begin = min(max(start, middle - longest // 2), max(start, end - longest))
        before, behind = "…" if begin > start else "", "…" if begin + longest < end else ""
        start, end = begin, min(end, begin + longest)
    text = data[start:end].decode("utf-8", "ignore" if before or behind else "replace").rstrip("\r")
    return f"{number}{'-' if hit is None else ':'} {before}{text}{behind}"
