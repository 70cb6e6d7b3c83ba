"""A sieve for short byte strings in long ones. In: bytes. Out: where one of many needles may begin. Pure.

Each pair of neighbouring bytes is looked up in a table of 65,536; the few places that pass are tried on their next two
pairs. The price is one table look per byte whatever the number of needles, where a regular expression pays per needle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

_REACH: Final = 4  # bytes of a needle that are looked at
_PADDING: Final = b"\n" * (_REACH + 2)  # so that the last bytes have neighbours; no needle is made of line feeds

_BITS: Final = 64

Needle = tuple[Iterable[int], ...]  # the bytes that may stand at each place
_Looked = tuple[tuple[int, ...], ...]


class Sieve:
    """Built once from families of needles. A find may be false; a miss never is."""

    def __init__(self, families: Mapping[str, Iterable[Needle]]) -> None:
        """`families`: name -> needles, each a sequence of one to four sets of bytes."""
        self._tables: Final = tuple(np.zeros(65536, np.uint64) for _ in range(_REACH - 1))
        self._bits: Final[dict[str, int]] = dict.fromkeys(families, 0)
        for bit, (family, needle) in _with_bits(families):
            self._bits[family] |= bit
            self._add(np.uint64(bit), needle)
        self._first: Final = self._tables[0].astype(bool)

    def _add(self, bit: np.uint64, needle: _Looked) -> None:
        padded = (*needle, *(tuple(range(256)),) * (_REACH - len(needle)))
        for table, (first, second) in zip(self._tables, pairwise(padded), strict=True):
            pairs = np.bitwise_or.outer(np.array(first, np.intp), np.array(second, np.intp) << 8)
            table[pairs.ravel()] |= bit

    def families(self, data: bytes) -> set[str]:
        """The families that have a find."""
        _, bits = self._search(data)
        seen = int(np.bitwise_or.reduce(bits)) if bits.size else 0
        return {family for family, bits in self._bits.items() if seen & bits}

    def places(self, data: bytes) -> list[int]:
        """Where finds begin, in order."""
        places, _ = self._search(data)
        found: list[int] = np.sort(places).tolist()
        return found

    def dirty(self, strings: Sequence[str]) -> set[str]:
        """The strings that have a find in them."""
        lengths = np.fromiter((len(item) for item in strings), np.intp, len(strings))
        joined = "\n".join(strings)
        if not joined.isascii():
            lengths = np.fromiter((len(utf8(item)) for item in strings), np.intp, len(strings))
        places, _ = self._search(utf8(joined))
        ends = np.cumsum(lengths + 1)
        owners = np.unique(np.searchsorted(ends, places, "right"))
        return {strings[owner] for owner in owners.tolist()}

    def _search(self, data: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint64]]:
        padded = data + _PADDING
        found = [self._search_from(padded, len(data), shift) for shift in (0, 1)]
        return np.concatenate([places for places, _ in found]), np.concatenate([bits for _, bits in found])

    def _search_from(
        self, padded: bytes, length: int, shift: int
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint64]]:
        """Finds at the even places, or with a shift of one at the odd ones."""
        count = length // 2 + 1
        first, *others = (np.frombuffer(padded, "<u2", count, shift + step) for step in range(len(self._tables)))
        passed = np.flatnonzero(np.take(self._first, first))
        bits = np.take(self._tables[0], first[passed])
        for pairs, table in zip(others, self._tables[1:], strict=True):
            bits = bits & np.take(table, pairs[passed])
            left = np.flatnonzero(bits)
            passed, bits = passed[left], bits[left]
        places = passed * 2 + shift
        inside = places < length
        return places[inside], bits[inside]


def _with_bits(families: Mapping[str, Iterable[Needle]]) -> Iterator[tuple[int, tuple[str, _Looked]]]:
    """Every needle with a bit. The first pair of one needle and the second of another must not make a find, so needles
    share a bit only with their neighbours in the alphabet; and never with those of another length, or a short one would
    let everything pass for the longer ones."""
    groups: dict[tuple[str, int], list[_Looked]] = {}
    for family, needles in families.items():
        for needle in needles:
            looked_at = tuple(tuple(sorted(choice)) for choice in needle[:_REACH])
            groups.setdefault((family, len(looked_at)), []).append(looked_at)
    total = sum(map(len, groups.values()))
    used = 0
    for (family, _), group in groups.items():
        share = 1 + (_BITS - len(groups)) * len(group) // total
        for place, needle in enumerate(sorted(group)):
            yield 1 << (used + place * share // len(group)), (family, needle)
        used += share


def utf8(text: str) -> bytes:
    """The bytes of a text that need not be sound."""
    return text.encode("utf-8", "surrogatepass")


def spelled(literal: str, *, any_case: bool = False) -> Needle:
    """A needle for these characters, in UTF-8."""
    if any_case:
        return tuple({ord(char.lower()), ord(char.upper())} for char in literal)
    return tuple((byte,) for byte in utf8(literal))
