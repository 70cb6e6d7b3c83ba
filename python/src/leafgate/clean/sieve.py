"""A sieve that finds where one of many short byte strings (needles) may begin in a long one.

Each pair of neighbouring bytes is looked up in a table of 65,536 entries; the few places that pass are checked again by
their next two pairs. The cost is one lookup per byte for any number of needles; a regular expression pays for each one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

_REACH: Final = 4  # bytes of a needle that are compared
_PADDING: Final = b"\n" * (_REACH + 2)  # gives the last bytes neighbours; no needle consists of line feeds

_BITS: Final = 64

Needle = tuple[Iterable[int], ...]  # the bytes that may stand at each place
_Prefix = tuple[tuple[int, ...], ...]  # the first _REACH places of a needle


class Sieve:
    """Searches for families of needles. It may report a place where no needle stands, but it never misses one."""

    def __init__(self, families: Mapping[str, Iterable[Needle]]) -> None:
        """Build the tables for `families`: name -> needles, each a sequence of sets of bytes."""
        self._tables: Final = tuple(np.zeros(65536, np.uint64) for _ in range(_REACH - 1))
        self._bits: Final[dict[str, int]] = dict.fromkeys(families, 0)
        for bit, (family, needle) in _with_bits(families):
            self._bits[family] |= bit
            self._add(np.uint64(bit), needle)
        self._first: Final = self._tables[0].astype(bool)

    def _add(self, bit: np.uint64, needle: _Prefix) -> None:
        padded = (*needle, *(tuple(range(256)),) * (_REACH - len(needle)))
        for table, (first, second) in zip(self._tables, pairwise(padded), strict=True):
            pairs = np.bitwise_or.outer(np.array(first, np.intp), np.array(second, np.intp) << 8)
            table[pairs.ravel()] |= bit

    def families(self, data: bytes) -> set[str]:
        """Return the families of which a needle may occur."""
        _, bits = self._search(data)
        union = int(np.bitwise_or.reduce(bits)) if bits.size else 0
        return {family for family, bits in self._bits.items() if union & bits}

    def places(self, data: bytes) -> list[int]:
        """Return in order the places where a needle may begin."""
        places, _ = self._search(data)
        result: list[int] = np.sort(places).tolist()
        return result

    def find_texts(self, strings: Sequence[str]) -> set[str]:
        """Return the strings in which a needle may occur."""
        lengths = np.fromiter((len(item) for item in strings), np.intp, len(strings))
        text = "\n".join(strings)
        if not text.isascii():
            lengths = np.fromiter((len(utf8(item)) for item in strings), np.intp, len(strings))
        places, _ = self._search(utf8(text))
        ends = np.cumsum(lengths + 1)
        owners = np.unique(np.searchsorted(ends, places, "right"))
        return {strings[owner] for owner in owners.tolist()}

    def _search(self, data: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint64]]:
        padded = data + _PADDING
        halves = [self._search_from(padded, len(data), shift) for shift in (0, 1)]
        return np.concatenate([places for places, _ in halves]), np.concatenate([bits for _, bits in halves])

    def _search_from(
        self, padded: bytes, length: int, shift: int
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint64]]:
        """Search at the even places, or with a shift of one at the odd places."""
        count = length // 2 + 1
        first, *others = (np.frombuffer(padded, "<u2", count, shift + step) for step in range(len(self._tables)))
        passed = np.flatnonzero(np.take(self._first, first))
        bits = np.take(self._tables[0], first[passed])
        for pairs, table in zip(others, self._tables[1:], strict=True):
            bits = bits & np.take(table, pairs[passed])
            rest = np.flatnonzero(bits)
            passed, bits = passed[rest], bits[rest]
        places = passed * 2 + shift
        inside = places < length
        return places[inside], bits[inside]


def _with_bits(families: Mapping[str, Iterable[Needle]]) -> Iterator[tuple[int, tuple[str, _Prefix]]]:
    """Yield every needle with its bit.

    The first pair of one needle and the second pair of another must not pass together, so a needle shares its bit only
    with its neighbours in the alphabet, and never with needles of another length: a short one lets everything pass for
    the longer ones.
    """
    groups: dict[tuple[str, int], list[_Prefix]] = {}
    for family, needles in families.items():
        for needle in needles:
            prefix = tuple(tuple(sorted(choice)) for choice in needle[:_REACH])
            groups.setdefault((family, len(prefix)), []).append(prefix)
    total = sum(map(len, groups.values()))
    used = 0
    for (family, _), group in groups.items():
        share = 1 + (_BITS - len(groups)) * len(group) // total
        for place, needle in enumerate(sorted(group)):
            yield 1 << (used + place * share // len(group)), (family, needle)
        used += share


def utf8(text: str) -> bytes:
    """Encode a text that may contain lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def make_needle(literal: str, *, any_case: bool = False) -> Needle:
    """Return the needle for these characters in UTF-8."""
    if any_case:
        return tuple({ord(char.lower()), ord(char.upper())} for char in literal)
    return tuple((byte,) for byte in utf8(literal))
