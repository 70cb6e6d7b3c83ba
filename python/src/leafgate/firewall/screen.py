"""Decides what of a result a model reads. In: text blocks and a budget in tokens. Out: which stay, which are withheld.

Touches nothing; the counter of tokens is handed in. The same input gives the same answer, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT_BUDGET: Final = 800
HEAD_SHARE: Final = 0.7
LONGEST_LINE: Final = 400


@dataclass(frozen=True)
class Withheld:
    """A text that is too large to be read whole."""

    text: str
    tokens: int
    lines: int


def choose_withheld(texts: Sequence[str], count: Callable[[str], int], budget: int) -> dict[int, Withheld]:
    """The texts to withhold, by position: the largest first, until the others fit."""
    sizes = [count(text) for text in texts]
    total = sum(sizes)
    withheld: dict[int, Withheld] = {}
    for index in sorted(range(len(texts)), key=lambda i: (-sizes[i], i)):
        if total <= budget:
            break
        withheld[index] = Withheld(texts[index], sizes[index], len(texts[index].splitlines()))
        total -= sizes[index]
    return withheld


def digest(withheld: Withheld, handle: str, count: Callable[[str], int], budget: int) -> str:
    """The beginning and the end of a text, and the way to the rest, in about half the budget."""
    lines = withheld.text.splitlines()
    room = max(budget // 2, 60)
    head = _take(lines, count, int(room * HEAD_SHARE))
    tail = _take(lines[len(head) :][::-1], count, room - int(room * HEAD_SHARE))[::-1]
    first, last = len(head) + 1, len(lines) - len(tail)
    rest = {"handle": handle, "selector": {"type": "lines", "start": first, "end": min(first + 39, last)}}
    note = (
        f"[{withheld.tokens} tokens in {withheld.lines} lines, shortened. The whole text is kept: "
        f"tool_view {json.dumps(rest, separators=(',', ':'))}]"
    )
    return "\n".join([note, *head, f"[… lines {first} to {last} are left out …]", *tail])


def _take(lines: Sequence[str], count: Callable[[str], int], room: int) -> list[str]:
    """Lines from the front while they fit; a very long line is cut."""
    taken: list[str] = []
    for line in lines:
        shown = line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "…"
        room -= count(shown) + 1
        if room < 0:
            break
        taken.append(shown)
    return taken
