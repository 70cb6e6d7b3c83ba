"""How items become a prompt. In: items in order. Out: texts with the headers between them. Touches nothing.

Each item stands under a header such as `[tool result]`. A text that holds such a header itself cannot pass for another
item: the brackets are then doubled, tripled, and so on, until no text of the session has a header of that form.
"""

from __future__ import annotations

import re
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

# Anywhere in a line, not only at its beginning: what a line is, models and terminals do not agree on.
_FORGED: Final = re.compile(rf"(\[+)\s*(?:{'|'.join(LABELS.values())})\b", re.IGNORECASE)


def forged_depths(text: str) -> set[int]:
    """The numbers of brackets of what looks like a header in this text."""
    if "[" not in text:  # ten times quicker to find out
        return set()
    return {len(found.group(1)) for found in _FORGED.finditer(text)}


def free_depth(used: Collection[int]) -> int:
    """The smallest number of brackets that no text uses."""
    depth = 1
    while depth in used:
        depth += 1
    return depth


def usual_glue(depth: int) -> list[str]:
    """What stands between the items of nearly every prompt."""
    return [BETWEEN, *(f"{'[' * depth}{label}{']' * depth}\n" for label in LABELS.values())]


def header(item: ContextItem, depth: int, *, named: bool = False, apart: bool = False) -> str:
    """`named` items carry their id, because a result that stands `apart` from its call refers to it."""
    label = LABELS[item.kind]
    if named:
        label = f"{label} {item.id}"
    if apart:
        label = f"{label} of {item.parent_id}"
    return f"{'[' * depth}{label}{']' * depth}\n"
