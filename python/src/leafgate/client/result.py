"""A tool's result as this client hands it out. In: the result as plain JSON. Out: a ToolResult. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leafgate.client.errors import IdsNotBelieved
from leafgate.codec.read_leaf import CodecMetaEntry, read_codec_meta
from leafgate.model.errors import IdsError
from leafgate.tokens.encoder import Encoder, classify_ids
from leafgate.tokens.verify import check


@dataclass(frozen=True)
class TextBlock:
    """A text block: its text, empty where only ids were sent and there was no encoder to read them; and its ids."""

    text: str
    ids: Sequence[int] | None
    map_id: str | None


@dataclass(frozen=True)
class ToolResult:
    """What a tool answered. `raw` is all of it, as it came."""

    raw: Mapping[str, Any]
    blocks: tuple[TextBlock, ...]

    @property
    def content(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self.raw.get("content", ()))

    @property
    def text(self) -> str:
        """The text blocks, one after another."""
        return "\n".join(block.text for block in self.blocks)

    @property
    def ids(self) -> list[Sequence[int] | None]:
        """The ids of each text block; None where it has none."""
        return [block.ids for block in self.blocks]

    @property
    def structured(self) -> Any:
        return self.raw.get("structuredContent")

    @property
    def is_error(self) -> bool:
        return self.raw.get("isError") is True

    @property
    def meta(self) -> Mapping[str, Any]:
        found = self.raw.get("_meta")
        return found if isinstance(found, Mapping) else {}


def read_result(raw: Mapping[str, Any], map_id: str | None, encoder: Encoder | None) -> ToolResult:
    """With an encoder, ids are checked, and read where they came without their text.

    Raises IdsNotBelieved, and CodecMetaMapMismatchError for ids of another map than the one asked for.
    """
    entries = read_codec_meta(raw, expected_map_hash=map_id)
    return ToolResult(raw, tuple(_block(entry, encoder) for entry in entries))


def _block(entry: CodecMetaEntry, encoder: Encoder | None) -> TextBlock:
    if encoder is None or entry.ids is None:
        return TextBlock(entry.text, entry.ids, entry.map_id)
    text = entry.text or _read_ids(entry, encoder)
    verdict = check(encoder, text, entry.ids, level="canonical", map_id=entry.map_id)
    if verdict.reason is not None:
        raise IdsNotBelieved(entry.text_index, verdict.reason)
    return TextBlock(text, entry.ids, entry.map_id)


def _read_ids(entry: CodecMetaEntry, encoder: Encoder) -> str:
    ids = list(entry.ids or ())
    try:
        return encoder.decode_bytes(ids).decode()
    except IdsError:
        raise IdsNotBelieved(entry.text_index, classify_ids(encoder.map, ids) or "unknown-id") from None
    except UnicodeDecodeError:
        raise IdsNotBelieved(entry.text_index, "bad-text") from None
