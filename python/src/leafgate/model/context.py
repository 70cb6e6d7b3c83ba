"""The nouns of context packs: items of a session, phases, and the pack that is made of them (spec 9). Nouns only.

This file also has the errors of sessions and packs; the docstring of each says whose fault it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from leafgate.model.envelope import ArtifactRef
from leafgate.model.errors import LeafgateError
from leafgate.model.leaf import LeafPayload

Section = Literal["policy", "facts", "plan", "documents", "history"]


class ContextError(LeafgateError):
    """The caller's: an item that cannot be held, or a pack that cannot be built."""


class SessionLineError(ContextError):
    """The session file's: a line that is not an event."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}, line {line}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


class BudgetError(ContextError):
    """The caller's: what must be in every pack is larger than the budget."""

    def __init__(self, needed: int, budget: int) -> None:
        super().__init__(
            f"the policy items alone take {needed} tokens and the budget is {budget}; raise the budget or shorten them"
        )
        self.needed = needed
        self.budget = budget


class ItemKind(Enum):
    """What an event of a session is."""

    policy = "policy"
    memory_fact = "memory_fact"
    plan_state = "plan_state"
    doc_snippet = "doc_snippet"
    user_turn = "user_turn"
    agent_msg = "agent_msg"
    tool_call = "tool_call"
    tool_result = "tool_result"


class Phase(Enum):
    """What the model is asked to do next."""

    route = "route"
    call = "call"
    interpret = "interpret"
    answer = "answer"


@dataclass(frozen=True, slots=True)
class LeafSpan:
    """Ids that came with a part of an item's text. They are not verified yet."""

    start: int
    end: int
    payload: LeafPayload


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One event of a session. `parent_id` names what it cannot be understood without."""

    id: str
    kind: ItemKind
    text: str
    parent_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    leaves: tuple[LeafSpan, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()


@dataclass(frozen=True)
class BadLine:
    """A line of a session file that was skipped."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class PackItem:
    """An item, whether it is in the pack, and why. `tokens` is None where they were not counted."""

    item: ContextItem
    taken: bool
    reason: str
    score: float
    tokens: int | None = None
    section: Section | None = None

    def as_json(self) -> dict[str, Any]:
        verdict = {"taken": self.taken, "reason": self.reason, "score": self.score}
        item = {"id": self.item.id, "kind": self.item.kind.value}
        return {**item, **verdict, "tokens": self.tokens, "section": self.section}


@dataclass(frozen=True)
class Tokenized:
    """The work for a pack: tokens that were made, and tokens of leaves that were made again to check them."""

    new: int
    checked: int


@dataclass(frozen=True)
class ContextPack:
    """A prompt within its budget, and an account of it. `ids` are there where a map was chosen."""

    phase: Phase
    query: str
    budget: int
    tokens: int
    map_id: str
    sections: Mapping[Section, int]
    cache_breakpoint: int
    stable_tokens: int
    missing_parents: tuple[str, ...]
    tokenized: Tokenized
    items: tuple[PackItem, ...]
    prompt: str
    ids: tuple[int, ...] | None

    @property
    def taken(self) -> tuple[PackItem, ...]:
        return tuple(each for each in self.items if each.taken)

    @property
    def left(self) -> tuple[PackItem, ...]:
        return tuple(each for each in self.items if not each.taken)

    @property
    def artifacts(self) -> tuple[ArtifactRef, ...]:
        """The stored content behind the digests in the prompt."""
        return tuple(ref for each in self.items if each.taken for ref in each.item.artifacts)

    def as_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "phase": self.phase.value,
            "sections": dict(self.sections),
            "missing_parents": list(self.missing_parents),
            "tokenized": vars(self.tokenized),
            "artifacts": [ref.as_json() for ref in self.artifacts],
            "items": [each.as_json() for each in self.items],
            "ids": None if self.ids is None else list(self.ids),
        }
