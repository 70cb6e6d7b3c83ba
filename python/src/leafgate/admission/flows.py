"""Flow rules: what a caller has read from one server may not, or not silently, go to another.

Text is followed by fingerprints: a keyed hash of every GRAM letters and digits in a row. A call carries text of a
result if LEAST letters in a row have their fingerprints in it; or if pieces of at least PIECE letters, over several
arguments or calls, add up to SPLIT letters in a row there. Shorter matches are ids, names and common words. In long
arguments chance has more room, so that LEAST_OF_LONG are needed: of unrelated texts of 1,500 and 30,000 characters,
2.1 % shared 24 letters in a row, and 0.7 % shared 32. Secrets that redaction took out are followed by keyed digests of
the whole secret, or of each WINDOW characters of a long one.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from leafgate.admission.flow_text import BREAK, fold
from leafgate.data import load_table
from leafgate.model.errors import ConfigError

FlowKind = Literal["untrusted", "secret", "any"]
FlowEffect = Literal["deny", "require_approval", "flag"]

GRAM: Final = 8
LEAST: Final = 24
LEAST_OF_LONG: Final = 32
LONG: Final = 400  # letters of arguments
PIECE: Final = 10
SPLIT: Final = 40
KNOWN: Final = 16  # letters in a row of a stock phrase, of the caller itself, or that the receiver has returned before
MAX_GAP: Final = 2  # letters between two pieces that still count as one
MIN_SECRET: Final = 8
WINDOW: Final = 12

Grams = NDArray[np.uint32]
Interval = tuple[int, int]

_STRENGTH: Final[dict[FlowEffect, int]] = {"deny": 2, "require_approval": 1, "flag": 0}
_SECRET_ROW: Final = struct.Struct("<HHQ")  # length, the low bits of its first gram, digest
_INTERVAL: Final = struct.Struct("<II")
_LOW_BITS: Final = 0xFFFF


# Rules


@dataclass(frozen=True)
class FlowRule:
    """One rule: text or secrets from servers that match `source` in calls to servers that match `destination`.

    `kind` is what is followed: `untrusted`, the text that a server returned; `secret`, what redaction took out of it;
    or both. With `side_effects`, calls of tools that are declared read-only are not meant. Names are globs. A server's
    own text may always go back to it.
    """

    source: str
    destination: str
    effect: FlowEffect
    kind: FlowKind = "any"
    side_effects: bool = False
    principal: str | None = None

    def __post_init__(self) -> None:
        if self.effect not in get_args(FlowEffect) or self.kind not in get_args(FlowKind):
            raise ConfigError(
                f"policy.flows: effect is one of {', '.join(get_args(FlowEffect))}, "
                f"and kind one of {', '.join(get_args(FlowKind))}"
            )

    def follows(self, kind: FlowKind) -> bool:
        return self.kind in (kind, "any")

    def fits(self, source: str, destination: str) -> bool:
        return source != destination and fnmatchcase(source, self.source) and fnmatchcase(destination, self.destination)


@dataclass(frozen=True)
class Flow:
    """Something of `source` in a call to `destination`, and the strongest effect of the rules about it.

    `kind` is None where the arguments are too large to be checked.
    """

    source: str
    destination: str
    kind: Literal["untrusted", "secret"] | None
    effect: FlowEffect

    def describe(self) -> str:
        """Return the flow in words, for people and models."""
        if self.kind is None:
            return f"arguments too large to check for what was read from {self.source} would go to {self.destination}"
        what = "text" if self.kind == "untrusted" else "a secret"
        return f"{what} that was read from {self.source} would go to {self.destination}"

    def as_json(self) -> dict[str, str]:
        return {"from": self.source, "to": self.destination, "kind": self.kind or "unchecked", "effect": self.effect}


@dataclass(frozen=True)
class FlowPolicy:
    """The flow rules of a gateway. Every rule that fits counts; the strongest effect decides."""

    rules: tuple[FlowRule, ...] = ()

    def keeps_text(self, server: str) -> bool:
        """Whether text from this server is fingerprinted: as a source, or as what a destination has anyway."""
        rules = [rule for rule in self.rules if rule.follows("untrusted")]
        return any(fnmatchcase(server, glob) for rule in rules for glob in (rule.source, rule.destination))

    def keeps_secrets(self, server: str) -> bool:
        return any(rule.follows("secret") and fnmatchcase(server, rule.source) for rule in self.rules)

    def rules_for(self, destination: str, principal: str | None, *, has_side_effects: bool) -> tuple[FlowRule, ...]:
        """The rules about calls to this server."""
        return tuple(
            rule
            for rule in self.rules
            if fnmatchcase(destination, rule.destination)
            and (has_side_effects or not rule.side_effects)
            and (rule.principal is None or (principal is not None and fnmatchcase(principal, rule.principal)))
        )


def strongest(effects: Iterable[FlowEffect]) -> FlowEffect | None:
    return max(effects, key=_STRENGTH.__getitem__, default=None)


# Fingerprints


@dataclass(frozen=True)
class Fingerprinter:
    """Makes fingerprints under one key. Those of two keys have nothing in common."""

    key: bytes
    _numbers: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(b"leafgate flow fingerprints", key=self.key[:64], digest_size=32).digest()
        object.__setattr__(self, "_numbers", struct.unpack("<4Q", digest))

    def grams(self, folded: str) -> Grams:
        """A keyed hash for each place of a folded text; 0 where there is none: at a break, in a monotonous text, and
        at the end, so that a place in the text is a place in the array."""
        points = np.frombuffer(folded.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        result = np.zeros(len(points), np.uint32)
        places = len(points) - GRAM + 1
        if places <= 0:
            return result
        before, factor, after, _ = (np.uint64(number) for number in self._numbers)
        letters = _mix(points.astype(np.uint64) ^ before)
        hashes = np.zeros(places, np.uint64)
        for offset in range(GRAM):
            hashes = hashes * (factor | np.uint64(1)) + letters[offset : offset + places]
        values = (_mix(hashes ^ after) >> np.uint64(32)).astype(np.uint32)
        values[values == 0] = 1
        is_usable = _sum_windows(points == ord(BREAK), GRAM)[:places] == 0
        for period in range(1, 6):  # "aaaaaaaa", "20202020"
            repeats = np.zeros(len(points), bool)
            repeats[period:] = points[period:] == points[:-period]
            is_usable &= _sum_windows(repeats, GRAM)[:places] < GRAM - 2
        result[:places] = np.where(is_usable, values, 0)
        return result

    def text(self, folded: str, own: str = "") -> Grams:
        """The fingerprints of a result, without those of phrases that everybody uses, and of `own`: the arguments of
        the call, which a server often repeats."""
        grams = self.grams(folded)
        for other in (_stock_grams(self), self.grams(own)):
            for start, end in find_runs(find_present(grams, np.unique(other)), KNOWN):
                grams[start : end - GRAM + 1] = 0
        return grams

    def secrets(self, secrets: Iterable[str]) -> bytes:
        """The digests of secrets, as bytes to store."""
        rows: dict[bytes, None] = {}
        for secret in map(fold, secrets):
            length = len(secret) if len(secret) < WINDOW + 4 else WINDOW
            if len(secret) < MIN_SECRET:
                continue
            grams = self.grams(secret)
            for start in range(len(secret) - length + 1):
                digest = self._digest(secret[start : start + length])
                rows[_SECRET_ROW.pack(length, int(grams[start]) & _LOW_BITS, digest)] = None
        return b"".join(rows)

    def has_secret(self, folded: str, grams: Grams, stored: bytes) -> bool:
        """Whether a folded text, whose grams are given, has one of the stored secrets in it."""
        rows = {(length, digest): low for length, low, digest in _SECRET_ROW.iter_unpack(stored)}
        lengths = {length for length, _ in rows}
        candidates = np.flatnonzero(np.isin(grams & _LOW_BITS, np.array([*{*rows.values()}], np.uint32)))
        return any(
            (length, self._digest(folded[place : place + length])) in rows
            for place in candidates.tolist()
            for length in lengths
            if place + length <= len(folded)
        )

    def _digest(self, text: str) -> int:
        data = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self.key[:64], digest_size=8).digest()
        return int.from_bytes(data, "little")


@lru_cache(maxsize=4)
def _stock_grams(prints: Fingerprinter) -> Grams:
    return prints.grams(BREAK.join(fold(phrase) for phrase in _STOCK.splitlines()))


_STOCK: Final[str] = load_table("stock_phrases", {"phrases": str})["phrases"]


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _sum_windows(flags: NDArray[np.bool_], width: int) -> NDArray[np.int64]:
    sums = np.concatenate(([0], np.cumsum(flags)))
    return sums[width:] - sums[:-width]


# Matching


@dataclass(frozen=True, eq=False)
class TextPrint:
    """The fingerprints of one result, ready for searches. `places` are where its sorted hashes are in the text.

    `table` says for the low bits of a hash whether there may be such a hash: most searches end there.
    """

    hashes: Grams
    places: NDArray[np.uint32]
    table: NDArray[np.bool_]

    @classmethod
    def read(cls, stored: bytes) -> TextPrint:
        grams = np.frombuffer(stored, "<u4")
        hashes, places = np.unique(grams, return_index=True)
        table = np.zeros(1 << min(20, 2 + len(hashes).bit_length()), bool)
        table[hashes & np.uint32(len(table) - 1)] = True
        return cls(hashes, places.astype(np.uint32), table)

    @property
    def size(self) -> int:
        """The bytes that it takes, roughly."""
        return 8 * len(self.hashes) + len(self.table)

    def place_of(self, gram: int) -> int:
        return int(self.places[np.searchsorted(self.hashes, np.uint32(gram))])

    def find(self, grams: Grams) -> NDArray[np.bool_]:
        """Which of the grams are in the result; none, if there is not a piece of it."""
        maybe: NDArray[np.bool_] = self.table[grams & np.uint32(len(self.table) - 1)] & (grams != 0)
        if not find_runs(maybe, PIECE):
            return np.zeros(len(grams), bool)
        places = np.flatnonzero(maybe)
        maybe[places] = find_present(grams[places], self.hashes)
        return maybe


def find_present(grams: Grams, hashes: Grams) -> NDArray[np.bool_]:
    """Which of the grams are among these sorted hashes."""
    if not len(hashes):
        return np.zeros(len(grams), bool)
    near = np.minimum(np.searchsorted(hashes, grams), len(hashes) - 1)
    present: NDArray[np.bool_] = (hashes[near] == grams) & (grams != 0)
    return present


def find_runs(present: NDArray[np.bool_], least: int) -> list[Interval]:
    """Where at least so many letters in a row match: intervals of letters."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], present, [False])).astype(np.int8)))
    starts, ends = edges[::2], edges[1::2] + GRAM - 1
    is_long = ends - starts >= least
    return [*zip(starts[is_long].tolist(), ends[is_long].tolist(), strict=True)]


@dataclass(frozen=True)
class TextMatch:
    """Whether arguments carry text of a result by themselves, and pieces of it that they carry."""

    is_whole: bool
    pieces: tuple[Interval, ...] = ()


def match_text(grams: Grams, source: TextPrint, known: Sequence[TextPrint] = (), *, least: int = LEAST) -> TextMatch:
    """Search arguments for `least` letters in a row of a result; `known` are results of their receiver itself."""
    present = source.find(grams)
    if not find_runs(present, PIECE):
        return TextMatch(is_whole=False)
    for other in known:
        for start, end in find_runs(other.find(grams), KNOWN):
            present[start : end - GRAM + 1] = False
    runs = find_runs(present, PIECE)
    if any(end - start >= least for start, end in runs):
        return TextMatch(is_whole=True)
    places = [(source.place_of(int(grams[start])), end - start) for start, end in runs]
    pieces = tuple(sorted({(place, place + length) for place, length in places}))
    return TextMatch(adds_up(pieces), pieces)


def adds_up(pieces: Iterable[Interval], earlier: Iterable[Interval] = ()) -> bool:
    """Whether pieces of one result, with earlier ones, are a long text in a row there that has one of them in it."""
    new = sorted(pieces)
    start = reach = covered = 0
    for place, end in [*sorted((*new, *earlier)), (2**40, 2**40)]:
        if place > reach + MAX_GAP:
            if covered >= SPLIT and any(start <= each < reach for each, _ in new):
                return True
            start, reach, covered = place, place, 0
        covered += max(0, end - max(place, reach))
        reach = max(reach, end)
    return False


def write_pieces(pieces: Iterable[Interval]) -> bytes:
    return b"".join(_INTERVAL.pack(*piece) for piece in pieces)


def read_pieces(stored: bytes) -> list[Interval]:
    return [(start, end) for start, end in _INTERVAL.iter_unpack(stored[: len(stored) // 8 * 8])]
