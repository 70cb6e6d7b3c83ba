"""Judges every leaf of a tool result. In: a result as plain JSON and an Encoder. Out: one verdict per text block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leafgate.codec.read_leaf import read_codec_meta
from leafgate.model.leaf import Level, Reason
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.verify import check


@dataclass(frozen=True)
class BlockVerdict:
    """What became of one text block's leaf."""

    text_index: int
    verdict: Literal["accept", "reject", "absent"]
    reason: Reason | None


def verify_codec_meta(result: Mapping[str, Any], meta: Encoder, *, level: Level = "canonical") -> list[BlockVerdict]:
    """One entry per text block; `absent` where there is no payload (spec 5.7)."""
    verdicts = []
    for entry in read_codec_meta(result):
        if entry.ids is None:
            verdicts.append(BlockVerdict(entry.text_index, "absent", None))
            continue
        found = check(meta, entry.text, entry.ids, level=level, map_id=entry.map_id)
        verdicts.append(BlockVerdict(entry.text_index, "accept" if found.accepted else "reject", found.reason))
    return verdicts
