"""A sieve that finds where one of many short byte strings (needles) may begin in a long one.

Where needles are rare, an automaton (RE2) finds them: a text without any costs one search. Where they are not, a table
finds all places at once: each pair of neighbouring bytes is looked up in a table of 65,536 entries, and the few places
that pass are checked again by their next two pairs. Neither costs more for more needles, as a list of alternatives of a
regular expression does.

An Expression is a regular expression that is built together with what its matches begin with. The needles of a pattern
are read from it, so a sieve cannot miss what the pattern matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import re2  # type: ignore[import-untyped]  # it ships no types

_REACH: Final = 4  # bytes of a needle that are compared
_PADDING: Final = b"\n" * (_REACH + 2)  # gives the last bytes neighbours; no needle consists of line feeds

_BITS: Final = 64
_SHORT: Final = 8192  # bytes below which automata are quicker than the table, even one for each family
_FEW: Final = 16  # places that are found one by one, and so many more for each
_BYTES_PER_PLACE: Final = 2048
_ASCII: Final = bytes(range(128))
_AUTOMATON_BYTES: Final = 32 << 20

Needle = tuple[Iterable[int], ...]  # the bytes that may stand at each place
Places = npt.NDArray[np.intp]
_Prefix = tuple[tuple[int, ...], ...]  # the first _REACH places of a needle


class Sieve:
    """Searches for families of needles. It may report a place where no needle stands, but it never misses one."""

    def __init__(self, families: Mapping[str, Iterable[Needle]]) -> None:
        """Build automata and tables for `families`: name -> needles, each a sequence of sets of bytes."""
        self._tables: Final = tuple(np.zeros(65536, np.uint64) for _ in range(_REACH - 1))
        self._bits: Final[dict[str, int]] = dict.fromkeys(families, 0)
        families = {family: [tuple(map(tuple, needle)) for needle in needles] for family, needles in families.items()}
        for bit, (family, needle) in _with_bits(families):
            self._bits[family] |= bit
            self._add(np.uint64(bit), needle)
        self._first: Final = self._tables[0].astype(bool)
        self._automata: Final = {family: _compile(needles) for family, needles in families.items()}
        self._automaton: Final = _compile(needle for needles in families.values() for needle in needles)

    def _add(self, bit: np.uint64, needle: _Prefix) -> None:
        padded = (*needle, *(tuple(range(256)),) * (_REACH - len(needle)))
        for table, (first, second) in zip(self._tables, pairwise(padded), strict=True):
            pairs = np.bitwise_or.outer(np.array(first, np.intp), np.array(second, np.intp) << 8)
            table[pairs.ravel()] |= bit

    def families(self, data: bytes) -> dict[str, Places | None]:
        """Return the families of which a needle may occur, each with the places; of short data, without them."""
        if len(data) < _SHORT:
            if self._automaton.search(data) is None:
                return {}
            return {family: None for family, automaton in self._automata.items() if automaton.search(data)}
        places, bits = self._search(data)
        masks = {family: (bits & np.uint64(mask)).astype(bool) for family, mask in self._bits.items()}
        return {family: np.sort(places[mask]) for family, mask in masks.items() if mask.any()}

    def places(self, data: bytes) -> list[int] | Places:
        """Return in order the places where a needle may begin: a list if they are few, else an array."""
        result: list[int] = []
        start = 0
        for _ in range(_FEW + len(data) // _BYTES_PER_PLACE):
            match = self._automaton.search(data, start)
            if match is None:
                return result
            result.append(match.start())
            start = match.start() + 1
        places, _ = self._search(data)
        return np.sort(places)

    def find_texts(self, strings: Sequence[str]) -> set[str]:
        """Return the strings in which a needle may occur."""
        text = "\n".join(strings)
        data = utf8(text)
        if self._automaton.search(data) is None:
            return set()
        lengths = map(len, strings) if len(data) == len(text) else (len(utf8(item)) for item in strings)
        ends = np.cumsum(np.fromiter(lengths, np.intp, len(strings)) + 1)
        places, _ = self._search(data)
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


def _compile(needles: Iterable[Needle]) -> Any:
    """Return an automaton that finds the first place where a needle begins."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _AUTOMATON_BYTES
    classes = ("".join(map(_byte_class, needle)) for needle in needles)
    return re2.compile("|".join(sorted(set(classes))).encode("latin-1") or b"[^\\x00-\\xff]", options)


def _byte_class(choices: Iterable[int]) -> str:
    return "[" + "".join(f"\\x{byte:02x}" for byte in choices) + "]"


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


def without_ascii(text: str) -> str:
    """Return the other characters of a text. To search these is much faster than to search all of it."""
    return "" if text.isascii() else utf8(text).translate(None, _ASCII).decode("utf-8", "surrogatepass")


def make_needle(literal: str, *, any_case: bool = False) -> Needle:
    """Return the needle for these characters in UTF-8."""
    if any_case:  # of ASCII; other characters have one form here
        return tuple({*bytes((byte,)).lower(), *bytes((byte,)).upper()} for byte in utf8(literal))
    return tuple((byte,) for byte in utf8(literal))


# Expressions

_Beginning = tuple[tuple[frozenset[str], ...], bool]  # the characters at each place; is this a whole match?


@dataclass(frozen=True)
class Expression:
    """A regular expression for lower-case text, and all that its matches can begin with."""

    regex: str
    beginnings: tuple[_Beginning, ...]

    def needles(self, variants: Mapping[str, Iterable[str]]) -> set[Needle]:
        """Return the needles of the matches in any case. `variants`: other characters that are read as one.

        A character that is not ASCII may be read as any other, or as none. A needle therefore ends at its first byte
        above 0x7f; only at the first place, the variants of the character are listed.
        """
        needles: set[Needle] = set()
        for places, _ in self.beginnings:
            ascii_places = list(takewhile(lambda chars: all(map(str.isascii, chars)), places))
            choices = [tuple(sorted({*map(ord, chars), *map(ord, "".join(chars).upper())})) for chars in ascii_places]
            needles |= {(*choices[:end], _ABOVE) for end in range(1, min(len(choices) + 1, len(places)))}
            needles |= {tuple(choices)} if len(choices) == len(places) else set()
            needles |= {make_needle(each) for char in places[0] for each in variants.get(char, ())}
            needles |= {make_needle(char) for char in places[0] if not char.isascii()}
        return needles


_ABOVE: Final = tuple(range(0x80, 0x100))
_UNKNOWN: Final[tuple[_Beginning, ...]] = (((), False),)


def rest(regex: str) -> Expression:
    """Return a part about whose beginning nothing is known. Sieves do not look at it or behind it."""
    return Expression(regex, _UNKNOWN)


def one_of(chars: str, most: int = 1, least: int = 1) -> Expression:
    """Return a part that matches from `least` to `most` of these characters."""
    first = frozenset(chars)
    beginnings: tuple[_Beginning, ...] = (((first,), most == 1),)
    repeat = "" if least == most == 1 else f"{{{least},{most}}}"
    return Expression(f"[{re.escape(chars)}]{repeat}", beginnings if least else (*beginnings, ((), True)))


def sequence(*parts: Expression) -> Expression:
    """Return the parts one after the other."""
    beginnings: list[_Beginning] = [((), True)]
    for part in parts:
        longer: dict[_Beginning, None] = {}
        for places, is_whole in beginnings:
            if not is_whole or len(places) >= _REACH:
                longer[places[:_REACH], False] = None
                continue
            longer |= {((*places, *more)[:_REACH], ends): None for more, ends in part.beginnings}
        beginnings = list(longer)
    return Expression("".join(part.regex for part in parts), tuple(beginnings))


def either(*parts: Expression) -> Expression:
    """Return a part that matches one of these, the first that does."""
    regex = "|".join(part.regex for part in parts)
    return Expression(f"(?:{regex})", tuple(dict.fromkeys(each for part in parts for each in part.beginnings)))


def named(name: str, part: Expression) -> Expression:
    """Return the part as a group of this name."""
    return Expression(f"(?P<{name}>{part.regex})", part.beginnings)


def words(spellings: Iterable[Sequence[str]], kinds: Mapping[str, Expression]) -> Expression:
    """Return a part that matches one of many words, as a tree of their common beginnings.

    A word is a sequence of characters and of names of `kinds`.
    """
    spellings = [tuple(each) for each in spellings]
    parts = [sequence(*(kinds.get(step) or one_of(step) for step in each)) for each in spellings]
    tree: dict[str, Any] = {}
    for spelling in spellings:
        node = tree
        for step in (*spelling, ""):
            node = node.setdefault(step, {})
    return Expression(_tree_regex(tree, kinds), either(*parts).beginnings)


def _tree_regex(tree: Mapping[str, Any], kinds: Mapping[str, Expression]) -> str:
    branches = [
        (kinds[step].regex if step in kinds else re.escape(step)) + _tree_regex(below, kinds)
        for step, below in sorted(tree.items())
        if step
    ]
    if not branches:
        return ""
    regex = branches[0] if len(branches) == 1 and "" not in tree else f"(?:{'|'.join(branches)})"
    return f"{regex}?" if "" in tree else regex
