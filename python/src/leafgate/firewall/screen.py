"""Decides what of a result a model reads. In: clean pieces and a budget in tokens. Out: blocks, and what is withheld.

Touches nothing; the counter of tokens is handed in. The same input gives the same answer, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from leafgate.firewall.blocks import MAX_ANNOTATED, Block, Piece, is_text_type, read_block
from leafgate.firewall.cleaner import NOTHING, Cleaner, Found
from leafgate.firewall.digest import Digest, NotKept, digest
from leafgate.firewall.facts import facts_of
from leafgate.firewall.fit import Count, total
from leafgate.firewall.size import Size, weigh

DEFAULT_BUDGET: Final = 800
DEFAULT_INLINE: Final = 256 * 1024  # characters of base64 that one block may have to stay as it is
INLINE_IN_ALL: Final = 4  # times as much may stay in all blocks together
LEAST_ROOM: Final = 120  # tokens of a digest; where blocks would get less each, they are told together
NOTED: Final = 8  # notes on withheld bytes, one each; beyond, one for all others


@dataclass(frozen=True)
class Choice:
    """Which texts are withheld, how many tokens each digest gets, and whether all are told as one."""

    withheld: tuple[int, ...] = ()
    room: int = 0
    joined: bool = False


@dataclass(frozen=True)
class Withheld:
    """Content to be stored, and the block that stands in its place once its handle is known."""

    content: bytes
    media_type: str
    piece: Piece
    size: Size | None = None
    digest: Digest | None = None
    noted: bool = True

    def block(self, handle: str | None, why_not: NotKept = "too large to be kept") -> Block | None:
        if self.digest is not None:
            return self.piece.with_text(self.digest.text(handle, why_not))
        if not self.noted:
            return None
        what = f"{self.media_type[:60]}, {len(self.content)} bytes"
        if handle is None:
            return {"type": "text", "text": f"[{what}, {why_not}]"}
        call = f'tool_view {{"handle":"{handle}","selector":{{"type":"bytes"}}}}'
        return {"type": "text", "text": f"[{what}: {call}]"}


@dataclass(frozen=True)
class Screened:
    """A result as a model reads it, but for the handles; and what was found in it."""

    slots: tuple[Block | Withheld, ...]
    facts: tuple[str, ...] = ()
    found: Found = NOTHING
    annotations: tuple[dict[str, Any], ...] = ()


def screen(
    blocks: Sequence[Block],
    structured: Any,
    cleaner: Cleaner,
    *,
    count: Count,
    budget: int,
    inline: int = DEFAULT_INLINE,
) -> Screened:
    """Cleans every block, and withholds what does not fit. `structured` is told as a text; None if a block tells it."""
    counted = total(count)
    pieces = [read_block(block, cleaner) for block in blocks]
    if structured is not None:
        pieces.append(_structured(structured, cleaner))
    annotations = tuple(
        {"part_index": place, **piece.annotations} for place, piece in enumerate(pieces) if piece.annotations
    )[:MAX_ANNOTATED]
    found = sum((piece.found for piece in pieces), NOTHING)
    texts = _few_links(pieces, counted, budget)
    slots = _screen_texts(_screen_bytes(texts, inline), counted, cleaner, budget)
    digests = [slot.digest for slot in slots if isinstance(slot, Withheld) and slot.digest is not None]
    facts = next((made.facts for made in digests if made.facts), ())
    return Screened(tuple(_unwrapped(slots)), facts, found, annotations)


def structured_facts(structured: Any, cleaner: Cleaner) -> tuple[str, ...]:
    """The first level of structured content, clean."""
    return tuple(cleaner(fact) for fact in facts_of(structured))


def choose(sizes: Sequence[int], budget: int) -> Choice:
    """The largest texts are withheld, as few as let the others and the digests fit."""
    rest = sum(sizes)
    if rest <= budget:
        return Choice()
    half = budget // 2
    order = sorted(range(len(sizes)), key=lambda place: (-sizes[place], place))
    for taken, place in enumerate(order, 1):
        rest -= sizes[place]
        room = min(half, (budget - rest) // taken)
        if room >= min(LEAST_ROOM, half):
            return Choice(tuple(sorted(order[:taken])), room)
    return Choice(tuple(range(len(sizes))), half, joined=True)


Slot = Piece | Withheld


def _structured(value: Any, cleaner: Cleaner) -> Piece:
    cleaned = cleaner.json(value)
    text = cleaner.text(json.dumps(cleaned.value, ensure_ascii=False, separators=(",", ":"), default=str))
    return Piece({"type": "text", "text": text.text}, cleaned.found + text.found, text.text)


def _few_links(pieces: Sequence[Piece], count: Count, budget: int) -> list[Piece]:
    """Links stay links while they take a quarter of the budget; further ones are told as a list."""
    room = budget // 4
    kept: list[Piece] = []
    listed: list[Any] = []
    for piece in pieces:
        if piece.block["type"] != "resource_link":
            kept.append(piece)
            continue
        room -= count(json.dumps(piece.block, ensure_ascii=False)[: 128 * budget])
        if room >= 0:
            kept.append(piece)
        else:
            listed.append(piece.block)
    if listed:
        text = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
        kept.append(Piece({"type": "text", "text": text}, text=text))
    return kept


def _screen_bytes(pieces: Sequence[Piece], inline: int) -> list[Slot]:
    """Bytes stay where they are as long as they are few."""
    room, noted = inline * INLINE_IN_ALL, 0
    slots: list[Slot] = []
    for piece in pieces:
        if piece.data is None:
            slots.append(piece)
            continue
        size = len(piece.data) * 4 // 3
        if size <= min(inline, room):
            room -= size
            slots.append(piece)
            continue
        text = piece.data.decode("utf-8", "replace") if is_text_type(piece.media_type) else None
        if text is not None and text.encode() == piece.data:  # a blob that is a text is read as one
            resource = {key: value for key, value in piece.block["resource"].items() if key != "blob"}
            slots.append(replace(piece, block={**piece.block, "resource": {**resource, "text": text}}, text=text))
            continue
        noted += 1
        slots.append(Withheld(piece.data, piece.media_type, piece, noted=noted <= NOTED))
    if noted > NOTED:
        more = f"[{noted - NOTED} more images or files are withheld; the result's artifacts list them]"
        slots.append(Piece({"type": "text", "text": more}))
    return slots


def _screen_texts(slots: Sequence[Slot], count: Count, cleaner: Cleaner, budget: int) -> list[Slot]:
    """Texts stay where they are as long as they fit together."""
    places = [at for at, slot in enumerate(slots) if isinstance(slot, Piece) and slot.text is not None]
    texts = [slots[at] for at in places]
    if sum(_most_tokens(_text_of(slot)) for slot in texts) <= budget:  # they fit for sure: nothing to count
        return list(slots)
    sizes = [weigh(_text_of(slot), count, budget) for slot in texts]
    choice = choose([size.tokens for size in sizes], budget)
    if choice.joined:
        return _joined(slots, places, count, cleaner, budget)
    screened = list(slots)
    for at in choice.withheld:
        screened[places[at]] = _withheld(texts[at], sizes[at], count, cleaner, choice.room)
    return screened


def _joined(slots: Sequence[Slot], places: Sequence[int], count: Count, cleaner: Cleaner, budget: int) -> list[Slot]:
    text = cleaner("\n".join(_text_of(slots[at]) for at in places))
    whole = Piece({"type": "text", "text": text}, text=text)
    told = _withheld(whole, weigh(text, count, budget), count, cleaner, budget // 2)
    gone = set(places[1:])
    return [told if at == places[0] else slot for at, slot in enumerate(slots) if at not in gone]


def _withheld(slot: Slot, size: Size, count: Count, cleaner: Cleaner, room: int) -> Withheld:
    assert isinstance(slot, Piece)
    text = _text_of(slot)
    made = digest(text, size, count, cleaner, room)
    media_type = slot.media_type if is_text_type(slot.media_type) else made.shape.media_type
    return Withheld(text.encode("utf-8", "replace"), media_type, slot, size, made)


def _text_of(slot: Slot) -> str:
    assert isinstance(slot, Piece)
    return slot.text or ""


def _most_tokens(text: str) -> int:
    """A token spells one byte at least; some maps put one more token in front."""
    return 1 + (len(text) if text.isascii() else 4 * len(text))


def _unwrapped(slots: Sequence[Slot]) -> list[Block | Withheld]:
    return [slot if isinstance(slot, Withheld) else slot.block for slot in slots]
