"""The ids of one result's texts. In: its texts and their leaves, an Encoder, a level. Out: blocks with ids.

Touches nothing but the clock it is handed. A leaf speaks for the very text that it came with, so a text that the
firewall changed has none, and no id can carry what was removed. Each leaf is checked and each text tokenized at most
once, and only if somebody asks: counting it for a budget and giving it ids are one work, and its time is told once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leafgate.codec.read_leaf import read_codec_meta_from_block, without_payload
from leafgate.codec.write_leaf import with_payload
from leafgate.model.call import Form
from leafgate.model.errors import TextError
from leafgate.model.leaf import Level, Payload, Reason
from leafgate.ports import LeafOutcome, LeafReport
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.verify import check


@dataclass(frozen=True)
class Known:
    """The ids of a text, None where it has no tokenization; and what it cost to know them."""

    ids: Sequence[int] | None
    by_leaf: bool
    rejected: Reason | None
    verify_seconds: float
    tokenize_seconds: float

    @property
    def report(self) -> LeafReport:
        outcome: LeafOutcome = "skipped" if not self.ids else "leaf" if self.by_leaf else "shim"
        tokens = len(self.ids or ())
        return LeafReport(outcome, tokens, self.rejected, self.verify_seconds, self.tokenize_seconds)


class Ledger:
    """What is known about the ids of one result's texts."""

    def __init__(self, encoder: Encoder, level: Level, clock: Callable[[], float]) -> None:
        self._encoder = encoder
        self._level = level
        self._clock = clock
        self._claims: dict[str, Payload] = {}
        # By the identity of their list of ids, which the claims keep alive: what a block carries is not compared.
        self._heard: dict[int, tuple[str, Payload]] = {}
        self._known: dict[tuple[str, int | None], Known] = {}

    def hear(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Takes down what the blocks claim, as they came; nothing is believed yet."""
        for block in blocks:
            found = read_codec_meta_from_block(block)
            text = block.get("text")
            if found is not None and isinstance(text, str):
                self._claims.setdefault(text, found)
                self._heard[id(found.ids)] = text, found

    def count(self, text: str) -> int:
        """The tokens of a text. TextError where it has no tokenization."""
        ids = self._look_up(text, self._claims.get(text)).ids
        if ids is None:
            raise TextError("the text has no tokenization")
        return len(ids)

    def annotate(self, block: Mapping[str, Any], form: Form) -> tuple[Mapping[str, Any], Known]:
        """A text block as the client gets it, and how it came by its ids: by its own leaf, or made here."""
        known = self._take(block["text"], self._claim_of(block))
        if not known.ids:
            return without_payload(block), known
        payload = {"map_id": self._encoder.map.digest, "ids": known.ids}
        return with_payload(block if form == "both" else {**block, "text": ""}, payload), known

    def _claim_of(self, block: Mapping[str, Any]) -> Payload | None:
        """The block's leaf, if the block still has the text that the leaf came with."""
        found = read_codec_meta_from_block(block)
        text, claim = (None, None) if found is None else self._heard.get(id(found.ids), (None, None))
        return claim if text == block["text"] else None

    def _look_up(self, text: str, claim: Payload | None) -> Known:
        key = text, None if claim is None else id(claim.ids)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._make(text) if claim is None else self._judge(text, claim)
        return known

    def _take(self, text: str, claim: Payload | None) -> Known:
        """What is known, with its cost; who asks again pays nothing."""
        known = self._look_up(text, claim)
        key = text, None if claim is None else id(claim.ids)
        self._known[key] = replace(known, verify_seconds=0.0, tokenize_seconds=0.0)
        return known

    def _judge(self, text: str, claim: Payload) -> Known:
        started = self._clock()
        rejected = check(self._encoder, text, claim.ids, level=self._level, map_id=claim.map_id).reason
        spent = self._clock() - started
        if rejected is None:
            return Known(claim.ids, True, None, spent, 0.0)
        return replace(self._take(text, None), rejected=rejected, verify_seconds=spent)

    def _make(self, text: str) -> Known:
        started = self._clock()
        try:
            ids = self._encoder.encode(text)
        except TextError:
            ids = None
        return Known(ids, False, None, 0.0, self._clock() - started)
