"""One section of the security figures: a table and what it means. Each part of bench/security measures one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A title, what was measured and how, a table, and what was not caught or does not hold."""

    title: str
    method: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
