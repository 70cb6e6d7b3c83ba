"""Puts leaves on a tool result. In: a result as plain JSON and an Encoder. Out: a new result (spec 5.5).

Touches nothing and mutates nothing. After it, a block's payload is right for its text, or there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leafgate.codec.read_leaf import (
    content_of,
    is_legacy_block,
    is_text_block,
    read_codec_meta_from_block,
    without_payload,
)
from leafgate.model.errors import TextError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.verify import check


def build_meta_block(text: str, meta: Encoder) -> dict[str, Any] | None:
    """The payload for a text, or None where the text is empty or has no tokenization."""
    if not text:
        return None
    try:
        return {"map_id": meta.map.digest, "ids": meta.encode(text)}
    except TextError:
        return None


def with_payload(block: Mapping[str, Any], payload: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The block with this payload in place of any other."""
    if payload is None:
        return without_payload(block)
    meta = block.get("_meta")
    kept = meta if isinstance(meta, Mapping) else {}
    return {**block, "_meta": {**kept, CODEC_META_KEY: dict(payload)}}


def wrap_tool_call(result: Mapping[str, Any], meta: Encoder, *, min_text_length: int = 1) -> dict[str, Any]:
    """The result with a leaf on every text block that can carry one."""
    content = content_of(result)
    if not content:
        return dict(result)
    wrapped: list[Any] = []
    behind_text = False
    for block in content:
        if is_legacy_block(block) and behind_text:
            continue
        behind_text = is_text_block(block)
        wrapped.append(_wrap_block(block, meta, min_text_length) if behind_text else block)
    return {**result, "content": wrapped}


def _wrap_block(block: Mapping[str, Any], meta: Encoder, min_text_length: int) -> Mapping[str, Any]:
    text = block["text"]
    if len(text) >= min_text_length:
        return with_payload(block, build_meta_block(text, meta))
    found = read_codec_meta_from_block(block)
    if found is not None and check(meta, text, found.ids, level="canonical", map_id=found.map_id).accepted:
        return block
    return without_payload(block)
