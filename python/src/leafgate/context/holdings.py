"""The items of one session: by place, id and kind; which of them repeat another; what each of them needs.

What depends on single items is computed as they arrive: a pack of fifty thousand of them must not take long.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from leafgate.context.item_tokens import ItemTokens
from leafgate.data import load_table
from leafgate.model.context import ContextError, ContextItem, ItemKind, LeafSpan, Section
from leafgate.model.leaf import Level
from leafgate.tokens.encoder import Encoder

# Headers. Each item has one, such as `[tool result]`. If the text of an item contains such a header, all headers get a
# number (`[#1 tool result]`) that no text of the session has in a header: a text cannot pass for another item.

TABLE: Final = load_table("context", {"kinds": dict, "phases": dict})
LABELS: Final[Mapping[ItemKind, str]] = {kind: TABLE["kinds"][kind.value]["label"] for kind in ItemKind}
SECTIONS: Final[Mapping[ItemKind, Section]] = {kind: TABLE["kinds"][kind.value]["section"] for kind in ItemKind}
ORDER: Final[tuple[Section, ...]] = ("policy", "facts", "plan", "documents", "history")
STABLE: Final[tuple[Section, ...]] = ("policy", "facts")
BETWEEN: Final = "\n\n"
UNANSWERED: Final = f"{LABELS[ItemKind.tool_call]}, result left out"

# Anywhere in a line, not only at its beginning: models and terminals do not agree on what a line is.
_FORGED: Final = re.compile(
    rf"\[[^\w\]]{{0,16}}?(?:#(\d{{1,9}})[^\w\]]{{0,16}})?(?:{'|'.join(LABELS.values())})\b", re.IGNORECASE
)
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)


def forged_marks(text: str) -> set[int]:
    """The numbers of all headers that this text imitates; 0 for one without a number."""
    visible = text if text.isascii() else _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
    if "[" not in visible:  # ten times faster than the search
        return set()
    return {int(match.group(1) or 0) for match in _FORGED.finditer(visible)}


def free_mark(used: Collection[int], mark: int = 0) -> int:
    """The smallest number, from `mark` on, that no text uses."""
    while mark in used:
        mark += 1
    return mark


def usual_glue(mark: int) -> list[str]:
    """The headers and the separator of nearly every prompt."""
    return [BETWEEN, *(_header(label, mark) for label in LABELS.values()), _header(UNANSWERED, mark)]


def header(item: ContextItem, mark: int, *, named: bool = False, apart: bool = False, unanswered: bool = False) -> str:
    """The header of an item. `named`: with its id, because a result that is `apart` from its call refers to it.
    `unanswered`: the result of this call is left out of the prompt, and the header says so."""
    label = LABELS[item.kind] + (f" {item.id}" if named else "") + (f" of {item.parent_id}" if apart else "")
    return _header(UNANSWERED if unanswered else label, mark)


def _header(label: str, mark: int) -> str:
    return f"[#{mark} {label}]\n" if mark else f"[{label}]\n"


KEEP_LAST: Final = frozenset((ItemKind.tool_result, ItemKind.doc_snippet, ItemKind.plan_state))
KEEP_FIRST: Final = frozenset((ItemKind.memory_fact,))


class Repeats:
    """Finds the items of one session that repeat another.

    Of equal documents, plans and results the last stays, because it is the freshest; of equal facts the first, because
    it is in the stable prefix of prompts. Turns and policies are never collapsed; a call is, with its result.
    """

    def __init__(self) -> None:
        self._statements: dict[tuple[ItemKind, str, str | None, str | None], tuple[int, int | None]] = {}
        self._replacements: dict[int, int] = {}

    def note(self, place: int, item: ContextItem, call: int | None, call_text: str | None) -> None:
        """Record an item; of a result, also its call, if the session has it."""
        if item.kind not in KEEP_LAST and item.kind not in KEEP_FIRST:
            return
        # Results are the same only if their calls are; calls that have not come yet are the same only by their ids.
        awaited = item.parent_id if item.kind is ItemKind.tool_result and call is None else None
        statement, here = (item.kind, item.text, call_text, awaited), (place, call)
        there = self._statements.setdefault(statement, here)
        if there is here:
            return
        if item.kind in KEEP_FIRST:
            self._replacements[place] = there[0]
            return
        self._statements[statement] = here
        self._replacements[there[0]] = place
        if call is not None and there[1] is not None and there[1] < call:  # never backwards: so no circle
            self._replacements[there[1]] = call

    def replacement_for(self, place: int) -> int | None:
        """The place of the equal item that stays; None for an item that stays itself."""
        last = self._replacements.get(place)
        if last is None:
            return None
        path = [place]
        while last in self._replacements:
            path.append(last)
            last = self._replacements[last]
        self._replacements |= dict.fromkeys(path, last)  # otherwise a lookup of a text repeated n times takes n steps
        return last


MOST_ID_CHARS: Final = 200


class Holdings:
    """The items of a session. A place is the position of an item in the order of arrival."""

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
        """The place of an equal item that stays in the place of this one."""
        return self._repeats.replacement_for(place)

    def is_answered(self, call: ContextItem) -> bool:
        """Whether the session has a result of this call."""
        return call.id in self._answered

    def add(self, item: ContextItem, *, stand_in: bool = False) -> int:
        """Add an item and return its place. An item replaces its stand-in."""
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
        """Raise ContextError if the item is malformed or its id is in use."""
        if problem := id_problem(item.id):
            raise ContextError(f"the id of an item {problem}")
        if not isinstance(item.kind, ItemKind) or not isinstance(item.text, str):
            raise ContextError(f"the item {item.id!r} must have an ItemKind and a text")
        if item.parent_id is not None and (problem := id_problem(item.parent_id)):
            raise ContextError(f"the parent_id of {item.id!r} {problem}")
        if not isinstance(item.metadata, Mapping):
            raise ContextError(f"the metadata of {item.id!r} are not a mapping")
        if not isinstance(item.leaves, tuple) or not all(isinstance(leaf, LeafSpan) for leaf in item.leaves):
            raise ContextError(f"the leaves of {item.id!r} are not a tuple of LeafSpans")
        place = self._places.get(item.id)
        if place is None:
            return
        if item.id not in self._stand_ins:
            raise ContextError(f"there is already an item with the id {item.id!r}")
        if item.kind is not self._items[place].kind:
            raise ContextError(f"{item.id!r} is the call of a result that is already there, not a {item.kind.value}")

    def _notice(self, place: int, item: ContextItem) -> None:
        marks = forged_marks(item.text)
        self._forged |= marks
        if self.mark in marks:  # headers get a number that no item can forge
            self.mark = free_mark(self._forged, self.mark)
            self.tokens.learn_glue(usual_glue(self.mark))
        self._missing.pop(item.id, None)
        if item.parent_id is not None and item.parent_id not in self._places:
            self._missing[item.parent_id] = None
        call = None
        if item.kind is ItemKind.tool_result and item.parent_id is not None:
            self._answered.add(item.parent_id)
            # The call behind a stand-in has not arrived: its results cannot be compared with others.
            call = None if item.parent_id in self._stand_ins else self._places.get(item.parent_id)
        self._repeats.note(place, item, call, None if call is None else self._items[call].text)


def id_problem(id: object) -> str:
    """Why an id is invalid, in words that follow "the id"; empty if it is valid. Ids may appear in headers."""
    if not isinstance(id, str):
        return "is not a string"
    if not 0 < len(id) <= MOST_ID_CHARS:
        return f"must have from 1 to {MOST_ID_CHARS} characters"
    if not id.isprintable() or "[" in id or "]" in id:
        return "holds a bracket or a character that cannot be printed"
    return ""


TURNS: Final = frozenset((ItemKind.user_turn, ItemKind.agent_msg))
# A result without its call, or a call without its turn, misleads: if the session lacks the one, the other is left out.
DEPENDENT: Final = frozenset((ItemKind.tool_result, ItemKind.tool_call))


@dataclass(frozen=True)
class Closure:
    """A place and the places it needs. `lacks` is the id of a parent that is required and not in the session."""

    places: tuple[int, ...]
    lacks: str | None = None


def closure_of(holdings: Holdings, place: int, selected: Container[int], most: int) -> Closure:
    """The place and its parents up to a turn, except those in `selected`. Stops at a cycle and after `most` places."""
    chain: dict[int, None] = {}
    at: int | None = place
    while at is not None and at not in chain and at not in selected and len(chain) <= most:
        chain[at] = None
        item = holdings[at]
        if item.parent_id is None or item.kind in TURNS:
            break
        at = holdings.place_of(item.parent_id)
        if at is None and item.kind in DEPENDENT:
            return Closure(tuple(chain), item.parent_id)
    return Closure(tuple(chain))
