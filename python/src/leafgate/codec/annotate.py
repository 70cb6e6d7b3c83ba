"""Gives a visible text block its ids. In: a block as it leaves, the client's map. Out: the block, and what was done.

Touches nothing. A leaf is judged against the text as it leaves: a text that the firewall changed no longer matches its
old ids, so no id can carry what was removed from the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leafgate.codec.read_leaf import read_codec_meta_from_block, without_payload
from leafgate.codec.write_leaf import build_meta_block, with_payload
from leafgate.model.call import Form
from leafgate.model.leaf import CODEC_META_KEY, Level, Reason
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.verify import check


@dataclass(frozen=True)
class Annotated:
    """A block with its ids, how it came by them, and why its leaf was dropped if it had a wrong one."""

    block: Mapping[str, Any]
    outcome: Literal["leaf", "shim", "skipped"]
    tokens: int
    rejected: Reason | None


def annotate(block: Mapping[str, Any], encoder: Encoder, level: Level, form: Form) -> Annotated:
    """A believed leaf passes untouched; anything else is tokenized here."""
    found = read_codec_meta_from_block(block)
    rejected: Reason | None = None
    if found is not None:
        rejected = check(encoder, block["text"], found.ids, level=level, map_id=found.map_id).reason
        if rejected is None:
            return Annotated(_in_form(block, form), "leaf", len(found.ids), None)
    payload = build_meta_block(block["text"], encoder)
    made = with_payload(block, payload)
    if payload is None:
        return Annotated(made, "skipped", 0, rejected)
    return Annotated(_in_form(made, form), "shim", len(payload["ids"]), rejected)


def _in_form(block: Mapping[str, Any], form: Form) -> Mapping[str, Any]:
    if form == "text":
        return without_payload(block)
    return {**block, "text": ""} if form == "ids" and CODEC_META_KEY in block["_meta"] else block
