"""Token ids of items, and of prompts that are joined from them without tokenizing the whole again.

Nothing is tokenized before it is needed, and nothing twice: a session may have many more events than a pack holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leafgate.context.cuts import Cutter, make_cutter
from leafgate.model.context import ContextItem, Tokenized
from leafgate.model.errors import TextError
from leafgate.model.leaf import Level
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.normalize import is_normalized
from leafgate.tokens.verify import check

MOST_SEAMS: Final = 4096
LONGEST_SEAM: Final = 64  # characters; the seams that recur are short


@dataclass(frozen=True)
class Part:
    """A text, and its ids if there are any yet: exactly those that the encoder gives for this text alone."""

    text: str
    ids: Sequence[int] | None = None


@dataclass(frozen=True)
class Encoding:
    """The ids of the parts as one text; `new` is how many tokens the encoder had to make for it."""

    ids: list[int]
    new: int


class Joiner:
    """Joins texts whose ids are available, under one map.

    Only the text between the last cut of one part and the first cut of the next is tokenized, and none where the border
    itself is a cut (context/cuts explains why that is sound); a part without cuts is tokenized with its neighbours.
    Short seams are remembered, because they recur in every prompt.
    """

    def __init__(self, encoder: Encoder, cutter: Cutter) -> None:
        self._encoder = encoder
        self._cutter = cutter
        self._seams: dict[str, list[int]] = {}

    def join(self, parts: Sequence[Part]) -> Encoding:
        filled = [part for part in parts if part.text]
        borders = [True, *(self._cutter.between(one.text, next.text) for one, next in pairwise(filled)), True]
        ids: list[int] = []
        pending: list[str] = []
        new = 0
        for part, sharp_start, sharp_end in zip(filled, borders, borders[1:], strict=False):
            middle = None if part.ids is None else self._middle(part.text, part.ids, sharp_start, sharp_end)
            if middle is None:
                pending.append(part.text)
                continue
            first, rest, middle_ids = middle
            seam, fresh = self._encode("".join((*pending, part.text[:first])))
            ids += seam
            ids += middle_ids
            new += fresh
            pending = [part.text[rest:]]
        seam, fresh = self._encode("".join(pending))
        return Encoding(ids + seam, new + fresh)

    def _middle(
        self, text: str, ids: Sequence[int], sharp_start: bool, sharp_end: bool
    ) -> tuple[int, int, Sequence[int]] | None:
        """The part of a text whose ids do not depend on these neighbours: where it begins, where the rest begins, and
        its ids; None if that is not certain of any.

        A sharp border is a cut, or the beginning or the end of the whole text: ids on both sides stay the same.
        """
        if not is_normalized(self._encoder.map, text):  # its ids have the bytes of another text
            return None
        first = 0 if sharp_start else self._cutter.first(text)
        last = len(text) if sharp_end else self._cutter.last(text)
        if first is None or last is None:
            return None
        start = 0 if sharp_start else self._tokens_in(ids, len(text[:first].encode()) + self._cutter.skip)
        end = 0 if sharp_end else self._tokens_in(reversed(ids), len(text[last:].encode()))
        if start is None or end is None or start + end > len(ids):
            return None
        return first, last if sharp_end else last + self._cutter.skip, ids[start : len(ids) - end]

    def _tokens_in(self, ids: Iterable[int], size: int) -> int | None:
        """How many of the first ids have exactly this many bytes; None if no number of them has."""
        tokens = self._encoder.map.token_of_id
        for count, id in enumerate(ids, 1):
            size -= len(tokens[id])
            if size <= 0:
                return count if size == 0 else None
        return None

    def _encode(self, text: str) -> tuple[list[int], int]:
        seam = self._seams.get(text)
        if seam is not None:
            return seam, 0
        ids = self._encoder.encode(text)
        if len(text) <= LONGEST_SEAM and len(self._seams) < MOST_SEAMS:
            self._seams[text] = ids
        return ids, len(ids)


_CHARS_PER_TOKEN: Final = 12  # characters to tokenize per token of room; prose has four per token


@dataclass(frozen=True)
class ItemIds:
    """The ids of an item's text, or why there are none."""

    ids: Sequence[int]
    failure: str = ""


class ItemTokens:
    """The tokens of one session's items. Ids that arrived with an item are verified before they are used."""

    def __init__(self, encoder: Encoder, level: Level) -> None:
        self.encoder = encoder
        self._level = level
        self._longest = max(map(len, encoder.map.token_of_id.values()))
        self._cutter = make_cutter(encoder.map)
        self._joiner = Joiner(encoder, self._cutter)
        self._ids: dict[str, ItemIds] = {}
        self._at_least: dict[str, int] = {}
        self._glue: dict[str, list[int]] = {}
        self._new = 0
        self._checked = 0

    @property
    def work(self) -> Tokenized:
        """How many tokens were made and checked so far."""
        return Tokenized(self._new, self._checked)

    def ids_of(self, item: ContextItem) -> ItemIds:
        """The ids of an item's text."""
        if item.id not in self._ids:
            try:
                self._ids[item.id] = ItemIds(self._encode(item))
            except TextError as error:
                self._ids[item.id] = ItemIds((), str(error))
        return self._ids[item.id]

    def count_if_tokenized(self, item: ContextItem) -> int | None:
        """How many tokens an item's text has, if it was tokenized for an earlier request."""
        ids = self._ids.get(item.id)
        return None if ids is None or ids.failure else len(ids.ids)

    def surely_exceeds(self, item: ContextItem, room: int) -> bool:
        """Whether a text certainly has more tokens than this, judged by its beginning: a long text is not tokenized."""
        if len(item.text) > room * self._longest or self._at_least.get(item.id, 0) > room:
            return True
        if item.id in self._ids or item.leaves or len(item.text) <= room * _CHARS_PER_TOKEN:
            return False
        start = item.text[: room * _CHARS_PER_TOKEN]
        cut = self._cutter.last(start)
        try:
            count = 0 if cut is None else len(self.encoder.encode(start[:cut]))
        except TextError:
            return False
        self._new += count
        self._at_least[item.id] = count
        return count > room

    def forget(self, item: ContextItem) -> None:
        """Drop the ids of an item that another item replaces."""
        self._ids.pop(item.id, None)
        self._at_least.pop(item.id, None)

    def learn_glue(self, texts: Iterable[str]) -> None:
        """Tokenize what prompts need between items, ahead of the first prompt."""
        self._glue |= {text: self.encoder.encode(text) for text in texts}

    def glue(self, text: str) -> list[int]:
        """The ids of a header, or of what separates items."""
        ids = self._glue.get(text)
        if ids is None:
            ids = self._glue[text] = self.encoder.encode(text)
            self._new += len(ids)
        return ids

    def join(self, parts: Sequence[Part]) -> list[int]:
        """The ids of these parts as one text."""
        encoding = self._joiner.join(parts)
        self._new += encoding.new
        return encoding.ids

    def _encode(self, item: ContextItem) -> list[int]:
        """The ids of a text, joined from its leaves where these are valid."""
        parts: list[Part] = []
        done = 0
        for span in item.leaves:
            text = item.text[span.start : span.end]
            if span.start < done:
                continue
            ids = span.payload.ids
            verdict = check(self.encoder, text, ids, level=self._level, map_id=span.payload.map_id)
            if self._level == "canonical" and verdict.reason in (None, "non-canonical"):
                self._checked += len(ids)
            if verdict.accepted:
                parts += [Part(item.text[done : span.start]), Part(text, ids)]
                done = span.end
        return self.join([*parts, Part(item.text[done:])])
