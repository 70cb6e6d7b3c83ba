"""The items of one session. In: items, one after another. Out: the same by place, id and kind. Touches nothing.

What depends on single items is worked out as they come: a pack of fifty thousand of them must not take long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from leafgate.context.item_tokens import ItemTokens
from leafgate.context.render import forged_marks, free_mark, usual_glue
from leafgate.context.repeats import Repeats
from leafgate.model.context import ContextError, ContextItem, ItemKind, LeafSpan
from leafgate.model.leaf import Level
from leafgate.tokens.encoder import Encoder

MOST_ID_CHARS: Final = 200


class Holdings:
    """Grows by items; a place is the order in which an item came."""

    def __init__(self, encoder: Encoder, level: Level) -> None:
        self.tokens = ItemTokens(encoder, level)
        self._items: list[ContextItem] = []
        self._places: dict[str, int] = {}
        self._of_kind: dict[ItemKind, list[int]] = {kind: [] for kind in ItemKind}
        self._stand_ins: set[str] = set()
        self._missing: dict[str, None] = {}
        self._repeats = Repeats()
        self._answered: set[str] = set()
        self._forged: set[int] = set()
        self.mark = 0
        self.tokens.learn_glue(usual_glue(self.mark))

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[ContextItem]:
        return iter(self._items)

    def __getitem__(self, place: int) -> ContextItem:
        return self._items[place]

    def place_of(self, id: str) -> int | None:
        return self._places.get(id)

    def of_kind(self, kind: ItemKind) -> Sequence[int]:
        """The places of a kind, in order."""
        return self._of_kind[kind]

    @property
    def missing_parents(self) -> tuple[str, ...]:
        """Parents that items name and that are not here."""
        return tuple(self._missing)

    def duplicate_of(self, place: int) -> int | None:
        """Where the same is said and kept."""
        return self._repeats.kept_for(place)

    def is_answered(self, call: ContextItem) -> bool:
        """Whether the session has a result of this call."""
        return call.id in self._answered

    def add(self, item: ContextItem, *, stand_in: bool = False) -> int:
        """Takes an item in, and gives its place. An item takes the place of its stand-in."""
        self.check(item)
        place = self._places.setdefault(item.id, len(self._items))
        if place == len(self._items):
            self._items.append(item)
            self._of_kind[item.kind].append(place)
        else:
            self._items[place] = item
            self.tokens.forget(item)
        self._stand_ins.discard(item.id)
        if stand_in:
            self._stand_ins.add(item.id)
        self._notice(place, item)
        return place

    def check(self, item: ContextItem) -> None:
        """ContextError where the item cannot be held."""
        problem = id_problem(item.id)
        if problem:
            raise ContextError(f"the id of an item {problem}")
        if not isinstance(item.kind, ItemKind) or not isinstance(item.text, str):
            raise ContextError(f"the item {item.id!r} must have an ItemKind and a text")
        problem = "" if item.parent_id is None else id_problem(item.parent_id)
        if problem:
            raise ContextError(f"the parent_id of {item.id!r} {problem}")
        if not isinstance(item.metadata, Mapping):
            raise ContextError(f"the metadata of {item.id!r} are no mapping")
        if not isinstance(item.leaves, tuple) or not all(isinstance(leaf, LeafSpan) for leaf in item.leaves):
            raise ContextError(f"the leaves of {item.id!r} are no tuple of LeafSpans")
        place = self._places.get(item.id)
        if place is None:
            return
        if item.id not in self._stand_ins:
            raise ContextError(f"there is already an item with the id {item.id!r}")
        if item.kind is not self._items[place].kind:
            raise ContextError(f"{item.id!r} is the call of a result that is already there, and no {item.kind.value}")

    def _notice(self, place: int, item: ContextItem) -> None:
        self._avoid(forged_marks(item.text))
        self._missing.pop(item.id, None)
        if item.parent_id is not None and item.parent_id not in self._places:
            self._missing[item.parent_id] = None
        call = None
        if item.kind is ItemKind.tool_result and item.parent_id is not None:
            self._answered.add(item.parent_id)
            # What a stand-in stands for is not known yet: its results are not the same as another's.
            call = None if item.parent_id in self._stand_ins else self._places.get(item.parent_id)
        self._repeats.hear(place, item, call, None if call is None else self._items[call].text)

    def _avoid(self, marks: set[int]) -> None:
        """Headers get a number that no item can forge: `mark`."""
        self._forged |= marks
        if self.mark in marks:
            self.mark = free_mark(self._forged, self.mark)
            self.tokens.learn_glue(usual_glue(self.mark))


def id_problem(id: object) -> str:
    """What is wrong with an id, in words that follow "the id"; empty where nothing is. Ids may stand in headers."""
    if not isinstance(id, str):
        return "is no string"
    if not 0 < len(id) <= MOST_ID_CHARS:
        return f"must have from 1 to {MOST_ID_CHARS} characters"
    if not id.isprintable() or "[" in id or "]" in id:
        return "holds a bracket or a character that cannot be printed"
    return ""
