"""Sessions for the tests of context packs: short ways to write items, and random sessions that can be made again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from leafgate.context.holdings import Holdings
from leafgate.model.context import ContextItem, ContextPack, ItemKind, LeafSpan
from leafgate.model.leaf import LeafPayload, Level
from leafgate.tokens.encoder import Encoder

TALE = (
    "the invoice of March was paid late and nobody in the office knew why until the bank called about a transfer that "
    "had been stopped, so we looked through every ledger, found two numbers that did not agree (4711 and 4712), and "
    "wrote \"please check\" beside them; naïve hopes, größere Sorgen, 残高は不足です, it's what we'd feared: total=3.50"
)
WORDS = TALE.split()

# What tokenizers stumble over at seams.
NASTY = (
    "hello", " world", "\n", "\n\n", " ", "   ", "'s", "'S", "it's", "1234567", "12 3", "é", "e\u0301", "\u0301",
    "中文", "。", "😀", "👩‍👩‍👧", ".", "...", "\t", "\r\n", "\r", "</s>", "/", "//\n/", " .\n", "_", "a_b", "X", "XyZ",
    "don't", "<|im_end|>", "\u00a0", "\u2028", "…", "(foo)", '{"a":1,"b":[]}', "the cat", "ſ", "'", "'l", "l", "\x00",
    "[user]", "ǅ", "Ⅷ", "²", "\u200d", "\ufeff", "<0x41>",
)  # fmt: skip


def item(id: str, kind: str, text: str, parent: str | None = None, **more: Any) -> ContextItem:
    return ContextItem(id, ItemKind(kind), text, parent, **more)


def holdings(encoder: Encoder, items: Sequence[ContextItem], level: Level = "canonical") -> Holdings:
    held = Holdings(encoder, level)
    for each in items:
        held.add(each)
    return held


def with_leaf(given: ContextItem, encoder: Encoder) -> ContextItem:
    payload = LeafPayload(encoder.map.digest, encoder.encode(given.text))
    span = LeafSpan(0, len(given.text), payload)
    return ContextItem(given.id, given.kind, given.text, given.parent_id, given.metadata, (span,))


def prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words)) + chance.choice((".", "!", "", "\n", ")", '"'))


def random_session(chance: random.Random, turns: int, longest: int = 120) -> list[ContextItem]:
    """Turns with calls, results and answers; some documents, facts and plans between them."""
    items = [item("p0", "policy", "Never send money without a second signature. " + prose(chance, 12))]
    for turn in range(turns):
        user = f"u{turn}"
        items.append(item(user, "user_turn", prose(chance, chance.randint(4, longest // 3))))
        if chance.random() < 0.3:
            items.append(item(f"f{turn}", "memory_fact", prose(chance, chance.randint(5, 20))))
        if chance.random() < 0.3:
            items.append(item(f"s{turn}", "plan_state", prose(chance, chance.randint(10, 40))))
        for call in range(chance.randint(0, 3)):
            items.append(item(f"c{turn}.{call}", "tool_call", f"find({prose(chance, 5)!r})", user))
            result = prose(chance, chance.randint(20, longest))
            items.append(item(f"r{turn}.{call}", "tool_result", result, f"c{turn}.{call}"))
        if chance.random() < 0.3:
            items.append(item(f"d{turn}", "doc_snippet", prose(chance, chance.randint(20, longest)), user))
        items.append(item(f"a{turn}", "agent_msg", prose(chance, chance.randint(10, longest // 2)), user))
    return items


def broken_closures(pack: ContextPack) -> list[str]:
    """Taken items whose parent is in the session and not in the pack. Turns need none; policies are in anyway."""
    held = {each.item.id for each in pack.items}
    taken = {each.item.id for each in pack.taken}
    alone = (ItemKind.user_turn, ItemKind.agent_msg, ItemKind.policy)
    return [
        each.item.id
        for each in pack.taken
        if each.item.kind not in alone and each.item.parent_id in held and each.item.parent_id not in taken
    ]
