"""A page of an artifact: what is shown, of how much, how to go on. In: ways to render. Out: the fullest that fits.

Touches nothing. What fits is counted on the page as it leaves: cleaned, with its last line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from leafgate.firewall.cleaner import Cleaner
from leafgate.firewall.fit import LONGEST_TOKEN, Count, most
from leafgate.firewall.selectors import Selector


@dataclass(frozen=True)
class View:
    """A part of an artifact, where it is in the whole, and the selector for what comes next; or a block by itself."""

    text: str
    shown: str
    next: Selector | None = None
    block: Mapping[str, Any] | None = None
    encoded: bool = False  # base64, which cleaning could only break

    def page(self) -> str:
        note = self.shown
        if self.next is not None:
            note += f"; next: {json.dumps(self.next.as_json(), ensure_ascii=False, separators=(',', ':'))}"
        return f"{self.text}\n[{note}]" if self.text else f"[{note}]"


@dataclass(frozen=True)
class Limit:
    """How much a page may hold, and how it is cleaned."""

    count: Count
    cleaner: Cleaner
    budget: int

    def finished(self, view: View) -> str:
        """The page as it leaves."""
        return view.page() if view.encoded else self.cleaner(view.page())

    def fits(self, view: View) -> bool:
        page = view.page()
        return len(page) <= LONGEST_TOKEN * self.budget and self.count(self.finished(view)) <= self.budget

    def fullest(self, render: Callable[[int], View], upper: int, first: int) -> int:
        """How many units fit on the page that `render` makes of them."""
        return most(lambda n: self.fits(render(n)), upper, first)
