"""The cleaner of everything foreign: texts, JSON values and the content blocks of MCP.

A cleaner first makes inert what could act on a model (sanitize), then replaces what must not leave (redact). Every
string of a block is foreign, its keys too. Only the bytes of images, sounds and blobs pass unchanged, and only if they
are base64 that decodes. A block that is not an MCP block becomes a text that shows it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from leafgate.clean import redact, sanitize
from leafgate.clean.redact import RedactPolicy, redact_json, redact_text
from leafgate.clean.result import NO_CHANGES, Cleaned, CleaningReport, CleaningTimeout, all_strings
from leafgate.clean.sanitize import SanitizePolicy, sanitize_json, sanitize_text
from leafgate.model.leaf import CODEC_META_KEY

Block = Mapping[str, Any]

MAX_ANNOTATED: Final = 64
_TEXT_TYPES: Final = ("json", "xml", "yaml", "csv", "javascript", "toml", "html", "x-ndjson", "sql", "markdown")
_ROLES: Final = ("user", "assistant")
_FALLBACK_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True)
class Cleaner:
    """Cleans foreign content by two policies. Called like a function, it returns the clean text alone."""

    sanitize: SanitizePolicy = sanitize.DEFAULT
    redact: RedactPolicy = redact.DEFAULT

    def __call__(self, text: str) -> str:
        return self.text(text).value

    def text(self, text: str) -> Cleaned[str]:
        """Clean a text."""
        harmless = sanitize_text(text, self.sanitize)
        return _combine(harmless, redact_text(harmless.value, self.redact))

    def json(self, value: Any) -> Cleaned[Any]:
        """Clean every string and key of a JSON value."""
        harmless = sanitize_json(value, self.sanitize)
        return _combine(harmless, redact_json(harmless.value, self.redact))

    def find_suspect_texts(self, texts: Sequence[str]) -> set[str]:
        """Return those of the texts that cleaning may change or flag."""
        return sanitize.find_suspect_texts(texts, self.sanitize) | self.redact.searcher.find_texts(texts)

    def prepare(self, value: Any) -> Callable[[str], str]:
        """Return a function that cleans the strings of `value` one by one, and faster than the cleaner itself.

        Its first call searches all strings of the value together. A catalog has tens of thousands of them, and hardly
        one needs cleaning.
        """
        results: dict[str, str] = {}

        def clean(text: str) -> str:
            if not results:
                strings = set(all_strings(value).items)
                results.update((each, each) for each in strings - self.find_suspect_texts(list(strings)))
            result = results.get(text)
            if result is None:
                result = results[text] = self(text)
            return result

        return clean


def _combine(first: Cleaned[Any], second: Cleaned[Any]) -> Cleaned[Any]:
    """Return the value of the second stage with the reports of both."""
    return second if first.report is NO_CHANGES else Cleaned(second.value, first.report + second.report)


# Content blocks


@dataclass(frozen=True)
class Piece:
    """A clean block, and the content in it that may be too large: a text, or bytes.

    `uncleaned` is content that took too long to clean; then the block is empty, and none of its fields is shown.
    """

    block: Block
    report: CleaningReport = NO_CHANGES
    text: str | None = None
    data: bytes | None = None
    media_type: str = ""
    annotations: Mapping[str, Any] | None = None
    uncleaned: bytes | None = None

    def with_text(self, text: str) -> Block:
        """Return the block with another text in its place, without the token ids of the old text."""
        if self.block["type"] == "resource":
            resource = {**self.block["resource"], "mimeType": "text/plain", "text": text}
            return {**self.block, "resource": resource}
        meta = {key: value for key, value in self.block.get("_meta", {}).items() if key != CODEC_META_KEY}
        rest = {key: value for key, value in self.block.items() if key != "_meta"}
        return {**rest, "text": text} | ({"_meta": meta} if meta else {})


def read_block(block: Block, cleaner: Cleaner) -> Piece:
    """Clean one block. One that takes too long is returned as it is, apart from the block of the piece."""
    try:
        return _read_block(block, cleaner)
    except CleaningTimeout:
        return uncleaned_piece(_largest_text(block))


def uncleaned_piece(text: str) -> Piece:
    """A text that took too long to clean."""
    return Piece({"type": "text", "text": ""}, uncleaned=text.encode("utf-8", "replace"), media_type="text/plain")


def _largest_text(block: Block) -> str:
    """The text of a block; the whole block as JSON where its text is not the most of it."""
    resource = block.get("resource")
    inner = resource if isinstance(resource, Mapping) else block
    text, data = inner.get("text"), decode_base64(inner.get("blob"))
    if isinstance(text, str):
        return text
    if data is not None:
        return data.decode("utf-8", "replace")
    return json.dumps(block, ensure_ascii=False, separators=(",", ":"), default=str)


def _read_block(block: Block, cleaner: Cleaner) -> Piece:
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return _text(block, cleaner)
        case "image" | "audio" if isinstance(block.get("mimeType"), str):
            data = decode_base64(block.get("data"))
            if data is not None:
                rest = _clean_fields(block, ("data",), cleaner)
                whole = {**rest.block, "data": block["data"]}
                return replace(rest, block=whole, data=data, media_type=whole["mimeType"])
        case "resource" if isinstance(block.get("resource"), Mapping):
            piece = _resource(block, cleaner)
            if piece is not None:
                return piece
        case "resource_link" if isinstance(block.get("uri"), str):
            link = _clean_fields(block, (), cleaner)
            return replace(link, block=_well_typed_link(link.block))
    result = cleaner.json(block)
    text = json.dumps(result.value, ensure_ascii=False, separators=(",", ":"), default=str)
    return Piece({"type": "text", "text": text}, result.report, text)


def _well_typed_link(link: Block) -> dict[str, Any]:
    """Return the link without fields of a wrong type: for one of them, a client would refuse the whole result."""
    texts = ("title", "description", "mimeType")
    fine = {key: value for key, value in link.items() if key not in (*texts, "name", "size", "icons")}
    fine |= {key: link[key] for key in texts if isinstance(link.get(key), str)}
    fine |= {"size": link["size"]} if type(link.get("size")) is int else {}
    fine |= {"icons": link["icons"]} if _are_icons(link.get("icons")) else {}
    name = link.get("name")
    return fine | {"name": name if isinstance(name, str) and name else link["uri"]}


def _are_icons(icons: object) -> bool:
    return isinstance(icons, list) and all(
        isinstance(icon, Mapping)
        and {"src"} <= set(icon) <= {"src", "mimeType"}
        and all(isinstance(value, str) for value in icon.values())
        for icon in icons
    )


def decode_base64(data: object) -> bytes | None:
    """Return the bytes, or None if the value is not base64."""
    if not isinstance(data, str):
        return None
    for has_breaks in (False, True):
        with suppress(ValueError):
            text = "".join(data.split()) if has_breaks else data
            return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    return None


def is_text_type(media_type: str) -> bool:
    """Are bytes of this media type read as text?"""
    plain = media_type.partition(";")[0].strip().lower()
    return plain.startswith("text/") or plain.partition("/")[2].rpartition("+")[2] in _TEXT_TYPES


def _text(block: Block, cleaner: Cleaner) -> Piece:
    result = cleaner.text(block["text"])
    text = result.value
    if len(block) == 2:
        return Piece({"type": "text", "text": text}, result.report, text)
    rest = _clean_fields(block, ("text",), cleaner)
    whole = {"type": "text", "text": text} | {k: v for k, v in rest.block.items() if k != "type"}
    return Piece(whole, result.report + rest.report, text, annotations=rest.annotations)


def _resource(block: Block, cleaner: Cleaner) -> Piece | None:
    """Clean a resource, or return None if it holds neither a text nor a blob."""
    inner = block["resource"]
    text, blob, uri = inner.get("text"), inner.get("blob"), inner.get("uri")
    data = None if isinstance(text, str) else decode_base64(blob)
    if not isinstance(uri, str) or (data is None and not isinstance(text, str)):
        return None
    rest = _clean_fields(block, ("resource",), cleaner)
    fields = {key: value for key, value in inner.items() if key not in ("text", "blob", "_meta")}
    meta = inner.get("_meta")
    others = {key: value for key, value in meta.items() if key != CODEC_META_KEY} if isinstance(meta, Mapping) else {}
    shell = cleaner.json(fields | ({"_meta": others} if others else {}))
    resource: dict[str, Any] = dict(shell.value)
    media_type = resource.get("mimeType")
    if not isinstance(media_type, str):
        resource.pop("mimeType", None)
        media_type = "text/plain" if data is None else _FALLBACK_TYPE
    report = rest.report + shell.report
    if data is None:
        result = cleaner.text(inner["text"])
        block = {**rest.block, "resource": resource | {"text": result.value}}
        return Piece(block, report + result.report, result.value, None, media_type, rest.annotations)
    decoded = None
    with suppress(UnicodeDecodeError):
        decoded = data.decode() if is_text_type(media_type) else None
    if decoded is not None and (result := cleaner.text(decoded)).value != decoded:
        data, report = result.value.encode("utf-8", "replace"), report + result.report
        blob = base64.b64encode(data).decode()
    block = {**rest.block, "resource": resource | {"blob": blob}}
    return Piece(block, report, None, data, media_type, rest.annotations)


def _clean_fields(block: Block, content: Sequence[str], cleaner: Cleaner) -> Piece:
    """Clean the fields beside the content: annotations, `_meta` but for token ids, and others."""
    fields = {key: value for key, value in block.items() if key not in (*content, "_meta", "annotations")}
    meta = block.get("_meta")
    payload = meta.get(CODEC_META_KEY) if isinstance(meta, Mapping) else None
    if isinstance(meta, Mapping):
        fields["_meta"] = {key: value for key, value in meta.items() if key != CODEC_META_KEY}
    annotations = block.get("annotations")
    if isinstance(annotations, Mapping):
        fields["annotations"] = annotations
    result = cleaner.json(fields)
    clean: dict[str, Any] = dict(result.value)
    if payload is not None:
        clean["_meta"] = {**clean.get("_meta", {}), CODEC_META_KEY: payload}
    elif not clean.get("_meta"):
        clean.pop("_meta", None)
    annotations = clean.get("annotations")
    if annotations is not None and not _are_valid_annotations(annotations):
        del clean["annotations"]
    return Piece(clean, result.report, annotations=annotations)


def _are_valid_annotations(annotations: Mapping[str, Any]) -> bool:
    """Will a client accept them? Others are reported in the envelope only."""
    audience, priority = annotations.get("audience"), annotations.get("priority")
    has_audience = audience is None or (isinstance(audience, list) and all(role in _ROLES for role in audience))
    has_priority = priority is None or (type(priority) in (int, float) and 0 <= priority <= 1)
    modified = annotations.get("lastModified")
    return has_audience and has_priority and (modified is None or isinstance(modified, str))
