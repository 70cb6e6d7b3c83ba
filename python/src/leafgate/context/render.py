"""How items become a prompt. In: items in order. Out: texts with the headers between them. Touches nothing.

Each item stands under a header such as `[tool result]`. A text that holds such a header itself cannot pass for another
item: all headers then bear a number (`[#1 tool result]`) that no text of the session has in a header.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Final

from leafgate.model.context import ContextItem, ItemKind, Section

LABELS: Final[Mapping[ItemKind, str]] = {
    ItemKind.policy: "policy",
    ItemKind.memory_fact: "fact",
    ItemKind.plan_state: "plan",
    ItemKind.doc_snippet: "document",
    ItemKind.user_turn: "user",
    ItemKind.agent_msg: "assistant",
    ItemKind.tool_call: "tool call",
    ItemKind.tool_result: "tool result",
}
SECTIONS: Final[Mapping[ItemKind, Section]] = {
    ItemKind.policy: "policy",
    ItemKind.memory_fact: "documents",  # those that stand in the stable prefix are its own section, `facts`
    ItemKind.plan_state: "plan",
    ItemKind.doc_snippet: "documents",
    ItemKind.user_turn: "history",
    ItemKind.agent_msg: "history",
    ItemKind.tool_call: "history",
    ItemKind.tool_result: "history",
}
ORDER: Final[tuple[Section, ...]] = ("policy", "facts", "plan", "documents", "history")
STABLE: Final[tuple[Section, ...]] = ("policy", "facts")
BETWEEN: Final = "\n\n"
UNANSWERED: Final = f"{LABELS[ItemKind.tool_call]}, result left out"

# Anywhere in a line, not only at its beginning: what a line is, models and terminals do not agree on.
_FORGED: Final = re.compile(
    rf"\[[^\w\]]{{0,16}}?(?:#(\d{{1,9}})[^\w\]]{{0,16}})?(?:{'|'.join(LABELS.values())})\b", re.IGNORECASE
)
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)


def forged_marks(text: str) -> set[int]:
    """The numbers of what looks like a header in this text; 0 for one without a number."""
    seen = text if text.isascii() else _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
    if "[" not in seen:  # ten times quicker to find out
        return set()
    return {int(found.group(1) or 0) for found in _FORGED.finditer(seen)}


def free_mark(used: Collection[int], mark: int = 0) -> int:
    """The smallest number from this one on that no text uses. It stays short, however many a text uses up."""
    while mark in used:
        mark += 1
    return mark


def usual_glue(mark: int) -> list[str]:
    """What stands between the items of nearly every prompt."""
    return [BETWEEN, *(_header(label, mark) for label in LABELS.values()), _header(UNANSWERED, mark)]


def header(item: ContextItem, mark: int, *, named: bool = False, apart: bool = False, unanswered: bool = False) -> str:
    """`named` items carry their id, because a result that stands `apart` from its call refers to it. An `unanswered`
    call has a result that is not in the prompt: nobody should wait for it."""
    label = LABELS[item.kind]
    if named:
        label = f"{label} {item.id}"
    if apart:
        label = f"{label} of {item.parent_id}"
    return _header(UNANSWERED if unanswered else label, mark)


def _header(label: str, mark: int) -> str:
    return f"[#{mark} {label}]\n" if mark else f"[{label}]\n"
