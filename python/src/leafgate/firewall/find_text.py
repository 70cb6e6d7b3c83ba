"""Searches a text. In: the bytes of a text and a selector with a text or a regular expression. Out: a View. Pure.

The engine is RE2: whatever the expression, its time grows with the length of the text alone. A line is shown once, with
its number; a long one by what surrounds the find.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # it ships no types

from leafgate.firewall.page import Limit, View
from leafgate.firewall.read_lines import Lines
from leafgate.firewall.selectors import Selector, view_failed

MAX_HITS: Final = 5_000
_LONGEST: Final = 400  # characters of a line that are shown
_FIRST_GUESS: Final = 8
_MEMORY: Final = 8 << 20


@dataclass(frozen=True)
class _Hit:
    number: int
    start: int
    end: int


def find_text(selector: Selector, data: bytes, limit: Limit) -> View:
    """The lines with finds, and as many around them as `context` says."""
    lines = Lines(data)
    pattern = _compiled(selector)
    hits = _hits(pattern, data, lines)
    counted = f"{len(hits)} hits" if len(hits) < MAX_HITS else f"the first {MAX_HITS} hits"
    context = selector.context or 0
    around = {hit.number: hit for hit in hits}
    shown_lines = sorted(
        {
            number
            for hit in hits
            for number in range(max(1, hit.number - context), min(lines.total, hit.number + context) + 1)
            if number >= (selector.start or 1)
        }
    )
    longest = min(_LONGEST, limit.budget * 2)

    def render(taken: int) -> View:
        text = "\n".join(_line(lines, data, number, around.get(number), longest) for number in shown_lines[:taken])
        go_on = selector.at(start=shown_lines[taken]) if taken < len(shown_lines) else None
        return View(text, f"{counted} in {lines.total} lines", go_on)

    taken = limit.fullest(render, len(shown_lines), _FIRST_GUESS)
    while shown_lines and not taken and longest > 8:
        longest //= 2
        taken = limit.fullest(render, len(shown_lines), 1)
    return render(taken or min(1, len(shown_lines)))


def _compiled(selector: Selector) -> Any:
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
        view_failed(f"this is no regular expression that is taken (RE2 syntax): {reason[:200]}")


def _hits(pattern: Any, data: bytes, lines: Lines) -> list[_Hit]:
    """The first find of each line."""
    found: list[_Hit] = []
    at = 0
    while at <= len(data) and len(found) < MAX_HITS:
        match = pattern.search(data, at)
        if match is None or not lines.total:
            break
        number = lines.number_at(match.start())
        if number > lines.total:
            break
        found.append(_Hit(number, match.start(), match.end()))
        at = lines.end(number) + 1
    return found


def _line(lines: Lines, data: bytes, number: int, hit: _Hit | None, longest: int) -> str:
    start, end = lines.start(number), lines.end(number)
    before = behind = ""
    if end - start > longest:
        middle = (
            start if hit is None else max(start, (hit.start + min(hit.end, hit.start + longest)) // 2 - longest // 2)
        )
        begin = min(middle, max(start, end - longest))
        before, behind = "…" if begin > start else "", "…" if begin + longest < end else ""
        start, end = begin, min(end, begin + longest)
    text = data[start:end].decode("utf-8", "ignore" if before or behind else "replace").rstrip("\r")
    return f"{number}{'-' if hit is None else ':'} {before}{text}{behind}"
