"""A tool's output as MCP content blocks. In: text, bytes, JSON, or an MCP result. Out: blocks. Touches nothing.

A program's own tools give texts, bytes and objects; its MCP clients give results, whose blocks may carry leaves.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from leafgate.context.content import is_blocks
from leafgate.firewall.blocks import is_text_type
from leafgate.model.context import ContextError

ToolOutput = str | bytes | Mapping[str, Any] | Sequence[Any] | BaseModel

RESULT_URI: Final = "result:"
BINARY: Final = "application/octet-stream"


@dataclass(frozen=True)
class Output:
    """The blocks of an output, and whether the tool failed."""

    blocks: tuple[Mapping[str, Any], ...]
    failed: bool = False


def read_output(raw: ToolOutput, media_type: str | None) -> Output:
    """ContextError where it is nothing that a tool can give. A media type is for texts and bytes."""
    if isinstance(raw, str):
        return Output((_text(raw, media_type),))
    if isinstance(raw, bytes | bytearray | memoryview):
        return Output((_bytes(bytes(raw), media_type),))
    if isinstance(raw, BaseModel):
        raw = raw.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(raw, Mapping) and isinstance(raw.get("content"), list) and is_blocks(raw["content"]):
        structured = raw.get("structuredContent")
        told = raw["content"] or structured is None
        return Output(tuple(raw["content"]) if told else (_json(structured),), raw.get("isError") is True)
    if isinstance(raw, list) and raw and is_blocks(raw):
        return Output(tuple(raw))
    return Output((_json(raw),))


def _json(value: Any) -> dict[str, Any]:
    try:
        return _text(json.dumps(value, ensure_ascii=False), "application/json")
    except (TypeError, ValueError, RecursionError):
        given = type(value).__name__
        raise ContextError(f"a {given} is no tool's output; text, bytes, JSON and MCP results are") from None


def _text(text: str, media_type: str | None) -> dict[str, Any]:
    if media_type is None:
        return {"type": "text", "text": text}
    return {"type": "resource", "resource": {"uri": RESULT_URI, "mimeType": media_type, "text": text}}


def _bytes(raw: bytes, media_type: str | None) -> dict[str, Any]:
    """Bytes that nobody calls a text are one if they read as one."""
    if media_type is None:
        try:
            return _text(raw.decode(), None)
        except UnicodeDecodeError:
            media_type = BINARY
    if is_text_type(media_type):
        return _text(raw.decode("utf-8", "replace"), media_type)
    blob = base64.b64encode(raw).decode()
    return {"type": "resource", "resource": {"uri": RESULT_URI, "mimeType": media_type, "blob": blob}}
