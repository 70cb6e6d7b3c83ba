"""Names of servers and tools as labels of a metric. In: any text. Out: one that every format can carry. Pure.

Tool names come from servers, so they are hostile: of any length, with line breaks, with halves of characters.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = 120
# What is beyond a bound is counted under this name.
OTHER: Final = "(other)"


def label(name: str) -> str:
    """At most LONGEST characters, all of them printable; the same for the same name."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name[:LONGEST])
    return shown if len(name) <= LONGEST else shown[:-1] + "…"
