"""Content blocks, clean and well-formed. In: a block as a server sent it. Out: as the client may have it. Pure.

Every string of a block is foreign, its keys too. Only the bytes of images, sounds and blobs pass as they are, and only
where they are bytes: base64 that decodes. A block that is no MCP block becomes a text that shows it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.firewall.cleaner import NOTHING, Cleaner, Found
from leafgate.model.leaf import CODEC_META_KEY

Block = Mapping[str, Any]

MAX_ANNOTATED: Final = 64
_TEXT_TYPES: Final = ("json", "xml", "yaml", "csv", "javascript", "toml", "html", "x-ndjson", "sql", "markdown")
_ROLES: Final = ("user", "assistant")
_FALLBACK_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True)
class Piece:
    """A clean block, and the content in it that may be too large: a text, or bytes."""

    block: Block
    found: Found = NOTHING
    text: str | None = None
    data: bytes | None = None
    media_type: str = ""
    annotations: Mapping[str, Any] | None = None

    def with_text(self, text: str) -> Block:
        """The block with another text in its place; what was said about the old text is gone."""
        if self.block["type"] == "resource":
            resource = {**self.block["resource"], "mimeType": "text/plain", "text": text}
            return {**self.block, "resource": resource}
        meta = {key: value for key, value in self.block.get("_meta", {}).items() if key != CODEC_META_KEY}
        rest = {key: value for key, value in self.block.items() if key != "_meta"}
        return {**rest, "text": text} | ({"_meta": meta} if meta else {})


def read_block(block: Block, cleaner: Cleaner) -> Piece:
    """The piece that a block is."""
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return _text(block, cleaner)
        case "image" | "audio" if isinstance(block.get("mimeType"), str):
            data = decode_base64(block.get("data"))
            if data is not None:
                rest = _outside(block, ("data",), cleaner)
                return Piece(
                    rest.block | {"data": block["data"]},
                    rest.found,
                    None,
                    data,
                    rest.block["mimeType"],
                    rest.annotations,
                )
        case "resource" if isinstance(block.get("resource"), Mapping):
            piece = _resource(block, cleaner)
            if piece is not None:
                return piece
        case "resource_link" if isinstance(block.get("uri"), str):
            link = _outside(block, (), cleaner)
            return Piece(_well_typed_link(link.block), link.found, annotations=link.annotations)
    cleaned = cleaner.json(block)
    return Piece({"type": "text", "text": _json(cleaned.value)}, cleaned.found, _json(cleaned.value))


def _well_typed_link(link: Block) -> dict[str, Any]:
    """A link as clients take it: a field of the wrong type would cost the whole result, so it goes alone."""
    texts = ("title", "description", "mimeType")
    fine = {key: value for key, value in link.items() if key not in (*texts, "name", "size", "icons")}
    fine |= {key: link[key] for key in texts if isinstance(link.get(key), str)}
    fine |= {"size": link["size"]} if type(link.get("size")) is int else {}
    fine |= {"icons": link["icons"]} if _are_icons(link.get("icons")) else {}
    name = link.get("name")
    return fine | {"name": name if isinstance(name, str) and name else link["uri"]}


def _are_icons(found: object) -> bool:
    if not isinstance(found, list):
        return False
    return all(
        isinstance(icon, Mapping)
        and set(icon) <= {"src", "mimeType"}
        and all(isinstance(v, str) for v in icon.values())
        and "src" in icon
        for icon in found
    )


def decode_base64(data: object) -> bytes | None:
    """The bytes, or None where this is no base64."""
    if not isinstance(data, str):
        return None
    try:
        return binascii.a2b_base64(data.encode("ascii"), strict_mode=True)
    except (ValueError, binascii.Error):
        pass
    try:
        return binascii.a2b_base64("".join(data.split()).encode("ascii"), strict_mode=True)
    except (ValueError, binascii.Error):
        return None


def is_text_type(media_type: str) -> bool:
    """Whether bytes of this type are read as text."""
    plain = media_type.partition(";")[0].strip().lower()
    return plain.startswith("text/") or plain.partition("/")[2].rpartition("+")[2] in _TEXT_TYPES


@dataclass(frozen=True)
class _Outside:
    block: dict[str, Any]
    found: Found
    annotations: Mapping[str, Any] | None


def _text(block: Block, cleaner: Cleaner) -> Piece:
    cleaned = cleaner.text(block["text"])
    if len(block) == 2:
        return Piece({"type": "text", "text": cleaned.text}, cleaned.found, cleaned.text)
    rest = _outside(block, ("text",), cleaner)
    whole = {"type": "text", "text": cleaned.text} | {k: v for k, v in rest.block.items() if k != "type"}
    return Piece(whole, cleaned.found + rest.found, cleaned.text, annotations=rest.annotations)


def _resource(block: Block, cleaner: Cleaner) -> Piece | None:
    """A resource holds a text or a blob; one that holds neither is no resource."""
    inner = block["resource"]
    text, blob, uri = inner.get("text"), inner.get("blob"), inner.get("uri")
    data = None if isinstance(text, str) else decode_base64(blob)
    if not isinstance(uri, str) or (data is None and not isinstance(text, str)):
        return None
    rest = _outside(block, ("resource",), cleaner)
    shell = cleaner.json({key: value for key, value in inner.items() if key not in ("text", "blob", "_meta")})
    resource: dict[str, Any] = dict(shell.value)
    media_type = resource.get("mimeType")
    if not isinstance(media_type, str):
        resource.pop("mimeType", None)
        media_type = "text/plain" if data is None else _FALLBACK_TYPE
    found = rest.found + shell.found
    if data is None:
        cleaned = cleaner.text(inner["text"])
        block = rest.block | {"resource": resource | {"text": cleaned.text}}
        return Piece(block, found + cleaned.found, cleaned.text, None, media_type, rest.annotations)
    decoded = _as_text(data) if is_text_type(media_type) else None
    if decoded is not None:
        cleaned = cleaner.text(decoded)
        if cleaned.text != decoded:
            data, found = cleaned.text.encode("utf-8", "replace"), found + cleaned.found
            blob = base64.b64encode(data).decode()
    return Piece(rest.block | {"resource": resource | {"blob": blob}}, found, None, data, media_type, rest.annotations)


def _as_text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _outside(block: Block, inside: Sequence[str], cleaner: Cleaner) -> _Outside:
    """What surrounds the content: annotations and other fields."""
    around = {key: value for key, value in block.items() if key not in (*inside, "_meta", "annotations")}
    meta = block.get("_meta")
    payload = meta.get(CODEC_META_KEY) if isinstance(meta, Mapping) else None
    if isinstance(meta, Mapping):
        around["_meta"] = {key: value for key, value in meta.items() if key != CODEC_META_KEY}
    annotations = block.get("annotations")
    if isinstance(annotations, Mapping):
        around["annotations"] = annotations
    cleaned = cleaner.json(around)
    made: dict[str, Any] = dict(cleaned.value)
    if payload is not None:
        made["_meta"] = {**made.get("_meta", {}), CODEC_META_KEY: payload}
    elif not made.get("_meta"):
        made.pop("_meta", None)
    told = made.get("annotations")
    if told is not None and not _sound_annotations(told):
        del made["annotations"]
    return _Outside(made, cleaned.found, told)


def _sound_annotations(annotations: Mapping[str, Any]) -> bool:
    """Whether a client will take them. Others are told in the envelope only."""
    audience, priority = annotations.get("audience"), annotations.get("priority")
    heard = audience is None or (isinstance(audience, list) and all(role in _ROLES for role in audience))
    ranked = priority is None or (
        isinstance(priority, int | float) and not isinstance(priority, bool) and 0 <= priority <= 1
    )
    dated = annotations.get("lastModified")
    return heard and ranked and (dated is None or isinstance(dated, str))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
