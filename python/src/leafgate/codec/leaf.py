"""Leaves on tool results: read, strip, write and verify them (spec 5.5 to 5.7), and the ledger of one result's ids.

Reading does not check ids: the caller checks them with tokens.verify before using them. No function changes the result
that it receives. After writing, the payload of a block is right for its text, or there is none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

import pydantic_core

from leafgate.codec.negotiate import IdsWish, read_wish
from leafgate.model.errors import CodecMetaMapMismatchError, TextError
from leafgate.model.leaf import (
    CODEC_META_KEY,
    WITHDRAWN_BLOCK_TYPE,
    LeafPayload,
    Level,
    Reason,
    parse_digest,
)
from leafgate.model.request import Form
from leafgate.ports import LeafOutcome, LeafReport
from leafgate.tokens.encoder import Encoder, encode_array
from leafgate.tokens.ids import TokenIds, read_payload
from leafgate.tokens.verify import check

log = logging.getLogger("leafgate.codec")

Source = Literal["meta", "sibling"]

# Bytes of the texts of a result that gets ids. SDK 1.x clients end a connection over stdio at a line of 10 MiB. In JSON
# a byte of text takes up to 10: six for a control character and four for its id, or two and eight for others.
MAX_TEXT_LENGTH: Final = 1_000_000

# Deeper values reach no client: the cleaner withholds them.
_LEVELS: Final = 200
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True)
class LeafEntry:
    """A text block and its payload, if any. Packed ids are a list here."""

    text_index: int
    text: str
    ids: Sequence[Any] | None
    map_id: str | None
    source: Source | None


def is_text_block(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)


def is_withdrawn_block(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == WITHDRAWN_BLOCK_TYPE


def content_of(result: Mapping[str, Any]) -> Sequence[Any]:
    """Return the blocks of a result; none if `content` is missing or not an array."""
    content = result.get("content")
    return content if isinstance(content, Sequence) and not isinstance(content, str) else ()


def read_codec_meta_from_block(block: object) -> LeafPayload | None:
    """Return the payload in the block's own `_meta`, or None."""
    meta = block.get("_meta") if isinstance(block, Mapping) else None
    return read_payload(meta.get(CODEC_META_KEY)) if isinstance(meta, Mapping) else None


def _find(content: Sequence[Any], index: int) -> tuple[LeafPayload | None, Source | None]:
    if not 0 <= index < len(content) or not is_text_block(content[index]):
        return None, None
    own = read_codec_meta_from_block(content[index])
    if own is not None:
        return own, "meta"
    behind = content[index + 1] if index + 1 < len(content) else None
    sibling = read_payload(behind) if is_withdrawn_block(behind) else None
    return sibling, None if sibling is None else "sibling"


def find_codec_meta(result: Mapping[str, Any], text_index: int) -> LeafPayload | None:
    """Return the payload of the text block at this index of `content`, in either form, or None."""
    return _find(content_of(result), text_index)[0]


def has_codec_meta(result: Mapping[str, Any]) -> bool:
    content = content_of(result)
    return any(_find(content, index)[0] is not None for index in range(len(content)))


def read_codec_meta(result: Mapping[str, Any], *, expected_map_hash: str | None = None) -> list[LeafEntry]:
    """Return one entry per text block. CodecMetaMapMismatchError if a payload belongs to another map than expected."""
    expected = None if expected_map_hash is None else parse_digest(expected_map_hash)
    content = content_of(result)
    entries = []
    for index, block in enumerate(content):
        if not is_text_block(block):
            continue
        payload, source = _find(content, index)
        if payload is not None and expected is not None and payload.map_id != expected:
            raise CodecMetaMapMismatchError(expected, payload.map_id, index)
        ids, map_id = (None, None) if payload is None else (_as_list(payload.ids), payload.map_id)
        entries.append(LeafEntry(index, block["text"], ids, map_id, source))
    return entries


def _as_list(ids: Sequence[Any]) -> Sequence[Any]:
    return ids.as_list() if isinstance(ids, TokenIds) else ids


def take_ids(result: Mapping[str, Any], *, expected_map_hash: str | None = None) -> list[Sequence[Any] | None]:
    return [entry.ids for entry in read_codec_meta(result, expected_map_hash=expected_map_hash)]


def without_payload(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the block without its payload, or the same object if it has none. Other `_meta` keys stay."""
    meta = block.get("_meta")
    if not isinstance(meta, Mapping) or CODEC_META_KEY not in meta:
        return block
    rest = {key: value for key, value in meta.items() if key != CODEC_META_KEY}
    others = {key: value for key, value in block.items() if key != "_meta"}
    return {**others, "_meta": rest} if rest else others


def strip_codec_meta(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result without payloads and siblings, or the same object if there is nothing to remove."""
    content = content_of(result)
    blocks = [without_payload(b) if is_text_block(b) else b for b in content if not is_withdrawn_block(b)]
    return result if _same_items(blocks, content) else {**result, "content": blocks}


def strip_everywhere(value: Any, levels: int = _LEVELS) -> Any:
    """Return the JSON value without payloads and siblings at any depth, or the same object if there are none.

    Ids spell a text that the cleaner does not see, so ids that are not verified must not pass.
    """
    if isinstance(value, Mapping):
        return _strip_members(without_payload(value), levels)
    if isinstance(value, list) and levels > 0 and not set(map(type, value)) <= _SCALARS:
        items = [strip_everywhere(item, levels - 1) for item in value if not is_withdrawn_block(item)]
        return value if _same_items(items, value) else items
    return value


def _strip_members(members: Mapping[str, Any], levels: int) -> Mapping[str, Any]:
    if levels <= 0 or (CODEC_META_KEY not in members and set(map(type, members.values())) <= _SCALARS):
        return members
    rest = {
        key: strip_everywhere(item, levels - 1)
        for key, item in members.items()
        if key != CODEC_META_KEY and not is_withdrawn_block(item)
    }
    return members if _same_items(rest.values(), members.values()) else rest


def _same_items(new: Collection[Any], old: Collection[Any]) -> bool:
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


# Writing


def build_meta_block(text: str, meta: Encoder, *, packed: bool = False) -> dict[str, Any] | None:
    """Return the payload for a text, or None if the text is empty or has no tokenization."""
    if not text:
        return None
    try:
        ids = TokenIds(encode_array(meta, text)) if packed else meta.encode(text)
    except TextError:
        return None
    return {"map_id": meta.map.digest, "ids": write_ids(ids, packed=packed)}


def write_ids(ids: Sequence[int], *, packed: bool) -> Sequence[int] | str:
    """The ids as a payload has them: a list, or packed unless one of them is too large for that."""
    if not packed:
        return _as_list(ids)
    array = ids if isinstance(ids, TokenIds) else TokenIds.from_list(ids)
    return array.as_list() if array.packed is None else array.packed


def with_payload(block: Mapping[str, Any], payload: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the block with this payload in place of any other."""
    if payload is None:
        return without_payload(block)
    meta = block.get("_meta")
    others = meta if isinstance(meta, Mapping) else {}
    return {**block, "_meta": {**others, CODEC_META_KEY: payload}}


def wrap_tool_call(
    result: Mapping[str, Any],
    meta: Encoder | Sequence[Encoder],
    *,
    min_text_length: int = 1,
    max_text_length: int = MAX_TEXT_LENGTH,
    request_meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the result with a leaf on every text block that can have one.

    `request_meta` is the `_meta` of the call: what a gateway asks for in it decides the map, of those that are loaded,
    and the form. A result whose texts have more than `max_text_length` bytes gets no ids.
    """
    encoders = list(meta) if isinstance(meta, Sequence) else [meta]
    if not all(hasattr(encoder, "encode") for encoder in encoders):
        kind = next(type(encoder).__name__ for encoder in encoders if not hasattr(encoder, "encode"))
        raise TypeError(f"wrap_tool_call needs a loaded encoder, and got {kind}; await what loads it first")
    content = content_of(result)
    if not content:
        return dict(result)
    wish = read_wish(request_meta)
    wrapped: list[Any] = []
    behind_text = False
    fits = _text_bytes(content) <= max_text_length
    encoder = choose_encoder(encoders, wish) if fits else None
    for block in content:
        if is_withdrawn_block(block) and behind_text:
            continue
        behind_text = is_text_block(block)
        if not behind_text:
            wrapped.append(block)
        elif encoder is None:
            wrapped.append(without_payload(block))
        else:
            is_packed = wish is not None and wish.form == "packed"
            wrapped.append(_wrap_block(block, encoder, min_text_length, packed=is_packed))
    return {**result, "content": wrapped}


def choose_encoder(encoders: Sequence[Encoder], wish: IdsWish | None) -> Encoder | None:
    """The encoder of the first map that is wanted; without a wish the first one; None if no ids are wanted."""
    if wish is None:
        return encoders[0] if encoders else None
    if wish.form == "none":
        return None
    by_digest = {encoder.map.digest: encoder for encoder in encoders}
    return next((by_digest[digest] for digest in wish.maps if digest in by_digest), None)


def _text_bytes(content: Sequence[Any]) -> int:
    return sum(len(block["text"].encode("utf-8", "surrogatepass")) for block in content if is_text_block(block))


def _wrap_block(block: Mapping[str, Any], meta: Encoder, min_text_length: int, *, packed: bool) -> Mapping[str, Any]:
    text = block["text"]
    if len(text) >= min_text_length:
        return with_payload(block, _build_or_leave(text, meta, packed=packed))
    payload = read_codec_meta_from_block(block)
    if payload is not None and check(meta, text, payload.ids, level="canonical", map_id=payload.map_id).accepted:
        return block
    return without_payload(block)


def _build_or_leave(text: str, meta: Encoder, *, packed: bool) -> dict[str, Any] | None:
    """The payload for a text; None also if the tokenizer fails: the result of a tool is worth more than its ids."""
    try:
        return build_meta_block(text, meta, packed=packed)
    except Exception as error:
        log.warning("a result stays plain: the tokenizer failed with %s: %s", type(error).__name__, error)
        return None


# Verification


@dataclass(frozen=True)
class LeafVerdict:
    """The verdict on the leaf of one text block."""

    text_index: int
    verdict: Literal["accept", "reject", "absent"]
    reason: Reason | None


def verify_codec_meta(result: Mapping[str, Any], meta: Encoder, *, level: Level = "canonical") -> list[LeafVerdict]:
    """Return one verdict per text block; `absent` if it has no payload (spec 5.7)."""
    verdicts = []
    for entry in read_codec_meta(result):
        if entry.ids is None:
            verdicts.append(LeafVerdict(entry.text_index, "absent", None))
            continue
        verdict = check(meta, entry.text, entry.ids, level=level, map_id=entry.map_id)
        verdicts.append(LeafVerdict(entry.text_index, "accept" if verdict.accepted else "reject", verdict.reason))
    return verdicts


def read_blocks(raw: Mapping[str, Any], *, may_have_leaves: bool = True) -> tuple[list[Mapping[str, Any]], Any]:
    """Return the blocks with payloads of withdrawn siblings on their text blocks, and structured content if no text
    block contains it."""
    blocks: list[Mapping[str, Any]] = []
    for index, block in enumerate(content_of(raw)):
        if not isinstance(block, Mapping) or is_withdrawn_block(block):
            continue
        payload = find_codec_meta(raw, index) if may_have_leaves else None
        rest = strip_everywhere(block)  # ids elsewhere than on a text block are not checked by anything
        blocks.append(rest if payload is None else with_payload(rest, {"map_id": payload.map_id, "ids": payload.ids}))
    structured = raw.get("structuredContent")
    if structured is not None and any(_holds(block, structured) for block in blocks):
        structured = None
    return blocks, strip_everywhere(structured)


def _holds(block: Mapping[str, Any], structured: object) -> bool:
    """Is the block's text the structured content, as servers write it for older clients: as JSON, or as the text of its
    only member?"""
    if not is_text_block(block):
        return False
    if isinstance(structured, Mapping) and [*structured.values()] == [block["text"]]:
        return True
    try:
        return bool(json.loads(block["text"]) == structured)
    except (ValueError, RecursionError):
        return False


# The ledger
#
# A leaf is valid only for the exact text that it came with: a text that the cleaner changed has none, so no id can
# spell what was removed. Each leaf is verified and each text tokenized at most once, and only on demand: counting
# tokens for a budget and adding ids share the work, and its time is reported once.


class CheckPlan(Protocol):
    """Decides how far the leaves of one server are checked, and is told what came of it."""

    @property
    def canonical_share(self) -> float:
        """The share of leaves that are checked at level `canonical`."""

    def next_level(self) -> Level:
        """The level of the next check."""

    def note_verdict(self, reason: Reason | None) -> None:
        """A leaf was accepted (None), or rejected for this reason."""

    def measures_next(self) -> bool:
        """Whether to measure, for the next text without a leaf, what a leaf would have cost."""


@dataclass(frozen=True)
class OneLevel:
    """A plan with the same level for every leaf."""

    level: Level

    @property
    def canonical_share(self) -> float:
        return 1.0 if self.level == "canonical" else 0.0

    def next_level(self) -> Level:
        return self.level

    def note_verdict(self, reason: Reason | None) -> None:
        """Nothing depends on it."""

    def measures_next(self) -> bool:
        return False


@dataclass(frozen=True)
class TextIds:
    """The ids of a text, None if it has no tokenization; where they come from and how long that took.

    `checked` is the level at which a leaf was checked. `was_cleaned`: the text came with a leaf, and was changed since.
    `leaf_seconds` is what a leaf would have cost in place of tokenizing, where that was measured.
    """

    ids: Sequence[int] | None
    by_leaf: bool
    rejected: Reason | None
    verify_seconds: float
    tokenize_seconds: float
    checked: Level | None = None
    was_cleaned: bool = False
    leaf_seconds: float | None = None

    @property
    def report(self) -> LeafReport:
        outcome: LeafOutcome = "skipped" if not self.ids else "leaf" if self.by_leaf else "shim"
        return LeafReport(
            outcome,
            len(self.ids or ()),
            self.rejected,
            self.verify_seconds,
            self.tokenize_seconds,
            self.checked,
            self.was_cleaned,
            self.leaf_seconds,
        )


class Ledger:
    """The ids of one result's texts, computed on demand. With `packed`, payloads have packed ids."""

    def __init__(self, encoder: Encoder, plan: CheckPlan, clock: Callable[[], float], *, packed: bool = False) -> None:
        self._encoder = encoder
        self._plan = plan
        self._clock = clock
        self._packed = packed
        self._claims: dict[str, LeafPayload] = {}
        # By their text and the identity of their ids, which the claims keep alive: the ids are not compared.
        self._claim_by_ids: dict[tuple[str, int], LeafPayload] = {}
        self._entries: dict[tuple[str, int | None], TextIds] = {}

    def add_claims(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Record the leaves of the raw blocks, without verifying them yet."""
        for block in blocks:
            payload = read_codec_meta_from_block(block)
            text = block.get("text")
            if payload is not None and isinstance(text, str):
                self._claims.setdefault(text, payload)
                self._claim_by_ids[text, id(payload.ids)] = payload

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, or raise TextError if it has no tokenization."""
        ids = self._look_up(text, self._claims.get(text)).ids
        if ids is None:
            raise TextError("the text has no tokenization")
        return len(ids)

    def annotate(self, block: Mapping[str, Any], form: Form) -> tuple[Mapping[str, Any], TextIds]:
        """Return a text block in the client's form, and its ids: from its own leaf, or tokenized here."""
        payload = read_codec_meta_from_block(block)
        claim = None if payload is None else self._claim_by_ids.get((block["text"], id(payload.ids)))
        entry = self._look_up_once(block["text"], claim)
        if payload is not None and claim is None:
            entry = replace(entry, was_cleaned=True)
        if not entry.ids:
            return without_payload(block), entry
        written = {"map_id": self._encoder.map.digest, "ids": write_ids(entry.ids, packed=self._packed)}
        return with_payload(block if form == "both" else {**block, "text": ""}, written), entry

    def _look_up(self, text: str, claim: LeafPayload | None) -> TextIds:
        key = text, None if claim is None else id(claim.ids)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._tokenize(text) if claim is None else self._verify(text, claim)
        return entry

    def _look_up_once(self, text: str, claim: LeafPayload | None) -> TextIds:
        """Return the entry with its times; later calls return times of zero."""
        entry = self._look_up(text, claim)
        key = text, None if claim is None else id(claim.ids)
        self._entries[key] = replace(entry, verify_seconds=0.0, tokenize_seconds=0.0, leaf_seconds=None)
        return entry

    def _verify(self, text: str, claim: LeafPayload) -> TextIds:
        level = self._plan.next_level()
        started = self._clock()
        rejected = check(self._encoder, text, claim.ids, level=level, map_id=claim.map_id).reason
        spent = self._clock() - started
        self._plan.note_verdict(rejected)
        if rejected is None:
            return TextIds(claim.ids, True, None, spent, 0.0, level)
        entry = self._look_up_once(text, None)
        return replace(entry, rejected=rejected, verify_seconds=spent, checked=level)

    def _tokenize(self, text: str) -> TextIds:
        started = self._clock()
        ids: Sequence[int] | None
        try:
            ids = TokenIds(encode_array(self._encoder, text)) if self._packed else self._encoder.encode(text)
        except TextError:
            ids = None
        spent = self._clock() - started
        if not ids or not self._plan.measures_next():
            return TextIds(ids, False, None, 0.0, spent)
        return TextIds(ids, False, None, 0.0, spent, leaf_seconds=self._measure_leaf(text, ids, spent))

    def _measure_leaf(self, text: str, ids: Sequence[int], tokenize_seconds: float) -> float:
        """What it would have cost to read these ids from a server's answer, packed, and to check them."""
        raw = pydantic_core.to_json({"map_id": self._encoder.map.digest, "ids": write_ids(ids, packed=True)})

        def read_and_check() -> float:
            started = self._clock()
            payload = read_payload(pydantic_core.from_json(raw))
            if payload is not None:
                check(self._encoder, text, payload.ids, level="decode", map_id=payload.map_id)
            return self._clock() - started

        # The better of two: the first check of a map makes its table.
        return min(read_and_check(), read_and_check()) + self._plan.canonical_share * tokenize_seconds
