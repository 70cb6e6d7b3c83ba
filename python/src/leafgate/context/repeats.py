"""What was said before. In: items as they come. Out: which of them say nothing that another does not. Touches nothing.

Of documents, plans and results the last is kept, of facts the first: the last is the freshest, and the first stands in
the stable prefix of prompts. Turns and policies are never collapsed; a call is, with its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leafgate.model.context import ContextItem, ItemKind

KEEP_LAST: Final = frozenset((ItemKind.tool_result, ItemKind.doc_snippet, ItemKind.plan_state))
KEEP_FIRST: Final = frozenset((ItemKind.memory_fact,))


@dataclass(frozen=True)
class _Said:
    """Results are the same only if their calls are; calls that have not come yet are the same only by their ids."""

    kind: ItemKind
    text: str
    call: str | None
    awaited: str | None


@dataclass(frozen=True)
class _Where:
    place: int
    call: int | None


class Repeats:
    """Follows one session."""

    def __init__(self) -> None:
        self._said: dict[_Said, _Where] = {}
        self._kept: dict[int, int] = {}

    def hear(self, place: int, item: ContextItem, call: int | None, call_text: str | None) -> None:
        """Takes note of an item; of a result, also of its call, where that is known."""
        if item.kind not in KEEP_LAST and item.kind not in KEEP_FIRST:
            return
        awaited = item.parent_id if item.kind is ItemKind.tool_result and call is None else None
        said, here = _Said(item.kind, item.text, call_text, awaited), _Where(place, call)
        there = self._said.setdefault(said, here)
        if there is here:
            return
        if item.kind in KEEP_FIRST:
            self._kept[place] = there.place
            return
        self._said[said] = here
        self._kept[there.place] = place
        if call is not None and there.call is not None and there.call < call:  # never backwards: so no circle
            self._kept[there.call] = call

    def kept_for(self, place: int) -> int | None:
        """Where the same is said and kept; None for what is kept itself."""
        kept = self._kept.get(place)
        if kept is None:
            return None
        passed = [place]
        while kept in self._kept:
            passed.append(kept)
            kept = self._kept[kept]
        self._kept |= dict.fromkeys(passed, kept)  # or every question about a text said n times would take n steps
        return kept
