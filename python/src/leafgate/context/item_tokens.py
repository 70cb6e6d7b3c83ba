"""The tokens of items and of what stands between them. In: items, an encoder. Out: ids and counts. Touches nothing.

Nothing is tokenized before somebody asks, and nothing twice: a session may have many more events than any pack will
ever hold. Ids that came with an item are judged before they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from leafgate.context.cuts import make_cutter
from leafgate.context.join import Joined, Joiner, Part
from leafgate.model.context import ContextItem, Tokenized
from leafgate.model.errors import TextError
from leafgate.model.leaf import Level
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.verify import check

_CHARS_PER_TOKEN: Final = 12  # of a beginning that is likely to have more tokens than asked about; prose has four


@dataclass(frozen=True)
class Known:
    """The ids of an item's text, or why there are none."""

    ids: Sequence[int]
    failure: str = ""


class ItemTokens:
    """What is known of one session's items, by their ids."""

    def __init__(self, encoder: Encoder, level: Level) -> None:
        self.encoder = encoder
        self._level = level
        self._longest = max(map(len, encoder.map.token_of_id.values()))
        self._cutter = make_cutter(encoder.map)
        self._joiner = Joiner(encoder, self._cutter)
        self._known: dict[str, Known] = {}
        self._at_least: dict[str, int] = {}
        self._glue: dict[str, list[int]] = {}
        self._new = 0
        self._checked = 0

    @property
    def work(self) -> Tokenized:
        """What was tokenized since the beginning."""
        return Tokenized(self._new, self._checked)

    def known(self, item: ContextItem) -> Known:
        """The ids of an item's text."""
        found = self._known.get(item.id)
        if found is None:
            found = self._known[item.id] = self._learn(item)
        return found

    def counted(self, item: ContextItem) -> int | None:
        """How many tokens a text has, if anybody has asked before."""
        known = self._known.get(item.id)
        return None if known is None or known.failure else len(known.ids)

    def surely_exceeds(self, item: ContextItem, room: int) -> bool:
        """Whether a text has more tokens than this, as far as its beginning tells: a long one is not tokenized."""
        if len(item.text) > room * self._longest or self._at_least.get(item.id, 0) > room:
            return True
        if item.id in self._known or item.leaves or len(item.text) <= room * _CHARS_PER_TOKEN:
            return False
        start = item.text[: room * _CHARS_PER_TOKEN]
        cut = self._cutter.last(start)
        try:
            counted = 0 if cut is None else len(self.encoder.encode(start[:cut]))
        except TextError:
            return False
        self._new += counted
        self._at_least[item.id] = counted
        return counted > room

    def forget(self, item: ContextItem) -> None:
        """For an item that another takes the place of."""
        self._known.pop(item.id, None)
        self._at_least.pop(item.id, None)

    def learn_glue(self, texts: Iterable[str]) -> None:
        """Tokenizes what prompts will need between items, before there is any prompt."""
        self._glue |= {text: self.encoder.encode(text) for text in texts}

    def glue(self, text: str) -> list[int]:
        """The ids of a header, or of what separates items."""
        found = self._glue.get(text)
        if found is None:
            found = self._glue[text] = self.encoder.encode(text)
            self._new += len(found)
        return found

    def join(self, parts: Sequence[Part]) -> list[int]:
        """The ids of these parts as one text."""
        joined = self._joiner.join(parts)
        self._new += joined.new
        return joined.ids

    def _learn(self, item: ContextItem) -> Known:
        try:
            joined = self._joined(item)
        except TextError as error:
            return Known((), str(error))
        self._new += joined.new
        return Known(joined.ids)

    def _joined(self, item: ContextItem) -> Joined:
        """The ids of a text, of its believed leaves where it has some."""
        parts: list[Part] = []
        done = 0
        for span in item.leaves:
            text = item.text[span.start : span.end]
            if span.start < done or not self._believes(text, span.payload.ids, span.payload.map_id):
                continue
            parts += [Part(item.text[done : span.start]), Part(text, span.payload.ids)]
            done = span.end
        return self._joiner.join([*parts, Part(item.text[done:])])

    def _believes(self, text: str, ids: Sequence[int], map_id: str) -> bool:
        verdict = check(self.encoder, text, ids, level=self._level, map_id=map_id)
        if self._level == "canonical" and verdict.reason in (None, "non-canonical"):
            self._checked += len(ids)
        return verdict.accepted
