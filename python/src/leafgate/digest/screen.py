"""Screening: decide which parts of a result a model reads, and which are withheld behind a digest.

The input is the raw blocks, a cleaner, a budget and a counter of tokens; the same input gives the same result, byte for
byte. `mcp_result_to_envelope` is the same for programs that store results themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from leafgate.clean.cleaner import (
    MAX_ANNOTATED,
    Block,
    Cleaner,
    Piece,
    is_text_type,
    read_blocks,
    uncleaned_piece,
)
from leafgate.clean.result import NO_CHANGES, CleaningReport, CleaningTimeout
from leafgate.digest.digest import Digest, NotKept, digest
from leafgate.digest.instance import FindViolations, Shortened, shorten, write_json
from leafgate.digest.outline import Unread, elements, members
from leafgate.digest.size import Count, Size, count_lines, cut_line, total, weigh
from leafgate.model.envelope import ArtifactRef, ResultEnvelope

MAX_FACTS: Final = 16
LONGEST_FACT: Final = 160
_LONGEST_KEY: Final = 60
DEFAULT_BUDGET: Final = 800
DEFAULT_INLINE: Final = 256 * 1024  # characters of base64 that one block may have and stay unchanged
INLINE_IN_ALL: Final = 4  # times as much may stay in all blocks together
LEAST_ROOM: Final = 120  # tokens of a digest; if blocks would get less each, they share one digest
MAX_NOTES: Final = 8  # notes on withheld bytes, one each; beyond, one for all others
SUMMARY_CHARS: Final = 500
NO_CONTENT: Final = "(no content)"

Binaries = dict[str, tuple[bytes, str, str]]


@dataclass(frozen=True)
class Choice:
    """Which texts are withheld, how many tokens each digest gets, and whether all texts share one digest."""

    withheld: tuple[int, ...] = ()
    room: int = 0
    as_one: bool = False


@dataclass(frozen=True)
class Withheld:
    """Content to store, and the block that replaces it once it has a handle.

    `piece` is what else its block has: with a second and third copy of the content, a large result would take long to
    pass between processes.
    """

    content: bytes
    media_type: str
    piece: Piece
    size: Size | None = None
    digest: Digest | None = None
    has_note: bool = True
    is_clean: bool = True

    def block(self, handle: str | None, why_not: NotKept = "too large to be kept") -> Block | None:
        if self.digest is not None:
            return self.piece.with_text(self.digest.text(handle, why_not))
        if not self.has_note:
            return None
        what = f"{self.media_type[:60]}, {len(self.content)} bytes"
        if not self.is_clean:
            stored = f"it was {why_not}" if handle is None else f'tool_view {{"handle":"{handle}"}} tries again'
            return {"type": "text", "text": f"[{what}, not shown: cleaning it took too long; {stored}]"}
        call = f'tool_view {{"handle":"{handle}","selector":{{"type":"bytes"}}}}'
        return {"type": "text", "text": f"[{what}, {why_not}]" if handle is None else f"[{what}: {call}]"}


@dataclass(frozen=True)
class ScreenedResult:
    """A result as a model reads it, except for the handles; its provenance for the envelope; what cleaning did.

    `structured` is its structured content, whole or shortened; None if it is not part of the result.
    """

    slots: tuple[Block | Withheld, ...]
    facts: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    structured: Shortened | None = None
    report: CleaningReport = NO_CHANGES


def screen(
    blocks: Sequence[Block],
    structured: Any,
    cleaner: Cleaner,
    *,
    count: Count,
    budget: int,
    inline: int = DEFAULT_INLINE,
    is_written: bool = False,
    find_violations: FindViolations | None = None,
    with_facts: bool = True,
) -> ScreenedResult:
    """Clean every block and withhold what does not fit.

    `structured` is added as a text, unless `is_written`: a block already contains it. The facts, if they are wanted,
    are those of the structured content, or else of a digest. With `find_violations`, the result has the structured
    content itself, clean: whole if it fits, and then no text repeats it; else shortened to what its schema allows.
    """
    count = total(count)
    pieces = read_blocks(blocks, cleaner)
    value, report, fits = structured, NO_CHANGES, True
    if structured is not None and (find_violations is not None or not is_written):
        try:
            clean = cleaner.json(structured)
            text = cleaner.text(write_json(clean.value))
        except CleaningTimeout:
            pieces += [] if is_written else [uncleaned_piece(write_json(structured))]
            structured = value = None
        else:
            value = clean.value
            fits = _surely_fits([text.value], budget) or weigh(text.value, count, budget).tokens <= budget
            if not is_written and (find_violations is None or not fits):
                pieces.append(Piece({"type": "text", "text": text.value}, clean.report + text.report, text.value))
            elif not is_written:
                report = clean.report  # what a text contains is in its report already
    provenance = _provenance(pieces, report, max_annotations=MAX_ANNOTATED)
    slots = _screen_texts(_screen_bytes(_limit_links(pieces, count, budget), inline), count, cleaner, budget)
    digests = [slot.digest for slot in slots if isinstance(slot, Withheld) and slot.digest is not None]
    visible = tuple(slot if isinstance(slot, Withheld) else slot.block for slot in slots)
    facts: tuple[str, ...] = ()
    if with_facts:
        facts = _clean_facts(value, cleaner) or next((each.facts for each in digests if each.facts), ())
    content: Shortened | None = None
    if find_violations is not None and structured is not None:
        is_whole = fits or not digests
        content = Shortened(value) if is_whole else shorten(value, find_violations, count, budget // 2)
    report = sum((piece.report for piece in pieces if piece.report is not NO_CHANGES), report)
    return ScreenedResult(visible, facts, provenance, content, report)


def choose(sizes: Sequence[int], budget: int) -> Choice:
    """Choose the largest texts to withhold, as few as let the others and the digests fit."""
    rest = sum(sizes)
    if rest <= budget:
        return Choice()
    half = budget // 2
    order = sorted(range(len(sizes)), key=lambda place: (-sizes[place], place))
    for number, place in enumerate(order, 1):
        rest -= sizes[place]
        room = min(half, (budget - rest) // number)
        if room >= min(LEAST_ROOM, half):
            return Choice(tuple(sorted(order[:number])), room)
    return Choice(tuple(range(len(sizes))), half, as_one=True)


Slot = Piece | Withheld


def _limit_links(pieces: Sequence[Piece], count: Count, budget: int) -> list[Piece]:
    """Keep links while they fit a quarter of the budget, and put further ones into one text as a list."""
    room = budget // 4
    result: list[Piece] = []
    excess: list[Any] = []
    for piece in pieces:
        is_link = piece.block["type"] == "resource_link"
        room -= count(json.dumps(piece.block, ensure_ascii=False)[: 128 * budget]) if is_link else 0
        if is_link and room < 0:
            excess.append(piece.block)
        else:
            result.append(piece)
    if excess:
        text = json.dumps(excess, ensure_ascii=False, separators=(",", ":"))  # of clean strings, apart by quotes
        result.append(Piece({"type": "text", "text": text}, text=text))
    return result


def _screen_bytes(pieces: Sequence[Piece], inline: int) -> list[Slot]:
    """Withhold bytes beyond the inline limits."""
    room, notes = inline * INLINE_IN_ALL, 0
    slots: list[Slot] = []
    for piece in pieces:
        if piece.uncleaned is not None:
            slots.append(Withheld(piece.uncleaned, piece.media_type, piece, is_clean=False))
            continue
        size = len(piece.data or b"") * 4 // 3
        if piece.data is None or size <= min(inline, room):
            room -= size
            slots.append(piece)
            continue
        text = piece.data.decode("utf-8", "replace") if is_text_type(piece.media_type) else None
        if text is not None and text.encode() == piece.data:  # a blob that is a text is read as one
            resource = {key: value for key, value in piece.block["resource"].items() if key != "blob"}
            slots.append(replace(piece, block={**piece.block, "resource": {**resource, "text": text}}, text=text))
            continue
        notes += 1
        slots.append(Withheld(piece.data, piece.media_type, piece.without_content(), has_note=notes <= MAX_NOTES))
    if notes > MAX_NOTES:
        more = f"[{notes - MAX_NOTES} more images or files are withheld; the result's artifacts list them]"
        slots.append(Piece({"type": "text", "text": more}))
    return slots


def _screen_texts(slots: Sequence[Slot], count: Count, cleaner: Cleaner, budget: int) -> list[Slot]:
    """Withhold texts that do not fit the budget together."""
    pieces = {at: slot for at, slot in enumerate(slots) if isinstance(slot, Piece) and slot.text is not None}
    texts = [piece.text or "" for piece in pieces.values()]
    if _surely_fits(texts, budget):
        return list(slots)
    places = list(pieces)
    sizes = [weigh(text, count, budget) for text in texts]
    choice = choose([size.tokens for size in sizes], budget)
    result = list(slots)
    if choice.as_one:
        text = "\n".join(texts)
        try:
            text = cleaner(text)
        except CleaningTimeout:
            whole = uncleaned_piece(text)
            result[places[0]] = Withheld(whole.uncleaned or b"", whole.media_type, whole, is_clean=False)
        else:
            whole = Piece({"type": "text", "text": text}, text=text)
            result[places[0]] = _withhold(whole, weigh(text, count, budget), count, cleaner, budget // 2)
        others = set(places[1:])
        return [slot for at, slot in enumerate(result) if at not in others]
    for at in choice.withheld:
        result[places[at]] = _withhold(pieces[places[at]], sizes[at], count, cleaner, choice.room)
    return result


def _surely_fits(texts: Sequence[str], budget: int) -> bool:
    """Whether an upper bound fits: a token spells at least one byte; some maps put one more token in front."""
    return sum(1 + (len(text) if text.isascii() else 4 * len(text)) for text in texts) <= budget


def _withhold(piece: Piece, size: Size, count: Count, cleaner: Cleaner, room: int) -> Withheld:
    text = piece.text or ""
    summary = digest(text, size, count, cleaner, room)
    media_type = piece.media_type if is_text_type(piece.media_type) else summary.shape.media_type
    return Withheld(text.encode("utf-8", "replace"), media_type, piece.without_content(), size, summary)


# Facts: the first level of structured content as short lines


def facts_of(value: Any) -> tuple[str, ...]:
    """Return a line per member of an object, in its order; nothing for any other value."""
    sample = members(value)
    if sample is None:
        return ()
    names = {key: " ".join(key[: 2 * _LONGEST_KEY].split())[:_LONGEST_KEY] for key in islice(sample[1], MAX_FACTS)}
    return tuple(f"{name}: {_describe(sample[1][key])}"[:LONGEST_FACT] for key, name in names.items())


def _clean_facts(value: Any, cleaner: Cleaner) -> tuple[str, ...]:
    """Clean each line too: it shows a name and a value together, which a pattern may recognise as a secret."""
    return tuple(cleaner(fact) for fact in facts_of(value))


def _describe(value: Any) -> str:
    if isinstance(value, str):
        line = " ".join(value[: 2 * LONGEST_FACT].split())
        return line if len(value) <= LONGEST_FACT else f"{line[: LONGEST_FACT // 2]}… ({len(value)} characters)"
    array, item = elements(value), members(value)
    if array is not None:
        return f"{array[0]} items"
    if item is not None:
        return f"{item[0]} members"
    if isinstance(value, Unread):
        return f"a large {value.kind}"
    if isinstance(value, int) and value.bit_length() >= 512:
        return "a huge number"
    return json.dumps(value)


# Envelopes for programs that store results themselves. Handles are made from the name of the tool: they are unique
# within one result and not secret.

_CLEANER: Final = Cleaner()


def mcp_result_to_envelope(
    mcp_result: Mapping[str, Any], tool_name: str, *, cleaner: Cleaner = _CLEANER
) -> tuple[ResultEnvelope, Binaries, str]:
    """Return the envelope, the bytes by handle with their media type and label, and the whole text, all clean."""
    content = mcp_result.get("content")
    blocks = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    pieces = read_blocks([block for block in blocks if isinstance(block, Mapping)], cleaner)
    contents = [
        _artifact_of(piece, f"mcp:{tool_name}:{piece.block['type']}:{place}", tool_name)
        for place, piece in enumerate(pieces)
        if piece.block["type"] != "text"
    ]
    refs = [ref for ref, _ in contents]
    binaries: Binaries = {ref.handle: content for ref, content in contents}
    report = NO_CHANGES
    facts: tuple[str, ...] = ()
    structured = mcp_result.get("structuredContent")
    if structured is not None:
        result = cleaner.json(structured)
        report = result.report
        facts = _clean_facts(result.value, cleaner)
        handle, label = f"mcp:{tool_name}:structured_content", f"structured content of {tool_name}"
        data = json.dumps(result.value, ensure_ascii=False, default=str).encode("utf-8", "replace")
        refs.append(ArtifactRef(handle, "application/json", len(data), lines=1, label=label))
        binaries[handle] = (data, "application/json", label)
    texts = (piece.text for piece in pieces if piece.text is not None)
    full_text = cleaner.recheck("\n".join(texts) or "\n".join(facts)) or NO_CONTENT
    envelope = ResultEnvelope(
        "error" if mcp_result.get("isError") is True else "ok",
        summary=cut_line(full_text, SUMMARY_CHARS),
        facts=facts,
        artifacts=tuple(refs),
        provenance={"tool": tool_name, **_provenance(pieces, report)},
    )
    return envelope, binaries, full_text


def _provenance(
    pieces: Sequence[Piece], report: CleaningReport = NO_CHANGES, max_annotations: int | None = None
) -> dict[str, Any]:
    """Return the lists that an envelope has about the origin of its content, without the empty ones.

    `report` adds what was cleaned beside the pieces.
    """
    report = sum((piece.report for piece in pieces if piece.report is not NO_CHANGES), report)
    annotations = [{"part_index": at, **piece.annotations} for at, piece in enumerate(pieces) if piece.annotations]
    lists = {
        "removed": [{"kind": kind, "count": n} for kind, n in sorted(report.removed.items())],
        "redacted": [{"type": kind, "count": n} for kind, n in sorted(report.redacted.items())],
        "flagged": [{"kind": kind, "count": n} for kind, n in sorted(report.flagged.items())],
        "content_annotations": annotations[:max_annotations],
        "not_cleaned": [
            {"part_index": at, "bytes": len(piece.uncleaned)}
            for at, piece in enumerate(pieces)
            if piece.uncleaned is not None
        ],
    }
    return {name: entries for name, entries in lists.items() if entries}


def _artifact_of(piece: Piece, handle: str, tool_name: str) -> tuple[ArtifactRef, tuple[bytes, str, str]]:
    """Return a block as an artifact: its bytes, the bytes of its text, or the address that it links to."""
    block = piece.block
    if block["type"] == "resource_link":
        uri, label = str(block["uri"]), str(block["name"] or block["uri"])
        declared = block.get("mimeType")
        media_type = declared if isinstance(declared, str) else "application/octet-stream"
        ref = ArtifactRef(handle, media_type, len(uri.encode()), label=label, uri=uri)
        return ref, (uri.encode(), "text/uri-list", label)
    uri = str(block["resource"]["uri"]) if block["type"] == "resource" else ""
    label = uri or f"{block['type']} of {tool_name}"
    data = piece.data if piece.data is not None else (piece.text or "").encode("utf-8", "replace")
    lines = 0 if piece.text is None else count_lines(piece.text)
    ref = ArtifactRef(handle, piece.media_type, len(data), lines=lines, label=label, uri=uri)
    return ref, (data, piece.media_type, label)
