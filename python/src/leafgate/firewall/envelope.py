"""A raw result as an envelope, its bytes and its text. In: a result as plain JSON. Out: all three, clean. Pure.

For programs that keep results themselves; the gateway's own way of delivering one is firewall/screen. Handles here are
names, made from the tool's: they are unique within one result and no secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leafgate.firewall.blocks import Piece, read_block
from leafgate.firewall.cleaner import NOTHING, Cleaner, make_cleaner
from leafgate.firewall.facts import facts_of
from leafgate.firewall.fit import cut_line
from leafgate.firewall.size import count_lines
from leafgate.model.envelope import ArtifactRef, ResultEnvelope

SUMMARY_CHARS: Final = 500
NO_CONTENT: Final = "(no content)"

Binaries = dict[str, tuple[bytes, str, str]]

_CLEANER: Final = make_cleaner()


def mcp_result_to_envelope(
    mcp_result: Mapping[str, Any], tool_name: str, *, cleaner: Cleaner = _CLEANER
) -> tuple[ResultEnvelope, Binaries, str]:
    """The envelope, the bytes by handle with their media type and label, and the whole text."""
    content = mcp_result.get("content")
    listed = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    pieces = [read_block(block, cleaner) for block in listed if isinstance(block, Mapping)]
    refs: list[ArtifactRef] = []
    binaries: Binaries = {}
    texts: list[str] = []
    annotations: list[dict[str, Any]] = []
    for place, piece in enumerate(pieces):
        if piece.text is not None:
            texts.append(piece.text)
        if piece.annotations:
            annotations.append({"part_index": place, **piece.annotations})
        if piece.block["type"] != "text":
            _keep(piece, f"mcp:{tool_name}:{piece.block['type']}:{place}", tool_name, refs, binaries)
    found = sum((piece.found for piece in pieces), NOTHING)
    facts: tuple[str, ...] = ()
    structured = mcp_result.get("structuredContent")
    if structured is not None:
        cleaned = cleaner.json(structured)
        found += cleaned.found
        facts = tuple(cleaner(fact) for fact in facts_of(cleaned.value))
        handle, label = f"mcp:{tool_name}:structured_content", f"structured content of {tool_name}"
        data = json.dumps(cleaned.value, ensure_ascii=False, default=str).encode("utf-8", "replace")
        refs.append(ArtifactRef(handle, "application/json", len(data), lines=1, label=label))
        binaries[handle] = (data, "application/json", label)
    full_text = "\n".join(texts) or "\n".join(facts) or NO_CONTENT
    provenance: dict[str, Any] = {"tool": tool_name, **found.as_provenance()}
    if annotations:
        provenance["content_annotations"] = annotations
    envelope = ResultEnvelope(
        "error" if mcp_result.get("isError") is True else "ok",
        summary=cut_line(full_text, SUMMARY_CHARS),
        facts=facts,
        artifacts=tuple(refs),
        provenance=provenance,
    )
    return envelope, binaries, full_text


def _keep(piece: Piece, handle: str, tool_name: str, refs: list[ArtifactRef], binaries: Binaries) -> None:
    """What a block holds, under a handle: its bytes, the bytes of its text, or the address that it links to."""
    block = piece.block
    if block["type"] == "resource_link":
        uri, label = str(block["uri"]), str(block["name"] or block["uri"])
        declared = block.get("mimeType")
        media_type = declared if isinstance(declared, str) else "application/octet-stream"
        refs.append(ArtifactRef(handle, media_type, len(uri.encode()), label=label, uri=uri))
        binaries[handle] = (uri.encode(), "text/uri-list", label)
        return
    uri = str(block["resource"]["uri"]) if block["type"] == "resource" else ""
    label = uri or f"{block['type']} of {tool_name}"
    data = piece.data if piece.data is not None else (piece.text or "").encode("utf-8", "replace")
    lines = 0 if piece.text is None else count_lines(piece.text)
    refs.append(ArtifactRef(handle, piece.media_type, len(data), lines=lines, label=label, uri=uri))
    binaries[handle] = (data, piece.media_type, label)
