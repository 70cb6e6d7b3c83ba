"""The one door through which foreign content leaves. In: a raw result. Out: a result that a model may read.

Awaits the ArtifactStore port. Order: clean, shorten (what is withheld is stored), give ids. Nothing goes round it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from anyio import to_thread

from leafgate.codec.annotate import Annotated, annotate
from leafgate.codec.read_leaf import find_codec_meta, is_legacy_block, is_text_block, without_payload
from leafgate.codec.write_leaf import with_payload
from leafgate.firewall.screen import choose_withheld, digest
from leafgate.model.call import Asking, Origin
from leafgate.model.envelope import ENVELOPE_META_KEY, Artifact, ArtifactRef, ResultEnvelope
from leafgate.model.leaf import Level
from leafgate.ports import ArtifactStore, Recorder
from leafgate.tokens.encoder import Encoder

# Below this many characters a text is tokenized faster than a thread is found.
THREAD_FROM: Final = 16_384

Block = Mapping[str, Any]
Count = Callable[[str], int]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Door:
    """What delivering needs: the ports, the cleaner, the counter, the budget, and the encoder of a digest."""

    artifacts: ArtifactStore
    recorder: Recorder
    clean: Callable[[str], str]
    count: Count
    budget: int
    level: Level
    encoder_of: Callable[[str], Encoder]


@dataclass
class _Tally:
    """What became of the blocks of one result."""

    leaf: int = 0
    shim: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"leafBypasses": self.leaf, "tokenizeCalls": self.shim}
        if self.rejected:
            body["rejected"] = self.rejected
        return body


async def deliver_result(door: Door, asking: Asking, origin: Origin, raw: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's result, cleaned, shortened, and with ids of the client's map."""
    blocks = _readable_blocks(raw)
    cleaned = [_cleaned(block, door.clean) for block in blocks]
    screened, refs = await _screen(door, asking, origin, cleaned)
    tally = _Tally()
    visible = [await _with_ids(door, asking, origin, block, tally) for block in screened]
    is_error = raw.get("isError") is True
    provenance: dict[str, Any] = {"server": origin.server, "tool": origin.tool}
    if asking.map_digest is not None:
        provenance |= {"map_id": asking.map_digest, "codec": tally.as_json()}
    envelope = ResultEnvelope("error" if is_error else "ok", tuple(refs), provenance)
    return {"content": visible, "isError": is_error, "_meta": {ENVELOPE_META_KEY: envelope.as_json()}}


async def deliver_own(
    door: Door, asking: Asking, text: str, *, is_error: bool = False, meta: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A text that the gateway wrote itself: cards, schemas, views, errors."""
    block: Block = {"type": "text", "text": text}
    if asking.map_digest is not None:
        made = await _annotated(door, asking, block)
        door.recorder.own_text(asking.map_digest, made.tokens)
        block = made.block
    result: dict[str, Any] = {"content": [dict(block)], "isError": is_error}
    return result | ({"_meta": dict(meta)} if meta else {})


def _readable_blocks(raw: Mapping[str, Any]) -> list[Block]:
    """The content, with withdrawn siblings folded into their text blocks, and structured content that no text tells."""
    content = raw.get("content")
    listed = content if isinstance(content, Sequence) and not isinstance(content, str) else []
    blocks: list[Block] = []
    for index, block in enumerate(listed):
        if not isinstance(block, Mapping) or is_legacy_block(block):
            continue
        found = find_codec_meta(raw, index)
        blocks.append(block if found is None else with_payload(block, found.as_json()))
    structured = raw.get("structuredContent")
    if structured is not None and not any(_tells(block, structured) for block in blocks):
        blocks.append({"type": "text", "text": json.dumps(structured, ensure_ascii=False, separators=(",", ":"))})
    return blocks


def _tells(block: Block, structured: object) -> bool:
    """Whether this block's text is the structured content written out, as servers do for older clients."""
    if not is_text_block(block):
        return False
    if structured == {"result": block["text"]}:
        return True
    try:
        return bool(json.loads(block["text"]) == structured)
    except (ValueError, RecursionError):
        return False


def _cleaned(block: Block, clean: Callable[[str], str]) -> Block:
    if not is_text_block(block):
        return block
    text = clean(block["text"])
    return block if text == block["text"] else {**block, "text": text}


async def _screen(
    door: Door, asking: Asking, origin: Origin, blocks: Sequence[Block]
) -> tuple[list[Block], list[ArtifactRef]]:
    """Shortens what does not fit, and stores it whole."""
    positions = [index for index, block in enumerate(blocks) if is_text_block(block)]
    texts = [blocks[index]["text"] for index in positions]
    withheld = await _off_loop(sum(map(len, texts)), partial(choose_withheld, texts, door.count, door.budget))
    screened = list(blocks)
    refs: list[ArtifactRef] = []
    for position, kept in sorted(withheld.items()):
        artifact = Artifact(kept.text.encode("utf-8", "replace"), "text/plain", f"{origin.server}:{origin.tool}")
        handle = await door.artifacts.put(asking.owner, artifact)
        refs.append(ArtifactRef(handle, artifact.media_type, len(artifact.content), kept.tokens, kept.lines))
        short = digest(kept, handle, door.count, door.budget)
        door.recorder.shortened(origin, kept.tokens, door.count(short))
        screened[positions[position]] = {**blocks[positions[position]], "text": short}
    return screened, refs


async def _with_ids(door: Door, asking: Asking, origin: Origin, block: Block, tally: _Tally) -> dict[str, Any]:
    if not is_text_block(block):
        return dict(block)
    if asking.map_digest is None:
        return dict(without_payload(block))
    made = await _annotated(door, asking, block)
    if made.rejected is not None:
        tally.rejected[made.rejected] = tally.rejected.get(made.rejected, 0) + 1
        door.recorder.leaf(origin, asking.map_digest, "rejected", 0, made.rejected)
    tally.leaf += made.outcome == "leaf"
    tally.shim += made.outcome == "shim"
    door.recorder.leaf(origin, asking.map_digest, made.outcome, made.tokens, None)
    return dict(made.block)


async def _annotated(door: Door, asking: Asking, block: Block) -> Annotated:
    assert asking.map_digest is not None
    encoder = door.encoder_of(asking.map_digest)
    return await _off_loop(len(block["text"]), partial(annotate, block, encoder, door.level, asking.form))


async def _off_loop(size: int, work: Callable[[], Answer]) -> Answer:
    """Large work goes to a thread, so that no other client waits for it."""
    return work() if size < THREAD_FROM else await to_thread.run_sync(work)
