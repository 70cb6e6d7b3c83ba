"""The cleaner of everything foreign: texts, JSON values and the content blocks of MCP.

A cleaner first makes inert what could act on a model (sanitize), then replaces what must not leave (redact). Every
string of a block is foreign, its keys too. Bytes are cleaned if they are a text, in UTF-8 or UTF-16, whatever their
media type says; other bytes pass unchanged, if they are base64 that decodes. A block that is not an MCP block becomes a
text that shows it.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

from leafgate.clean import redact, sanitize
from leafgate.clean.markers import MARKER, find_markers
from leafgate.clean.redact import RedactPolicy, redact_json, redact_text
from leafgate.clean.result import NO_CHANGES, Cleaned, CleaningReport, CleaningTimeout, all_strings
from leafgate.clean.sanitize import SanitizePolicy, sanitize_json, sanitize_text
from leafgate.model.leaf import CODEC_META_KEY

Block = Mapping[str, Any]

MAX_ANNOTATED: Final = 64
_TEXT_TYPES: Final = frozenset(
    [
        "json",
        "xml",
        "yaml",
        "yml",
        "csv",
        "tsv",
        "javascript",
        "ecmascript",
        "typescript",
        "toml",
        "html",
        "ndjson",
        "jsonl",
        "sql",
        "markdown",
        "graphql",
        "sh",
        "shellscript",
        "python",
        "php",
        "perl",
        "ruby",
        "tex",
        "latex",
        "rtf",
        "ini",
        "properties",
        "pem",
        "x509-cert",
        "www-form-urlencoded",
        "rst",
        "diff",
        "patch",
        "subrip",
    ]
)
_ROLES: Final = ("user", "assistant")
_SEAM: Final = 160  # characters: no marker is longer
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

    def recheck(self, value: Any) -> Any:
        """Clean what was put together from clean texts, or cleaned for others: a text, or a JSON value.

        Markers may have formed where texts meet, and the tokens of this cleaner may not be those of the others.
        """
        return sanitize_json(value, self._plain).value

    @cached_property
    def _plain(self) -> SanitizePolicy:
        """The policy without what must not be applied twice, or to the gateway's own words."""
        return replace(self.sanitize, escape_html=False, links="off", legacy_turns=False)

    def for_tokens(self, tokens: Iterable[str]) -> Cleaner:
        """Return the cleaner for a reader to whom these special tokens of its own map are markers too."""
        return replace(self, sanitize=replace(self.sanitize, tokens=tuple(tokens)))

    def blob(self, data: bytes, media_type: str) -> Cleaned[bytes]:
        """Clean bytes that are a text. Bytes that need no cleaning, or are not a text, stay as they are."""
        found = find_text(data, media_type)
        if found is None:
            return Cleaned(data)
        result = self.text(found.text)
        is_hostile = MARKER in result.report.removed or result.report.redacted
        if result.value == found.text or not (found.is_sure or is_hostile):
            return Cleaned(data, result.report if found.is_sure else NO_CHANGES)
        return Cleaned(found.mark + result.value.encode(found.encoding, "replace"), result.report)

    def base64(self, value: str, media_type: str) -> Cleaned[str]:
        """Clean bytes in base64. What is not base64 is cleaned as a text."""
        data = decode_base64(value)
        if data is None:
            return self.text(value)
        result = self.blob(data, media_type)
        return Cleaned(_write_base64(result.value, data, value), result.report)

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


# Texts in bytes


@dataclass(frozen=True)
class EncodedText:
    """The text that bytes hold, how it is encoded, and the byte order mark in front of it.

    Where it is not sure that they are a text, they stay unless they hold a marker or a secret.
    """

    text: str
    encoding: str
    mark: bytes = b""
    is_sure: bool = True


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_NOT_PRINTED: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_SAMPLE: Final = 4096
# The share of printed characters that makes bytes a text. Random bytes have 0.4 in UTF-8, and 0.85 in UTF-16.
_PRINTED_SHARE: Final = 0.9
_PRINTED_SHARE_WIDE: Final = 0.97
_PDF: Final = b"%PDF-"  # refers to its parts by their place


def find_text(data: bytes, media_type: str) -> EncodedText | None:
    """Return the text that bytes hold, with U+FFFD for bytes that are wrong in it, or None if they are not a text."""
    if not data or data.startswith(_PDF):
        return None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            return EncodedText(text, encoding, mark) if _is_printed(text, _PRINTED_SHARE_WIDE) else None
    other = _declared_encoding(media_type) or _guess_wide_encoding(data)
    if other is not None:
        return EncodedText(data.decode(other, "replace"), other)
    has_zeros = b"\x00" in data
    if has_zeros and not _is_printed(data[:_SAMPLE].decode("utf-8", "replace"), _PRINTED_SHARE):
        return None
    text = data.decode("utf-8", "replace")
    is_printed = _is_printed(text, _PRINTED_SHARE)
    return EncodedText(text, "utf-8", is_sure=is_printed) if is_printed or not has_zeros else None


def _is_printed(text: str, least: float) -> bool:
    """Is at least this share of the characters printed?"""
    return len(_NOT_PRINTED.findall(text)) <= (1 - least) * len(text) + 1


def _declared_encoding(media_type: str) -> str | None:
    """Return the encoding that the media type of a text names, if it is one of texts and not UTF-8."""
    charset = _CHARSET.search(media_type) if is_text_type(media_type) else None
    if charset is None:
        return None
    try:
        encoding = codecs.lookup(charset[1]).name
        return encoding if encoding not in ("utf-8", "ascii") and b" ".decode(encoding, "replace") is not None else None
    except (LookupError, ValueError):
        return None


def _guess_wide_encoding(data: bytes) -> str | None:
    """Return UTF-16 in its byte order if the beginning reads as a text in it; some of its bytes are zeros."""
    sample = data[:_SAMPLE]
    if b"\x00" not in sample:
        return None
    for encoding in ("utf-16-le", "utf-16-be"):
        text = sample[: len(sample) & ~1].decode(encoding, "replace")
        if _is_printed(text, _PRINTED_SHARE_WIDE) and _is_wide(text):
            return encoding
    return None


def _is_wide(text: str) -> bool:
    """Does a text that was read as UTF-16 hold ASCII, as all texts do? Other bytes that are read so hold hardly any."""
    return sum(char < "\x80" for char in text) >= len(text) / 50 and "\x00" not in text


# Content blocks


_CONTENT: Final = ("text", "blob", "data")  # the keys of blocks that hold it


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

    def without_content(self) -> Piece:
        """Return the piece without its text and bytes: what else its block has."""
        block = {key: value for key, value in self.block.items() if key not in _CONTENT}
        if isinstance(block.get("resource"), Mapping):
            block["resource"] = {key: value for key, value in block["resource"].items() if key not in _CONTENT}
        return replace(self, block=block, text=None, data=None)

    def with_marker(self, text: str) -> Piece:
        """Return the piece with a text in which one more marker was made inert."""
        block = self.with_text(text)
        if "resource" in block:
            block = {**self.block, "resource": {**self.block["resource"], "text": text}}
        return replace(self, block=block, text=text, report=self.report + CleaningReport({MARKER: 1}))


def read_blocks(blocks: Iterable[Block], cleaner: Cleaner) -> list[Piece]:
    """Clean the blocks of a result. A reader may join their texts: no marker is left that lies across blocks."""
    pieces = [read_block(block, cleaner) for block in blocks]
    places = [at for at, piece in enumerate(pieces) if piece.text]
    if len(places) < 2:
        return pieces
    # Of a long text only its ends can be part of such a marker; between them stands what no marker contains.
    texts = [pieces[at].text or "" for at in places]
    ends = [text if len(text) <= 2 * _SEAM else f"{text[:_SEAM]}‹{text[-_SEAM:]}" for text in texts]
    starts = [0, *accumulate(map(len, ends))]
    for start, end, _ in find_markers("".join(ends), cleaner.sanitize.token_finder):
        owner = bisect_right(starts, start) - 1
        if end > starts[owner + 1]:
            text = pieces[places[owner]].text or ""
            opener = start - starts[owner] + len(text) - len(ends[owner])
            pieces[places[owner]] = pieces[places[owner]].with_marker(f"{text[:opener]}‹{text[opener + 1 :]}")
    return pieces


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
                result = cleaner.blob(data, block["mimeType"])
                whole = {**rest.block, "data": _write_base64(result.value, data, block["data"])}
                report = rest.report + result.report
                return replace(rest, block=whole, report=report, data=result.value, media_type=whole["mimeType"])
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
    return plain.startswith("text/") or plain.partition("/")[2].rpartition("+")[2].removeprefix("x-") in _TEXT_TYPES


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
    text, blob, uri = inner.get("text"), str(inner.get("blob", "")), inner.get("uri")
    data = None if isinstance(text, str) or not isinstance(inner.get("blob"), str) else decode_base64(blob)
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
    clean = cleaner.blob(data, media_type)
    block = {**rest.block, "resource": resource | {"blob": _write_base64(clean.value, data, blob)}}
    return Piece(block, report + clean.report, None, clean.value, media_type, rest.annotations)


def _write_base64(data: bytes, before: bytes, written: str) -> str:
    """Return the bytes in base64, as they were written if they are the same as before."""
    return written if data is before else base64.b64encode(data).decode()


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
