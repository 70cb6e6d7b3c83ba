"""Lifts leaves out of a tool result. In: a result as plain JSON. Out: payloads, or the result without them (spec 5.6).

Touches nothing, and judges nothing: ids are handed out as found. Whoever uses them asks tokens/verify first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from leafgate.model.errors import CodecMetaMapMismatchError
from leafgate.model.leaf import CODEC_META_KEY, LEGACY_BLOCK_TYPE, Payload, is_digest, parse_digest

Source = Literal["meta", "sibling"]

# What lies deeper than this reaches no client: the firewall withholds it.
_LEVELS: Final = 200
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True)
class CodecMetaEntry:
    """What a text block carries."""

    text_index: int
    text: str
    ids: Sequence[Any] | None
    map_id: str | None
    source: Source | None


def is_text_block(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)


def is_legacy_block(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == LEGACY_BLOCK_TYPE


def _payload(found: object) -> Payload | None:
    if not isinstance(found, Mapping):
        return None
    map_id, ids = found.get("map_id"), found.get("ids")
    if not is_digest(map_id) or not isinstance(ids, Sequence) or isinstance(ids, str | bytes):
        return None
    return Payload(parse_digest(map_id), ids)


def content_of(result: Mapping[str, Any]) -> Sequence[Any]:
    """The blocks of a result; none where `content` is missing or no array."""
    content = result.get("content")
    return content if isinstance(content, Sequence) and not isinstance(content, str) else ()


def read_codec_meta_from_block(block: object) -> Payload | None:
    """The payload in this block's own `_meta`."""
    meta = block.get("_meta") if isinstance(block, Mapping) else None
    return _payload(meta.get(CODEC_META_KEY)) if isinstance(meta, Mapping) else None


def _find(content: Sequence[Any], index: int) -> tuple[Payload | None, Source | None]:
    if not 0 <= index < len(content) or not is_text_block(content[index]):
        return None, None
    own = read_codec_meta_from_block(content[index])
    if own is not None:
        return own, "meta"
    behind = content[index + 1] if index + 1 < len(content) else None
    sibling = _payload(behind) if is_legacy_block(behind) else None
    return sibling, None if sibling is None else "sibling"


def find_codec_meta(result: Mapping[str, Any], text_index: int) -> Payload | None:
    """The payload of the text block at this index of `content`, in either form."""
    return _find(content_of(result), text_index)[0]


def has_codec_meta(result: Mapping[str, Any]) -> bool:
    content = content_of(result)
    return any(_find(content, index)[0] is not None for index in range(len(content)))


def read_codec_meta(result: Mapping[str, Any], *, expected_map_hash: str | None = None) -> list[CodecMetaEntry]:
    """One entry per text block, in order. A payload of another map than the expected one is an error."""
    expected = None if expected_map_hash is None else parse_digest(expected_map_hash)
    content = content_of(result)
    entries = []
    for index, block in enumerate(content):
        if not is_text_block(block):
            continue
        payload, source = _find(content, index)
        if payload is not None and expected is not None and payload.map_id != expected:
            raise CodecMetaMapMismatchError(expected, payload.map_id, index)
        if payload is None:
            entries.append(CodecMetaEntry(index, block["text"], None, None, None))
        else:
            entries.append(CodecMetaEntry(index, block["text"], payload.ids, payload.map_id, source))
    return entries


def take_ids(result: Mapping[str, Any], *, expected_map_hash: str | None = None) -> list[Sequence[Any] | None]:
    return [entry.ids for entry in read_codec_meta(result, expected_map_hash=expected_map_hash)]


def without_payload(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """The block without its payload; the same object when there is none. Another `_meta` key keeps its `_meta`."""
    meta = block.get("_meta")
    if not isinstance(meta, Mapping) or CODEC_META_KEY not in meta:
        return block
    rest = {key: value for key, value in meta.items() if key != CODEC_META_KEY}
    others = {key: value for key, value in block.items() if key != "_meta"}
    return {**others, "_meta": rest} if rest else others


def strip_codec_meta(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result without payloads and siblings; the very same object when there was nothing to remove."""
    content = content_of(result)
    stripped = [without_payload(b) if is_text_block(b) else b for b in content if not is_legacy_block(b)]
    if len(stripped) == len(content) and all(new is old for new, old in zip(stripped, content, strict=True)):
        return result
    return {**result, "content": stripped}


def strip_everywhere(value: Any, levels: int = _LEVELS) -> Any:
    """The JSON value without payloads and siblings, wherever they lie; the very same object when there were none.

    Ids spell a text. What cleans texts does not see them, so where nobody judges them they must not pass.
    """
    if isinstance(value, Mapping):
        return _strip_members(without_payload(value), levels)
    if isinstance(value, list) and levels > 0 and not set(map(type, value)) <= _SCALARS:
        kept = [strip_everywhere(item, levels - 1) for item in value if not is_legacy_block(item)]
        same = len(kept) == len(value) and all(new is old for new, old in zip(kept, value, strict=True))
        return value if same else kept
    return value


def _strip_members(members: Mapping[str, Any], levels: int) -> Mapping[str, Any]:
    if levels <= 0 or (CODEC_META_KEY not in members and set(map(type, members.values())) <= _SCALARS):
        return members
    kept = {
        key: strip_everywhere(item, levels - 1)
        for key, item in members.items()
        if key != CODEC_META_KEY and not is_legacy_block(item)
    }
    same = len(kept) == len(members) and all(
        new is old for new, old in zip(kept.values(), members.values(), strict=True)
    )
    return members if same else kept
