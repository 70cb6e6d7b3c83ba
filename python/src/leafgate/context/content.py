"""The text of MCP content blocks, with the ids they carry. In: blocks as plain JSON. Out: a ReadText. Touches nothing.

Blocks that are no text are told in a few words, so that a reader knows that something was there. The leaves of another
room's making are found here by the model's own key; they are judged when they are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.model.context import LeafSpan
from leafgate.model.leaf import CODEC_META_KEY, Payload, is_digest, parse_digest

BETWEEN_BLOCKS: Final = "\n"
BLOCK_TYPES: Final = frozenset(("text", "image", "audio", "resource", "resource_link"))


@dataclass(frozen=True)
class ReadText:
    """A text, and where in it ids came along."""

    text: str
    leaves: tuple[LeafSpan, ...] = ()


def read_content(blocks: Sequence[Any]) -> ReadText:
    """The texts of the blocks, one after another."""
    texts: list[str] = []
    leaves: list[LeafSpan] = []
    at = 0
    for block in blocks:
        text = _text_of(block)
        payload = _payload(block)
        if payload is not None and text:
            leaves.append(LeafSpan(at, at + len(text), payload))
        texts.append(text)
        at += len(text) + len(BETWEEN_BLOCKS)
    return ReadText(BETWEEN_BLOCKS.join(texts), tuple(leaves))


def read_result(result: Mapping[str, Any]) -> ReadText:
    """The text of an MCP result; of its structured content, where there is no other."""
    content = result.get("content")
    if not content and result.get("structuredContent") is not None:
        return ReadText(json.dumps(result["structuredContent"], ensure_ascii=False, separators=(",", ":")))
    return read_content(content if isinstance(content, list) else [])


def is_blocks(values: Sequence[Any]) -> bool:
    """Whether these are MCP content blocks, rather than other JSON."""
    return all(isinstance(each, dict) and each.get("type") in BLOCK_TYPES for each in values)


def _text_of(block: Any) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return f"[{type(block).__name__}]"
    if isinstance(block.get("text"), str):
        return str(block["text"])
    inner = block.get("resource")
    if isinstance(inner, dict):
        if isinstance(inner.get("text"), str):
            return str(inner["text"])
        return _named("resource", inner)
    return _named(_short(block.get("type")), block)


def _named(kind: str, about: Mapping[str, Any]) -> str:
    return f"[{' '.join((kind, *(_short(about[name]) for name in ('name', 'uri', 'mimeType') if about.get(name))))}]"


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:120]


def _payload(block: Any) -> Payload | None:
    meta = block.get("_meta") if isinstance(block, dict) else None
    found = meta.get(CODEC_META_KEY) if isinstance(meta, dict) else None
    if not isinstance(found, dict) or block.get("type") != "text":
        return None
    map_id, ids = found.get("map_id"), found.get("ids")
    if not is_digest(map_id) or not isinstance(ids, list):
        return None
    return Payload(parse_digest(map_id), ids)
