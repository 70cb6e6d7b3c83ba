"""The search for secrets: where one may begin, and what of a text the judges are shown.

Time grows in proportion to the length of the text, for hostile text too. One sieve finds the places of all beginnings,
and all places of a pattern are thinned out at once. A pattern does not read again what it matched; in one unbroken run
of characters, a beginning that has failed several times is not tried again; and tries in vain have a budget per byte.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
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
from leafgate.clean.secret_values import MARK, looks_like_provider_token
from leafgate.clean.secrets import SecretPattern
from leafgate.clean.sieve import Sieve, make_needle, utf8

_MANY: Final = 200  # places from which it pays to thin them out
_DENSE: Final = 2000  # places of one pattern from which its matches are judged by samples
_SAMPLES: Final = 200
_MARGIN: Final = 64
_LONGEST_NAME: Final = 50  # more than an assignment takes
_NO_LETTERS: Final = b"-/:?&=.,;<>\"'$ \t\n\\{_#"
_LONGEST_MARK: Final = 64
# Of each 4 KiB so many places are looked at: one in 8 bytes. Code has one in 13 at most, and a text that repeats one
# beginning has one in 3.
_BLOCK_BITS: Final = 12
_MOST_IN_BLOCK: Final = 512
_HEAD: Final = 3  # bytes of a beginning by which its patterns are indexed
_FAILURES: Final = 8  # tries of one beginning in an unbroken run
_LONG_WORD: Final = 16
_LONGEST_LINE: Final = 400

# What tries in vain may cost: so much for any text, and one unit more for so many bytes. A unit is about 0.2 µs.
_FREE_COST: Final = 30_000
_BYTES_PER_UNIT: Final = 18
_BATCH: Final = 16  # tries between looks at the budget
_SKIP_COST: Final = 2
_FAILURE_COST: Final = 8
_REJECTION_COST: Final = 24
_LINE_COST: Final = 48  # of a pattern that reads on for a line
_DECODING_COST: Final = 128
_REFUND: Final = 128  # for a secret: text that has many of them is read completely
_MOST_REFUNDS: Final = 2000
_SECRET_COST: Final = 16  # of each secret after those
# A text with so many secrets, on average closer than this, is a dump of them: where its budget is used up, lines are
# redacted from where a secret may begin.
_DUMP: Final = 100
_DUMP_DISTANCE: Final = 200
_DUMP_LINE: Final = 300
_DUMP_PART: Final = 1 << 16

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
_IS_DIGIT: Final = _members(b"0123456789")
_IS_WORD: Final = _members(_ALPHANUMERIC + b"_")
# Behind the name of an assignment: closing quotes and spaces, then one of the characters that separate it from a value
_IN_NAME: Final = _members(_ALPHANUMERIC + b"_-\xc3\xb1")
_BEHIND_NAME: Final = _members(b" \t\"'`\\]*")
_SEPARATES: Final = _members(b":=,(>&vV\r\n|{R<")
_WORD_START: Final = re.compile(rb"[A-Za-z0-9_-]{0,60}+")
_BY_CONTEXT: Final = frozenset(
    ("assignment", "strong", "strict", "named", "password", "table", "alone", "explicit", "call", "login", "prose-long")
)
_BY_FORM: Final = frozenset(("", "token", "checksum"))
_LETTERS: Final = bytes(0x61 if byte in _ALPHANUMERIC else 0x20 for byte in range(256))
_DIGIT: Final = re.compile(rb"[0-9]")
_NEARBY: Final = 150
_LONG_RUN: Final = b"a" * _LONG_WORD
_JOINING: Final = frozenset(b".+/~@$#")  # before a word: it continues a path, an address or base64
_WORD_REST: Final = re.compile(rb"[A-Za-z0-9_=-]{0,1024}+")

_Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Findings:
    """The secrets of a text. If they are settled, replacing them by marks exposes no others."""

    spans: list[Span]
    is_settled: bool
    cost: int = 0  # of tries in vain


class _Bytes:
    """A text as an array of bytes, which can be read a little beyond its ends."""

    def __init__(self, data: bytes) -> None:
        self._padded = np.frombuffer(JOINT * _MARGIN + data + JOINT * _MARGIN, np.uint8)
        self._others: dict[int, _Places] = {}

    def at(self, places: _Places, step: int = 0) -> npt.NDArray[np.uint8]:
        """Return the byte at each place, moved by `step`."""
        return self._padded[places + (_MARGIN + step)]

    def has_digit(self, places: _Places) -> npt.NDArray[np.bool_]:
        """Return for each place whether a digit stands soon behind it."""
        digits = np.append(np.flatnonzero(_IS_DIGIT[self._padded]) - _MARGIN, len(self._padded) + _NEARBY)
        return digits[np.searchsorted(digits, places)] < places + _NEARBY

    def end_of_run(self, places: _Places, is_member: npt.NDArray[np.bool_]) -> _Places:
        """Return for each place the first from there on whose byte is not a member, or one that is too far away."""
        others = self._others.get(id(is_member))
        if others is None:
            others = self._others[id(is_member)] = np.flatnonzero(~is_member[self._padded]) - _MARGIN
        ends = others[np.searchsorted(others, places)]
        return np.minimum(ends, places + _LONGEST_NAME)


@dataclass(frozen=True, eq=False)
class _Compiled:
    source: SecretPattern
    regex: re.Pattern[bytes]
    before: re.Pattern[bytes] | None
    reach: int  # the most bytes before a beginning
    cost: int  # of a match that is rejected
    failure_cost: int  # of a try without a match
    is_context: bool
    is_form: bool
    literals: tuple[bytes, ...]  # the beginnings, in lower case if any case matches
    by_head: Mapping[bytes, Sequence[bytes]]  # the same, by their first bytes in lower case
    near: str  # what must stand near a beginning for a try: a long word, or a digit

    def thin_out(self, head: bytes, places: _Places, data: _Bytes, lower: _Bytes) -> _Places:
        """Return the places where a whole beginning stands, as far as words are concerned at the start of one."""
        text = lower if self.source.any_case else data
        found: list[_Places] = []
        for literal in self.by_head[head]:
            rest = places
            # The head agrees, but for the case of its letters.
            begin = _HEAD if self.source.any_case else len(literal) - len(literal.lstrip(_NO_LETTERS))
            last = len(literal) - 1  # beginnings that agree at first mostly differ there
            for step in (last, *range(begin, last)):
                rest = rest[text.at(rest, step) == literal[step]]
                if not len(rest):
                    break
            found.append(rest)
        places = np.concatenate(found) if len(found) > 1 else found[0]
        if not len(places):
            return places
        if self.source.whole_word and self.before is None:
            is_escaped = (data.at(places, -2) == 0x5C) | (data.at(places, -3) == 0x25) | (data.at(places, -1) == 0x6D)
            is_escaped |= (data.at(places, -4) == 0x5C) | (data.at(places, -6) == 0x5C)
            places = places[~_IS_WORD[data.at(places, -1)] | is_escaped]
        if self.source.judge == "assignment" and self.source.any_case and len(places):
            behind = data.end_of_run(data.end_of_run(places, _IN_NAME), _BEHIND_NAME)
            is_bare_key = (lower.at(places) == 0x6B) & ~_IN_NAME[data.at(places, -1)] & ~_IN_NAME[data.at(places, 3)]
            places = places[_SEPARATES[data.at(behind)] & ~is_bare_key]  # "key" alone does not name a secret
        if self.source.judge == "named" and len(places):
            places = places[_BEHIND_NAME[data.at(data.end_of_run(places, _IN_NAME))]]
        if self.near and len(places):
            places = places[data.has_digit(places)]
        return places


@dataclass
class _Search:
    """One search for beginnings: what has been read, and how much was tried in vain."""

    data: bytes
    verdicts: Verdicts
    spans: list[Span] = field(default_factory=list)
    has_skipped: bool = False  # a beginning was not tried again, because it had failed too often
    unread: int = 0  # bytes for which the budget did not suffice
    cost: int = 0
    ends: set[int] = field(default_factory=set)
    covered: int = 0  # up to here a secret is known: what surrounds it need not be read again
    last_end: dict[_Compiled, int] = field(default_factory=dict)  # a pattern does not read its match again
    run_end: int = 0
    failures: dict[_Compiled, int] = field(default_factory=dict)  # in this run

    @cached_property
    def has_marks(self) -> bool:
        return MARK in self.data

    def is_in_mark(self, place: int) -> bool:
        """Return whether a place is inside the mark of a secret that was redacted before."""
        start = self.data.rfind(MARK, max(0, place - _LONGEST_MARK), place)
        return start >= 0 and self.data.find(b"]", start, place) < 0

    def run(self, places: _Places, owners: _Places, patterns: Sequence[_Compiled]) -> None:
        """Try at each place, in order, the pattern of that number."""
        at, count = 0, len(places)
        while at < count:
            until = min(at + _BATCH, count)
            for place, owner in zip(places[at:until].tolist(), owners[at:until].tolist(), strict=True):
                each = patterns[owner]
                if place >= self.covered or not each.is_context:
                    self.try_at(place, each)
            at = until
            enough = (self.cost - _FREE_COST) * _BYTES_PER_UNIT
            if at < count and places[at] < enough:
                if len(self.spans) >= _DUMP and len(self.spans) * _DUMP_DISTANCE > places[at] - self.unread:
                    behind = int(np.searchsorted(places, max(enough, places[at] + _DUMP_PART)))
                    self.redact_lines(places[at:behind])
                else:
                    behind = int(np.searchsorted(places, enough))
                    self.has_skipped = True
                    self.unread += int(places[min(behind, count - 1)] - places[at])
                at = behind

    def redact_lines(self, places: _Places) -> None:
        """Redact from each place to the end of its line, or of what can be one."""
        starts = np.maximum(places, self.covered)
        breaks = self.line_ends
        ends = np.minimum(breaks[np.searchsorted(breaks, starts)], starts + _DUMP_LINE)
        starts, ends = starts[ends > starts], ends[ends > starts]
        if not len(starts):
            return
        is_first = np.append(True, starts[1:] > ends[:-1])
        firsts = np.flatnonzero(is_first)
        lasts = np.append(firsts[1:] - 1, len(starts) - 1)
        self.spans += [
            (start, end, "secret") for start, end in zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)
        ]
        self.covered = max(self.covered, int(ends[-1]))

    @cached_property
    def line_ends(self) -> _Places:
        """Where lines and texts end."""
        text = np.frombuffer(self.data, np.uint8)
        return np.append(np.flatnonzero((text == 0x0A) | (text == 0xFF)), len(text))

    def run_dense(self, each: _Compiled, places: Sequence[int]) -> bool:
        """Accept all matches of a pattern that stands everywhere, if nearly all of the first are secrets.

        Return whether they are.
        """
        samples = [match for place in places[:_SAMPLES] if (match := each.regex.match(self.data, place))]
        if sum(bool(self._judge(each, match)) for match in samples) < 0.9 * _SAMPLES:
            return False
        kind, end = each.source.type, 0
        group = "secret" if "secret" in each.regex.groupindex else 0
        for place in places:
            if place >= end and (match := each.regex.match(self.data, place)):
                end = match.end(group)
                self.spans.append((match.start(group), end, kind))
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
        if (place < self.covered and each.is_context) or (each.near and not self.has_near(each.near, place)):
            return
        if self.has_marks and self.is_in_mark(place):  # the type in a mark names no secret behind it
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
            self.cost += each.cost if match else each.failure_cost
            retry = _retry_at(each.source, match, self.data, place)
            self.last_end[each] = max(self.last_end.get(each, 0), retry)

    def has_near(self, what: str, place: int) -> bool:
        """Is there a digit, or a word that is too long for one, soon behind this place?"""
        if what == "digit":
            return _DIGIT.search(self.data, place, place + _NEARBY) is not None
        number = bisect_left(self.long_words, (place, 0))
        return number < len(self.long_words) and self.long_words[number][0] < place + _NEARBY

    @cached_property
    def long_words(self) -> list[tuple[int, int]]:
        """The runs of letters and digits that are too long for a word."""
        return list(_long_words(self.data))

    def _judge(self, each: _Compiled, match: re.Match[bytes]) -> list[Span]:
        return judge_match(each.source, match, self.data, self.verdicts)

    def _accept(self, each: _Compiled, match: re.Match[bytes]) -> bool:
        spans = self._judge(each, match)
        self.spans += spans
        for _, end, _ in spans:
            self.refund()
            self.ends.add(end)
            self.covered = max(self.covered, end)
            self.last_end[each] = max(end, self.last_end.get(each, 0))
        return bool(spans)

    def refund(self) -> None:
        """Give back what was tried in vain around a secret, unless there are very many."""
        is_many = len(self.spans) > _MOST_REFUNDS
        self.cost = self.cost + _SECRET_COST if is_many else max(0, self.cost - _REFUND)

    def _read_table(self, each: _Compiled, start: int) -> None:
        spans, rows, end = read_table(start, self.data, self.verdicts)
        self.spans += spans
        self.last_end[each] = end
        self.cost += _FAILURE_COST * max(1, rows - len(spans))
        for _ in spans:
            self.refund()


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
        for group in self._by_head.values():
            group.sort(key=_price)

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

    def find(self, data: bytes, allow: tuple[str, ...] = (), cost: int = 0) -> Findings:
        """Return the spans of secrets in order; of two that overlap, only the one that begins first. `cost` is what
        earlier searches of the same text have used up of its budget."""
        search = _Search(data, Verdicts(lambda decoded: bool(self.find(decoded).spans)), cost=cost)
        self._try_beginnings(search)
        spans = search.spans
        spans += self._in_long_words(search, {start for start, _, _ in spans})
        for each in self._anywhere:
            for match in each.regex.finditer(data):
                spans += judge_match(each.source, match, data, search.verdicts)
        if not spans:
            return Findings([], True)
        findings = _merge(data, spans, allow, is_settled=not search.has_skipped)
        is_over = search.cost > _FREE_COST + len(data) // _BYTES_PER_UNIT  # another round would have no budget
        return replace(findings, cost=search.cost, is_settled=findings.is_settled or is_over)

    def _try_beginnings(self, search: _Search) -> None:
        places = self._sieve.places(search.data)
        if len(places) < _MANY:
            lower = search.data.lower()
            for place in map(int, places):
                for size in (_HEAD, _HEAD - 1):
                    for each in self._by_head.get(lower[place : place + size], ()):
                        if (lower if each.source.any_case else search.data).startswith(each.literals, place):
                            search.try_at(place, each)
            return
        every = np.asarray(places, np.intp)
        places = _limit_places(every)
        search.has_skipped = len(places) < len(every)
        patterns: list[_Compiled] = []
        parts: list[_Places] = []
        for each, part in self._thin_out(search.data, places):
            if len(part) and not (each.is_form and len(part) > _DENSE and search.run_dense(each, part.tolist())):
                patterns.append(each)
                parts.append(part)
        if parts:
            # Where several patterns may match, the cheap ones are tried first: what they find is not read again.
            ranked = sorted(range(len(parts)), key=lambda number: _price(patterns[number]))
            patterns, parts = [patterns[number] for number in ranked], [parts[number] for number in ranked]
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

    def _in_long_words(self, search: _Search, known: set[int]) -> Iterator[Span]:
        """Yield the tokens that only their form gives away, but for those that begin where a secret is known."""
        data, verdicts = search.data, search.verdicts
        end = 0
        for run_start, run_end in search.long_words:
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


_GENERAL: Final = frozenset(("api-key", "password", "secret", "token"))  # of two names for a secret, the other is used
get_searcher: Final = lru_cache(maxsize=16)(Searcher)


def _price(each: _Compiled) -> int:
    return each.failure_cost


def _limit_places(places: _Places) -> _Places:
    """Return the places without those that are too many for any honest text."""
    blocks = places >> _BLOCK_BITS
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    ranks = np.arange(len(places)) - np.repeat(starts, np.diff(np.append(starts, len(places))))
    return places[ranks < _MOST_IN_BLOCK]


def _compile(pattern: SecretPattern) -> _Compiled:
    regex = re.compile(utf8(pattern.regex), re.IGNORECASE if pattern.any_case else 0)
    before = re.compile(utf8(pattern.before) + rb"\Z") if pattern.before else None
    reach = int(pattern.before.rpartition(",")[2].rstrip("}")) if pattern.before else 0
    cost = _DECODING_COST if pattern.judge == "encoded" else _LINE_COST if pattern.once_a_line else _REJECTION_COST
    is_form = pattern.judge in _BY_FORM and before is None
    steps = min(100, sum(int(bound) for bound in _LAZY.findall(pattern.regex)) // 3)
    literals = tuple(utf8(start).lower() if pattern.any_case else utf8(start) for start in pattern.starts)
    by_head: dict[bytes, list[bytes]] = {}
    for literal in literals:
        by_head.setdefault(literal[:_HEAD].lower(), []).append(literal)
    failure_cost = _LINE_COST if pattern.once_a_line else _FAILURE_COST
    return _Compiled(
        pattern, regex, before, reach, cost + steps, failure_cost + steps, pattern.judge in _BY_CONTEXT, is_form,
        literals, by_head, _NEAR.get(pattern.judge, ""),
    )  # fmt: skip


_NEAR: Final = {
    "prose-long": "long",
    **dict.fromkeys(("strict", "alone", "named", "human", "bytes", "bare-key"), "digit"),
}
_LAZY: Final = re.compile(r"\{\d+,(\d+)\}\?")  # what a pattern tries at each of so many characters


def _merge(data: bytes, candidates: Iterable[Span], allow: tuple[str, ...], *, is_settled: bool) -> Findings:
    spans: list[Span] = []
    last = 0
    for span in sorted(candidates, key=lambda span: (span[0], -span[1], span[2] in _GENERAL)):
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
