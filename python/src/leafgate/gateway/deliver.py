"""The one door through which foreign content leaves. In: a raw result. Out: a result that a model may read.

Awaits the ArtifactStore port. Order: clean, shorten (what is withheld is stored), give ids. Nothing goes round it.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from sys import maxsize
from time import thread_time
from typing import Any, Final, TypeVar

from anyio import lowlevel, to_thread

from leafgate.codec.ledger import Ledger
from leafgate.codec.read_leaf import (
    find_codec_meta,
    is_legacy_block,
    is_text_block,
    strip_everywhere,
    without_payload,
)
from leafgate.codec.write_leaf import with_payload
from leafgate.firewall.cleaner import Cleaner
from leafgate.firewall.digest import NotKept
from leafgate.firewall.fit import total
from leafgate.firewall.screen import DEFAULT_INLINE, Screened, Withheld, screen, structured_facts
from leafgate.gateway.room import LARGE_FROM, Room
from leafgate.gateway.serving import UNTRACED
from leafgate.model.call import Asking, Origin
from leafgate.model.envelope import ENVELOPE_META_KEY, Artifact, ArtifactRef, ResultEnvelope
from leafgate.model.errors import GatewayError, StoreError
from leafgate.model.leaf import Level
from leafgate.ports import ArtifactStore, LeafReport, Recorder, Tracer
from leafgate.tokens.encoder import Encoder

log = logging.getLogger("leafgate.gateway")

# Of bytes: so many are cleaned and tokenized in some 5 ms, and the loop is to be held for 20 ms at most.
THREAD_FROM: Final = 8_192
# A result may have ten thousand blocks: others get their turn while so many of them are reported.
REPORTS_AT_ONCE: Final = 200
SUMMARY_CHARS: Final = 500

_PLAIN: Final = frozenset((int, float, bool, type(None)))

Block = Mapping[str, Any]
Count = Callable[[str], int]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Door:
    """What delivering needs: the ports, the cleaner, the counter, the budget, and the encoder of a digest.

    Servers with a policy of their own have their cleaner in `clean_for`, and their leaves' check in `level_for`.
    """

    artifacts: ArtifactStore
    recorder: Recorder
    clean: Cleaner
    count: Count
    budget: int
    level: Level
    encoder_of: Callable[[str], Awaitable[Encoder]]
    inline_bytes: int = DEFAULT_INLINE
    clean_for: Mapping[str, Cleaner] = field(default_factory=dict)
    level_for: Mapping[str, Level] = field(default_factory=dict)
    tracer: Tracer = UNTRACED
    room: Room = field(default_factory=Room)

    def cleaner(self, origin: Origin | None) -> Cleaner:
        """The cleaner for what comes from there."""
        return self.clean if origin is None else self.clean_for.get(origin.server, self.clean)

    async def ledger(self, asking: Asking, origin: Origin | None = None) -> Ledger | None:
        """Where the ids of a result's texts are kept; None for a client that gets no ids.

        A map that was there when the call began may be gone by now. The answer is worth more than its ids.
        """
        if asking.map_digest is None:
            return None
        try:
            encoder = await self.encoder_of(asking.map_digest)
        except GatewayError:
            return None
        level = self.level if origin is None else self.level_for.get(origin.server, self.level)
        return Ledger(encoder, level, thread_time)  # of this thread alone: what others did meanwhile is no cost

    def counter(self, ledger: Ledger | None) -> Count:
        """Counts as the receiving model does, where its map is known."""
        return total(self.count if ledger is None else ledger.count)


class _Tally:
    """What became of the text blocks of one result: the tool's, and those that the gateway wrote in their place."""

    def __init__(self) -> None:
        self.reports: list[LeafReport] = []
        self.own: list[LeafReport] = []

    def add(self, report: LeafReport, *, is_own: bool) -> None:
        (self.own if is_own else self.reports).append(report)

    async def tell(self, recorder: Recorder, origin: Origin, map_digest: str) -> None:
        for told, report in enumerate(self.reports, 1):
            recorder.leaf(origin, map_digest, report)
            if told % REPORTS_AT_ONCE == 0:
                await lowlevel.checkpoint()
        for report in self.own:
            recorder.own_text(map_digest, report.tokens, report.tokenize_seconds)

    def as_json(self) -> dict[str, Any]:
        outcomes = Counter(report.outcome for report in self.reports)
        rejected = Counter(report.rejected for report in self.reports if report.rejected is not None)
        body: dict[str, Any] = {"leafBypasses": outcomes["leaf"], "tokenizeCalls": outcomes["shim"]}
        return body | ({"rejected": dict(rejected)} if rejected else {})


async def deliver_result(
    door: Door,
    asking: Asking,
    origin: Origin,
    raw: Mapping[str, Any],
    *,
    provenance: Mapping[str, Any] | None = None,
    structured: bool = False,
    may_have_leaves: bool = True,
) -> dict[str, Any]:
    """A tool's result, cleaned, shortened, and with ids of the client's map.

    `provenance`: what else is to be told. `structured`: the structured content goes along, clean and whole, for a
    client that knows the tool's output schema. Resources and prompts come as such results too; they have no leaves,
    so that tokenizing them is no shim that a server could spare us.
    """
    size = rough_size(raw.get("content"), raw.get("structuredContent"))
    async with nullcontext() if size < THREAD_FROM else in_room(door, raw):
        return await _delivered(
            door,
            asking,
            origin,
            raw,
            size=size,
            provenance=provenance,
            structured=structured,
            may_have_leaves=may_have_leaves,
        )


async def _delivered(
    door: Door,
    asking: Asking,
    origin: Origin,
    raw: Mapping[str, Any],
    *,
    size: int,
    provenance: Mapping[str, Any] | None,
    structured: bool,
    may_have_leaves: bool,
) -> dict[str, Any]:
    cleaner, ledger = door.cleaner(origin), await door.ledger(asking, origin)
    with door.tracer.stage("screen"):
        screened = await off_loop(size, partial(_screened, door, raw, cleaner, ledger, may_have_leaves))
    with door.tracer.stage("store"):
        kept, own, refs = await _store(door, asking, origin, screened.slots, door.counter(ledger))
    tally = _Tally()
    own = own if may_have_leaves else set(range(len(kept)))
    with door.tracer.stage("ids"):
        visible = await off_loop(size, partial(_with_ids, kept, own, ledger, asking, tally))
    await tally.tell(door.recorder, origin, asking.map_digest or "")
    is_error = raw.get("isError") is True
    told: dict[str, Any] = {"server": origin.server, "tool": origin.tool, **(provenance or {})}
    told |= screened.found.as_provenance()
    if screened.annotations:
        told["content_annotations"] = list(screened.annotations)
    if ledger is not None:
        told |= {"map_id": asking.map_digest, "codec": tally.as_json()}
    envelope = ResultEnvelope(
        "error" if is_error else "ok",
        summary=_summary(kept) if refs else "",
        facts=structured_facts(raw.get("structuredContent"), cleaner) or screened.facts,
        artifacts=tuple(refs),
        provenance=told,
    )
    result: dict[str, Any] = {"content": visible, "isError": is_error}
    if structured and isinstance(raw.get("structuredContent"), Mapping):
        result["structuredContent"] = await off_loop(size, partial(_clean_structured, raw, cleaner))
    return result | {"_meta": {ENVELOPE_META_KEY: envelope.as_json()}}


async def deliver_own(
    door: Door, asking: Asking, text: str, *, is_error: bool = False, meta: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A text that the gateway wrote itself: cards, schemas, views, errors."""
    block: Block = {"type": "text", "text": text}
    ledger = await door.ledger(asking)
    if ledger is not None:
        block, known = await off_loop(_most_bytes(text), partial(ledger.annotate, block, asking.form))
        door.recorder.own_text(asking.map_digest or "", len(known.ids or ()), known.tokenize_seconds)
    result: dict[str, Any] = {"content": [dict(block)], "isError": is_error}
    return result | ({"_meta": dict(meta)} if meta else {})


@asynccontextmanager
async def in_room(door: Door, raw: Mapping[str, Any]) -> AsyncIterator[None]:
    """Inside this context a raw result may be worked on, however large it is."""
    async with door.room.of(await _whole_size(raw)):
        yield


async def off_loop(size: int, work: Callable[[], Answer]) -> Answer:
    """Large work goes to a thread, so that no other client waits for it."""
    return work() if size < THREAD_FROM else await to_thread.run_sync(work)


def _screened(
    door: Door, raw: Mapping[str, Any], cleaner: Cleaner, ledger: Ledger | None, may_have_leaves: bool
) -> Screened:
    blocks, untold = _readable(raw, may_have_leaves)
    if ledger is not None:
        ledger.hear(blocks)
    count = door.counter(ledger)
    return screen(blocks, untold, cleaner, count=count, budget=door.budget, inline=door.inline_bytes)


def _readable(raw: Mapping[str, Any], may_have_leaves: bool) -> tuple[list[Block], Any]:
    """The content, with withdrawn siblings folded into their text blocks, and structured content that no text tells."""
    content = raw.get("content")
    listed = content if isinstance(content, Sequence) and not isinstance(content, str) else []
    blocks: list[Block] = []
    for index, block in enumerate(listed):
        if not isinstance(block, Mapping) or is_legacy_block(block):
            continue
        found = find_codec_meta(raw, index) if may_have_leaves else None
        rest = strip_everywhere(block)  # ids elsewhere than on a text block have nobody who judges them
        blocks.append(rest if found is None else with_payload(rest, found.as_json()))
    structured = raw.get("structuredContent")
    if structured is not None and any(_tells(block, structured) for block in blocks):
        structured = None
    return blocks, strip_everywhere(structured)


def _clean_structured(raw: Mapping[str, Any], cleaner: Cleaner) -> Any:
    return cleaner.json(strip_everywhere(raw["structuredContent"])).value


def _tells(block: Block, structured: object) -> bool:
    """Whether this block's text is the structured content written out, as servers do for older clients: as JSON, or,
    where it has but one member, as the text that this is."""
    if not is_text_block(block):
        return False
    if isinstance(structured, Mapping) and [*structured.values()] == [block["text"]]:
        return True
    try:
        return bool(json.loads(block["text"]) == structured)
    except (ValueError, RecursionError):
        return False


async def _whole_size(raw: Mapping[str, Any]) -> int:
    """In bytes, where there are many."""
    size = rough_size(raw, most=LARGE_FROM)
    return size if size < LARGE_FROM else await to_thread.run_sync(partial(rough_size, raw, most=maxsize))


def rough_size(*values: Any, most: int = THREAD_FROM) -> int:
    """Enough to know whether the work is large, and not more: what is beyond `most` is not looked at."""
    size = 0
    waiting: list[Any] = [*values]
    while waiting and size < most:
        value = waiting.pop()
        if isinstance(value, str):
            size += _most_bytes(value)
        elif isinstance(value, dict | Mapping):
            size += 16 + len(value)
            for inside in value.values():  # texts at once: most are decided by them
                if isinstance(inside, str):
                    size += _most_bytes(inside)
                else:
                    waiting.append(inside)
        elif isinstance(value, list):
            size += 16 + len(value)
            if size < most and not _PLAIN.issuperset(map(type, value)):  # ids and vectors are many, and hold nothing
                waiting += value
    return size


def _most_bytes(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


async def _store(
    door: Door, asking: Asking, origin: Origin, slots: Sequence[Block | Withheld], count: Count
) -> tuple[list[Block], set[int], list[ArtifactRef]]:
    """Stores what is withheld; its handle completes what stands in its place, which is the gateway's own."""
    blocks: list[Block] = []
    own: set[int] = set()
    refs: list[ArtifactRef] = []
    for slot in slots:
        if not isinstance(slot, Withheld):
            blocks.append(slot)
            continue
        label = f"{origin.server}:{origin.tool}"
        artifact = Artifact(slot.content, slot.media_type, label, origin, slot.size is not None)
        handle, why_not = await _kept(door, asking, artifact)
        block = slot.block(handle, why_not)
        if handle is not None:
            refs.append(_ref(handle, slot))
        if block is not None:
            own.add(len(blocks))
            blocks.append(block)
        if slot.size is not None and slot.digest is not None:
            door.recorder.shortened(origin, slot.size.tokens, count(slot.digest.text(handle, why_not)))
    return blocks, own, refs


async def _kept(door: Door, asking: Asking, artifact: Artifact) -> tuple[str | None, NotKept]:
    """The handle, if there is one. A store that fails costs the rest of a result, and not what is shown of it."""
    try:
        return await door.artifacts.put(asking.owner, artifact), "too large to be kept"
    except StoreError as error:
        log.error("an artifact of %s cannot be kept: %s", artifact.label, error)
        return None, "not kept: the gateway's store fails"


def _ref(handle: str, slot: Withheld) -> ArtifactRef:
    resource = slot.piece.block.get("resource")
    uri = str(resource.get("uri", "")) if isinstance(resource, Mapping) else ""
    if slot.size is None:
        return ArtifactRef(handle, slot.media_type, len(slot.content), uri=uri)
    size = slot.size
    return ArtifactRef(
        handle, slot.media_type, len(slot.content), size.tokens, size.lines, tokens_estimated=size.estimated, uri=uri
    )


def _summary(blocks: Sequence[Block]) -> str:
    return "\n".join(block["text"] for block in blocks if is_text_block(block))[:SUMMARY_CHARS]


def _with_ids(
    blocks: Sequence[Block], own: set[int], ledger: Ledger | None, asking: Asking, tally: _Tally
) -> list[dict[str, Any]]:
    visible: list[dict[str, Any]] = []
    for index, block in enumerate(blocks):
        if not is_text_block(block):
            visible.append(dict(block))
        elif ledger is None:
            visible.append(dict(without_payload(block)))
        else:
            made, known = ledger.annotate(block, asking.form)
            visible.append(dict(made))
            tally.add(known.report, is_own=index in own)
    return visible
