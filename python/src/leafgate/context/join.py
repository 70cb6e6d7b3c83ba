"""Joins texts whose ids are known. In: parts in order. Out: the ids of the whole, and what had to be tokenized for it.

Touches nothing. Only the text between the last cut of one part and the first cut of the next is tokenized, and nothing
where the border itself is a cut (context/cuts says why that is enough); a part without cuts goes with its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leafgate.context.cuts import Cutter
from leafgate.tokens.encoder import Encoder

MOST_SEAMS: Final = 4096
LONGEST_SEAM: Final = 64  # characters; the seams that recur are short


@dataclass(frozen=True)
class Part:
    """A text, and its ids where they are known: exactly those that the encoder gives for this text alone."""

    text: str
    ids: Sequence[int] | None = None


@dataclass(frozen=True)
class Joined:
    """The ids of the parts as one text; `new` of all tokens made on the way were not known before."""

    ids: list[int]
    new: int


class Joiner:
    """Joins under one map, and remembers short seams, of which a prompt has the same ones again and again."""

    def __init__(self, encoder: Encoder, cutter: Cutter) -> None:
        self._encoder = encoder
        self._cutter = cutter
        self._seams: dict[str, list[int]] = {}

    def join(self, parts: Sequence[Part]) -> Joined:
        filled = [part for part in parts if part.text]
        borders = [True, *(self._cutter.between(one.text, next.text) for one, next in pairwise(filled)), True]
        ids: list[int] = []
        pending: list[str] = []
        new = 0
        for part, sharp_start, sharp_end in zip(filled, borders, borders[1:], strict=False):
            kept = None if part.ids is None else self._kept(part.text, part.ids, sharp_start, sharp_end)
            if kept is None:
                pending.append(part.text)
                continue
            seam, fresh = self._encode("".join((*pending, part.text[: kept.first])))
            ids += seam
            ids += kept.ids
            new += fresh
            pending = [part.text[kept.rest :]]
        seam, fresh = self._encode("".join(pending))
        return Joined(ids + seam, new + fresh)

    def _kept(self, text: str, ids: Sequence[int], sharp_start: bool, sharp_end: bool) -> _Kept | None:
        """What of a part stays as it is between these neighbours; None where nothing surely does.

        A sharp border is one at which nothing changes: a cut, or the beginning or the end of it all.
        """
        first = 0 if sharp_start else self._cutter.first(text)
        last = len(text) if sharp_end else self._cutter.last(text)
        if first is None or last is None:
            return None
        start = 0 if sharp_start else self._tokens_in(ids, len(text[:first].encode()) + self._cutter.skip)
        end = 0 if sharp_end else self._tokens_in(reversed(ids), len(text[last:].encode()))
        if start is None or end is None or start + end > len(ids):
            return None
        return _Kept(first, last if sharp_end else last + self._cutter.skip, ids[start : len(ids) - end])

    def _tokens_in(self, ids: Iterable[int], size: int) -> int | None:
        """How many of the first ids take exactly so many bytes; None where no number does."""
        tokens = self._encoder.map.token_of_id
        for taken, id in enumerate(ids, 1):
            size -= len(tokens[id])
            if size <= 0:
                return taken if size == 0 else None
        return None

    def _encode(self, text: str) -> tuple[list[int], int]:
        known = self._seams.get(text)
        if known is not None:
            return known, 0
        ids = self._encoder.encode(text)
        if len(text) <= LONGEST_SEAM and len(self._seams) < MOST_SEAMS:
            self._seams[text] = ids
        return ids, len(ids)


@dataclass(frozen=True)
class _Kept:
    """The ids of text[first:…] up to where the rest begins, which is tokenized with what follows."""

    first: int
    rest: int
    ids: Sequence[int]
