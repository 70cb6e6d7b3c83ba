"""The search for secrets: where one may begin, and what of a text the judges are shown.

Time grows in proportion to the length of the text, for hostile text too. One sieve finds the places of all beginnings,
and all places of a pattern are thinned out at once. A pattern does not read again what it matched; in one unbroken run
of characters, a beginning that has failed several times is not tried again; and tries in vain have a budget per byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from leafgate.clean.secret_judges import (
    JOINT,
    NEWLINE,
    Span,
    Verdicts,
    judge_match,
    names_other,
    read_table,
    start_of_word,
)
from leafgate.clean.secret_values import looks_like_provider_token
from leafgate.clean.secrets import SecretPattern
from leafgate.clean.sieve import Sieve, make_needle, utf8

_MANY: Final = 200  # places from which it pays to thin them out
_DENSE: Final = 2000  # places of one pattern from which its matches are judged by samples
_SAMPLES: Final = 200
_MARGIN: Final = 64
_LONGEST_NAME: Final = 50  # more than an assignment takes
_HEAD: Final = 3  # bytes of a beginning by which its patterns are indexed
_FAILURES: Final = 8  # tries of one beginning in an unbroken run
_LONG_WORD: Final = 16
_LONGEST_LINE: Final = 400

# What tries in vain may cost: so much for any text, and one unit more for so many bytes. A unit is about 0.2 µs.
_FREE_COST: Final = 12_000
_BYTES_PER_UNIT: Final = 20
_BATCH: Final = 16  # tries between looks at the budget
_SKIP_COST: Final = 2
_FAILURE_COST: Final = 8
_REJECTION_COST: Final = 24
_LINE_COST: Final = 48  # of a pattern that reads on for a line
_DECODING_COST: Final = 128
_REFUND: Final = 128  # for a secret: text that is full of them is read completely

_WORD_BYTES: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_BREAK: Final = re.compile(rb"[\s'\"`,;&<>(){}\[\]|\\\xff]")
# What ends in a letter or a digit and is not part of a word: \n in a JSON text, %20 in a URL, the colour of a terminal
_ESCAPED_BEFORE: Final = re.compile(
    rb"(?:\\(?:[nrtbfv0]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|%[0-9a-fA-F]{2}|\[[0-9;]{1,8}m)\Z"
)


def _members(characters: bytes) -> npt.NDArray[np.bool_]:
    return np.isin(np.arange(256), np.frombuffer(characters, np.uint8))


_ALPHANUMERIC: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_IS_BREAK: Final = _members(b" \t\r\n\"'`,;|<>(){}").tolist()
_CONTINUES: Final = frozenset(_ALPHANUMERIC + b"_-\\%")  # before a long word: it may begin further left, or later
_IS_WORD: Final = _members(_ALPHANUMERIC + b"_")
# Behind the name of an assignment: closing quotes and spaces, then one of the characters that separate it from a value
_IN_NAME: Final = _members(_ALPHANUMERIC + b"_-\xc3\xb1")
_BEHIND_NAME: Final = _members(b" \t\"'`\\]")
_SEPARATES: Final = _members(b":=,(>&vV\r\n")
_WORD_START: Final = re.compile(rb"[A-Za-z0-9_-]{0,60}+")
_BY_CONTEXT: Final = frozenset(("assignment", "strong", "password", "table"))
_BY_FORM: Final = frozenset(("", "token", "checksum"))
_LETTERS: Final = bytes(0x61 if byte in _ALPHANUMERIC else 0x20 for byte in range(256))
_LONG_RUN: Final = b"a" * _LONG_WORD
_JOINING: Final = frozenset(b".+/~@$#")  # before a word: it continues a path, an address or base64
_WORD_REST: Final = re.compile(rb"[A-Za-z0-9_=-]{0,1024}+")

_Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Findings:
    """The secrets of a text. If they are settled, replacing them by marks exposes no others."""

    spans: list[Span]
    is_settled: bool


class _Bytes:
    """A text as an array of bytes, which can be read a little beyond its ends."""

    def __init__(self, data: bytes) -> None:
        self._padded = np.frombuffer(JOINT * _MARGIN + data + JOINT * _MARGIN, np.uint8)

    def at(self, places: _Places, step: int = 0) -> npt.NDArray[np.uint8]:
        """Return the byte at each place, moved by `step`."""
        return self._padded[places + (_MARGIN + step)]

    def end_of_run(self, places: _Places, is_member: npt.NDArray[np.bool_]) -> _Places:
        """Return for each place the first from there on whose byte is not a member, or one that is too far away."""
        ends = places.copy()
        inside = np.arange(len(places))
        for _ in range(_LONGEST_NAME):
            inside = inside[is_member[self.at(ends[inside])]]
            if not len(inside):
                break
            ends[inside] += 1
        return ends


@dataclass(frozen=True, eq=False)
class _Compiled:
    source: SecretPattern
    regex: re.Pattern[bytes]
    before: re.Pattern[bytes] | None
    reach: int  # the most bytes before a beginning
    cost: int  # of a match that is rejected
    is_context: bool
    is_form: bool

    def thin_out(self, head: bytes, places: _Places, data: _Bytes, lower: _Bytes) -> _Places:
        """Return the places where a whole beginning stands, as far as words are concerned at the start of one."""
        text = lower if self.source.any_case else data
        found: list[_Places] = []
        for start in self.source.starts:
            literal = utf8(start).lower() if self.source.any_case else utf8(start)
            if not literal.lower().startswith(head):
                continue
            rest = places
            for step in range(_HEAD if self.source.any_case else 0, len(literal)):
                rest = rest[text.at(rest, step) == literal[step]]
            found.append(rest)
        places = np.concatenate(found) if len(found) > 1 else found[0]
        if self.source.whole_word and self.before is None:
            is_escaped = (data.at(places, -2) == 0x5C) | (data.at(places, -3) == 0x25) | (data.at(places, -1) == 0x6D)
            is_escaped |= (data.at(places, -4) == 0x5C) | (data.at(places, -6) == 0x5C)
            places = places[~_IS_WORD[data.at(places, -1)] | is_escaped]
        if self.source.judge == "assignment" and self.source.any_case and len(places):
            behind = data.end_of_run(data.end_of_run(places, _IN_NAME), _BEHIND_NAME)
            is_bare_key = (lower.at(places) == 0x6B) & ~_IN_NAME[data.at(places, -1)] & ~_IN_NAME[data.at(places, 3)]
            places = places[_SEPARATES[data.at(behind)] & ~is_bare_key]  # "key" alone does not name a secret
        return places


@dataclass
class _Search:
    """One search for beginnings: what has been read, and how much was tried in vain."""

    data: bytes
    verdicts: Verdicts
    spans: list[Span] = field(default_factory=list)
    has_skipped: bool = False  # a beginning was not tried again, because it had failed too often
    cost: int = 0
    ends: set[int] = field(default_factory=set)
    covered: int = 0  # up to here a secret is known: what surrounds it need not be read again
    last_end: dict[_Compiled, int] = field(default_factory=dict)  # a pattern does not read its match again
    run_end: int = 0
    failures: dict[_Compiled, int] = field(default_factory=dict)  # in this run

    def run(self, places: _Places, owners: _Places, patterns: Sequence[_Compiled]) -> None:
        """Try at each place, in order, the pattern of that number."""
        at, count = 0, len(places)
        while at < count:
            until = min(at + _BATCH, count)
            for place, owner in zip(places[at:until].tolist(), owners[at:until].tolist(), strict=True):
                self.try_at(place, patterns[owner])
            at = until
            enough = (self.cost - _FREE_COST) * _BYTES_PER_UNIT
            if at < count and places[at] < enough:
                self.has_skipped = True
                at = int(np.searchsorted(places, enough))

    def run_dense(self, each: _Compiled, places: Sequence[int]) -> bool:
        """Accept all matches of a pattern that stands everywhere, if nearly all of the first are secrets.

        Return whether they are.
        """
        samples = [match for place in places[:_SAMPLES] if (match := each.regex.match(self.data, place))]
        if sum(bool(self._judge(each, match)) for match in samples) < 0.9 * _SAMPLES:
            return False
        spans = [match.span() for place in places if (match := each.regex.match(self.data, place))]
        kind = each.source.type
        self.spans += [(start, end, kind) for start, end in spans]
        return True

    def try_at(self, place: int, each: _Compiled) -> None:
        """Try a pattern whose beginning stands at this place."""
        if place >= self.run_end:
            broken = _BREAK.search(self.data, place + 1)
            self.run_end = broken.start() if broken else len(self.data)
            self.failures.clear()
        elif self.failures.get(each, 0) >= _FAILURES:
            self.has_skipped = True
            self.cost += _SKIP_COST
            return
        if place < self.covered and each.is_context:
            return
        start = place if each.before is None else _start_before(each, self.data, place)
        if start is None or start < self.last_end.get(each, 0):
            self.cost += _SKIP_COST
            return
        if each.source.whole_word and start not in self.ends and not _begins_word(self.data, start):
            self.cost += _SKIP_COST
            return
        match = each.regex.match(self.data, start)
        if match and each.source.judge == "table":
            self._read_table(each, start)
        elif match is None or not self._accept(each, match):
            self.failures[each] = self.failures.get(each, 0) + 1
            self.cost += each.cost if match or each.source.once_a_line else _FAILURE_COST
            retry = _retry_at(each.source, match, self.data, place)
            self.last_end[each] = max(self.last_end.get(each, 0), retry)

    def _judge(self, each: _Compiled, match: re.Match[bytes]) -> list[Span]:
        return judge_match(each.source, match, self.data, self.verdicts)

    def _accept(self, each: _Compiled, match: re.Match[bytes]) -> bool:
        spans = self._judge(each, match)
        self.spans += spans
        for _, end, _ in spans:
            self.cost = max(0, self.cost - _REFUND)
            self.ends.add(end)
            self.covered = max(self.covered, end)
            self.last_end[each] = max(end, self.last_end.get(each, 0))
        return bool(spans)

    def _read_table(self, each: _Compiled, start: int) -> None:
        spans, rows, end = read_table(start, self.data, self.verdicts)
        self.spans += spans
        self.last_end[each] = end
        self.cost += _FAILURE_COST * max(1, rows - len(spans))
        self.cost = max(0, self.cost - _REFUND * len(spans))


class Searcher:
    """The patterns of one policy, made ready."""

    def __init__(self, patterns: tuple[SecretPattern, ...]) -> None:
        compiled = [_compile(pattern) for pattern in patterns]
        self._anywhere = [each for each in compiled if not each.source.starts]
        self._at_long_words: dict[bytes, list[_Compiled]] = {}  # by the first two bytes
        for each in compiled:
            for start in each.source.starts if each.source.at_long_word else ():
                self._at_long_words.setdefault(utf8(start)[:2], []).append(each)
        starts = [(start, each) for each in compiled if not each.source.at_long_word for start in each.source.starts]
        self._sieve = Sieve({"secret": [make_needle(start, any_case=each.source.any_case) for start, each in starts]})
        self._by_head: dict[bytes, list[_Compiled]] = {}
        for start, each in starts:
            group = self._by_head.setdefault(utf8(start)[:_HEAD].lower(), [])
            if each not in group:
                group.append(each)

    def find_texts(self, strings: Sequence[str]) -> set[str]:
        """Return the strings that may hold a secret, or name one; the others hold none."""
        if self._anywhere:
            return set(strings)
        suspects = self._sieve.find_texts(strings)
        pieces = [utf8(item) for item in strings]
        starts = [start for start, _ in _long_words(JOINT.join(pieces))]
        if starts:
            ends = np.cumsum(np.fromiter(map(len, pieces), np.intp, len(pieces)) + 1)
            suspects |= {strings[owner] for owner in np.unique(np.searchsorted(ends, starts, "right")).tolist()}
        return suspects

    def find(self, data: bytes, allow: tuple[str, ...] = ()) -> Findings:
        """Return the spans of secrets in order; of two that overlap, only the one that begins first."""
        search = _Search(data, Verdicts(lambda decoded: bool(self.find(decoded).spans)))
        self._try_beginnings(search)
        spans = search.spans
        spans += self._in_long_words(data, search.verdicts, {start for start, _, _ in spans})
        for each in self._anywhere:
            for match in each.regex.finditer(data):
                spans += judge_match(each.source, match, data, search.verdicts)
        return _merge(data, spans, allow, is_settled=not search.has_skipped) if spans else Findings([], True)

    def _try_beginnings(self, search: _Search) -> None:
        places = self._sieve.places(search.data)
        if len(places) < _MANY:
            lower = search.data.lower()
            for place in map(int, places):
                for size in (_HEAD, _HEAD - 1):
                    for each in self._by_head.get(lower[place : place + size], ()):
                        search.try_at(place, each)
            return
        patterns: list[_Compiled] = []
        parts: list[_Places] = []
        for each, part in self._thin_out(search.data, np.asarray(places, np.intp)):
            if len(part) and not (each.is_form and len(part) > _DENSE and search.run_dense(each, part.tolist())):
                patterns.append(each)
                parts.append(part)
        if parts:
            merged = np.concatenate(parts)
            order = np.argsort(merged, kind="stable")
            owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
            search.run(merged[order], owners[order], patterns)

    def _thin_out(self, data: bytes, places: _Places) -> Iterator[tuple[_Compiled, _Places]]:
        """Yield each pattern with the places where it may match, without most at which it cannot."""
        texts = _Bytes(data), _Bytes(data.lower())
        for size in (_HEAD, _HEAD - 1):
            codes = sum((texts[1].at(places, step).astype(np.int32) << (8 * step) for step in range(size)), np.int32(0))
            for code in np.unique(codes).tolist():
                head = code.to_bytes(size, "little")
                group = self._by_head.get(head, ())
                here = places[codes == code] if group else places
                yield from ((each, each.thin_out(head, here, *texts)) for each in group)

    def _in_long_words(self, data: bytes, verdicts: Verdicts, known: set[int]) -> Iterator[Span]:
        """Yield the tokens that only their form gives away, but for those that begin where a secret is known."""
        end = 0
        for run_start, run_end in _long_words(data):
            if run_start < end:
                continue
            start = run_start
            if run_start and data[run_start - 1] in _CONTINUES:
                start = start_of_word(_WORD_START, data, run_start, run_end)
            if start in known or (start and data[start - 1] in _JOINING):
                continue
            rest = _WORD_REST.match(data, run_end)
            end = rest.end() if rest else run_end
            for each in self._at_long_words.get(data[start : start + 2], ()):
                if match := each.regex.match(data, start):
                    yield from judge_match(each.source, match, data, verdicts)
            has_prefix = end - start > run_end - run_start
            if has_prefix and verdicts.get(looks_like_provider_token, data[start:end]) and not names_other(data, start):
                yield start, end, "token"


get_searcher: Final = lru_cache(maxsize=16)(Searcher)


def _compile(pattern: SecretPattern) -> _Compiled:
    regex = re.compile(utf8(pattern.regex), re.IGNORECASE if pattern.any_case else 0)
    before = re.compile(utf8(pattern.before) + rb"\Z") if pattern.before else None
    reach = int(pattern.before.rpartition(",")[2].rstrip("}")) if pattern.before else 0
    cost = _DECODING_COST if pattern.judge == "encoded" else _LINE_COST if pattern.once_a_line else _REJECTION_COST
    is_form = pattern.judge in _BY_FORM and before is None
    return _Compiled(pattern, regex, before, reach, cost, pattern.judge in _BY_CONTEXT, is_form)


def _merge(data: bytes, candidates: Iterable[Span], allow: tuple[str, ...], *, is_settled: bool) -> Findings:
    spans: list[Span] = []
    last = 0
    for span in sorted(candidates, key=lambda span: (span[0], -span[1])):
        start, end, _ = span
        if allow and is_allowed(data[start:end], allow):
            continue
        if start >= last:
            spans.append(span)
            is_settled = is_settled and start > last and _stands_alone(data, start, end)
        elif end > last:
            is_settled = False  # the rest of it may be another secret
        last = max(last, end)
    return Findings(spans, is_settled)


def _stands_alone(data: bytes, start: int, end: int) -> bool:
    return _IS_BREAK[data[start - 1]] and (end == len(data) or _IS_BREAK[data[end]])


def _retry_at(source: SecretPattern, match: re.Match[bytes] | None, data: bytes, place: int) -> int:
    """Return from where on a pattern is tried again after it failed, or its match was rejected."""
    if source.once_a_line:
        newline = NEWLINE.search(data, place, place + _LONGEST_LINE)
        return newline.start() if newline else place + _LONGEST_LINE
    if match is None:
        return place
    if source.judge == "assignment":  # the value may be the name of another one
        return match.end("name")
    return match.end()


def _start_before(each: _Compiled, data: bytes, place: int) -> int | None:
    """Return where a match starts whose beginning has more before it."""
    match = each.before.search(data, max(0, place - each.reach), place) if each.before else None
    return match.start() if match else None


def _begins_word(data: bytes, start: int) -> bool:
    if not start or data[start - 1] not in _WORD_BYTES:
        return True
    return _ESCAPED_BEFORE.search(data, max(0, start - 12), start) is not None


def _long_words(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the runs of letters and digits that are too long for a word."""
    letters = data.translate(_LETTERS)
    end = 0
    while (start := letters.find(_LONG_RUN, end)) >= 0:
        end = letters.find(b" ", start)
        end = end if end >= 0 else len(letters)
        yield start, end


def is_allowed(secret: bytes, allow: tuple[str, ...]) -> bool:
    """Is this one of the values that an operator allows?"""
    if not allow:
        return False
    text = secret.decode("utf-8", "replace")
    return any(text.startswith(item[:-1]) if item.endswith("*") else text == item for item in allow)
