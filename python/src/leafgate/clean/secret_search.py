"""The search for secrets: where one may begin, and whether what begins there is one.

Time grows in proportion to the length of the text, for hostile text too: one sieve finds the places of all beginnings,
a pattern does not read again what it matched, and in one unbroken run of characters a beginning that has failed
several times is not tried again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from leafgate.clean.secret_values import (
    MARK,
    decode_base64,
    has_checksum,
    is_example,
    is_placeholder,
    looks_like_basic_auth,
    looks_like_provider_token,
    looks_like_seed_phrase,
    looks_like_token,
    looks_mixed,
    looks_random,
    looks_secret,
    looks_strong,
    name_type,
)
from leafgate.clean.secrets import SecretPattern
from leafgate.clean.sieve import Sieve, make_needle, utf8

Span = tuple[int, int, str]  # start, end, type

JOINT: Final = b"\xff"  # stands between strings that are searched together; it does not occur in UTF-8
_MANY: Final = 200  # places from which it pays to thin them out
_MARGIN: Final = 64
_LONGEST_NAME: Final = 50  # more than an assignment takes
_SHORT: Final = 200  # bytes below which examining each place is faster than the sieve
_HEAD: Final = 3  # bytes of a beginning by which its patterns are indexed
_FAILURES: Final = 8  # tries of one beginning in an unbroken run
_LONG_WORD: Final = 16
_FREE_COST: Final = 8000  # of tries in vain, for any text; one that fails at once costs 1
_BYTES_PER_COST: Final = 48
_REJECTION_COST: Final = 3
_DECODING_COST: Final = 16
_LINE_COST: Final = 6  # of a pattern that reads on for a line
_WORD_BYTES: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_NAME_BEFORE: Final = re.compile(rb"[A-Za-z0-9_.-]{0,60}\Z")
_BREAK: Final = re.compile(rb"[\s'\"`,;&<>(){}\[\]|\\\xff]")
# What ends in a letter or a digit and is not part of a word: \n in a JSON text, %20 in a URL, the colour of a terminal
_ESCAPE: Final = re.compile(rb"(?:\\(?:[nrtbfv0]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|%[0-9a-fA-F]{2}|\[[0-9;]{1,8}m)")
_ESCAPED_BEFORE: Final = re.compile(_ESCAPE.pattern + rb"\Z")


def _members(characters: bytes) -> npt.NDArray[np.bool_]:
    return np.isin(np.arange(256), np.frombuffer(characters, np.uint8))


_ALPHANUMERIC: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_IS_BREAK: Final = _members(b" \t\r\n\"'`,;|<>(){}").tolist()
_CONTINUES: Final = _members(
    _ALPHANUMERIC + b"_-\\%"
).tolist()  # before a long word: it may begin further left, or later
_IS_BASE62: Final = _members(_ALPHANUMERIC)
_IS_WORD: Final = _members(_ALPHANUMERIC + b"_")
# Behind the name of an assignment: closing quotes and spaces, then one of the characters that separate it from a value
_IN_NAME: Final = _members(_ALPHANUMERIC + b"_-\xc3\xb1")
_BEHIND_NAME: Final = _members(b" \t\"'`\\]")
_SEPARATES: Final = _members(b":=,(>&vV\r\n")
_WORD_START: Final = re.compile(rb"[A-Za-z0-9_-]{0,60}\Z")
_BY_CONTEXT: Final = frozenset(("assignment", "strong", "password", "table"))
_LONG_WORDS: Final = re.compile(rb"[A-Za-z0-9]{%d,}+" % _LONG_WORD)
_JOINING: Final = frozenset(b".+/~@$#")  # before a word: it continues a path, an address or base64
_WORD_REST: Final = re.compile(rb"[A-Za-z0-9_=-]{0,1024}+")


@dataclass(frozen=True)
class Findings:
    """The secrets of a text. If they are settled, replacing them by marks exposes no others."""

    spans: list[Span]
    is_settled: bool


@dataclass
class _Work:
    """What one search remembers: verdicts, so that a value is judged once, and how much was tried in vain.

    Tries in vain may cost so much per byte of text and no more: text that is full of beginnings and holds no secrets is
    not read completely.
    """

    has_skipped: bool = False  # a beginning was not tried again in a run, because it had failed too often there
    cost: int = 0
    verdicts: dict[tuple[object, ...], bool] = field(default_factory=dict)

    def may_try(self, place: int) -> bool:
        return self.cost <= _FREE_COST + place // _BYTES_PER_COST

    def judge(self, decide: Callable[..., bool], *values: object) -> bool:
        key = (decide, *values)
        verdict = self.verdicts.get(key)
        if verdict is None:
            verdict = self.verdicts[key] = decide(*values)
        return verdict


class _Bytes:
    """A text as an array of bytes, which can be read a little beyond its ends."""

    def __init__(self, data: bytes) -> None:
        self._padded = np.frombuffer(JOINT * _MARGIN + data + JOINT * _MARGIN, np.uint8)

    def at(self, places: npt.NDArray[np.intp], step: int = 0) -> npt.NDArray[np.uint8]:
        """Return the byte at each place, moved by `step`."""
        return self._padded[places + (_MARGIN + step)]

    def end_of_run(self, places: npt.NDArray[np.intp], is_member: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
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

    def thin_out(self, head: bytes, places: npt.NDArray[np.intp], data: _Bytes, lower: _Bytes) -> npt.NDArray[np.intp]:
        """Return the places where a whole beginning stands, as far as words are concerned at the start of one."""
        text = lower if self.source.any_case else data
        found: list[npt.NDArray[np.intp]] = []
        for start in self.source.starts:
            literal = utf8(start.lower() if self.source.any_case else start)
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
        data = JOINT.join(map(utf8, strings))
        ends = np.cumsum(np.fromiter((len(utf8(item)) + 1 for item in strings), np.intp, len(strings)))
        starts = np.fromiter((start for start, _ in _long_words(data)), np.intp)
        return suspects | {strings[owner] for owner in np.unique(np.searchsorted(ends, starts, "right")).tolist()}

    def find(self, data: bytes, allow: tuple[str, ...] = ()) -> Findings:
        """Return the spans of secrets in order; of two that overlap, only the one that begins first."""
        work = _Work()
        candidates = [*self._at_beginnings(data, work), *self._in_long_words(data, work)]
        for each in self._anywhere:
            for match in each.regex.finditer(data):
                candidates.extend(_judge(each.source, match, data, self, work))
        spans: list[Span] = []
        end, is_settled = 0, not work.has_skipped
        for span in sorted(candidates, key=lambda span: (span[0], -span[1])):
            if is_allowed(data[span[0] : span[1]], allow):
                continue
            if span[0] >= end:
                spans.append(span)
                is_settled &= span[0] > end and _stands_alone(data, span)
            elif span[1] > end:
                is_settled = False  # the rest of it may be another secret
            end = max(end, span[1])
        return Findings(spans, is_settled)

    def _at_beginnings(self, data: bytes, work: _Work) -> Iterator[Span]:
        ends: set[int] = set()
        covered = 0  # up to here a secret is known: what surrounds it need not be read again
        last_end: dict[_Compiled, int] = {}  # a pattern does not read its match again: a chain of tokens is read once
        run_end = 0
        failures: dict[_Compiled, int] = {}  # in this run
        for place, each in self._tries(data):
            if work.cost > _FREE_COST + place // _BYTES_PER_COST:
                continue
            if place >= run_end:
                broken = _BREAK.search(data, place + 1)
                run_end = broken.start() if broken else len(data)
                failures.clear()
            elif failures.get(each, 0) >= _FAILURES:
                work.has_skipped = True
                continue
            if place < covered and each.source.judge in _BY_CONTEXT:
                continue
            start = place if each.before is None else _start_before(each, data, place)
            if start is None or start < last_end.get(each, 0):
                continue
            if each.source.whole_word and start not in ends and not _begins_word(data, start):
                continue
            match = each.regex.match(data, start)
            spans: Iterable[Span] = ()
            if match and each.source.judge == "table":
                spans, last_end[each] = _read_table(start, data, work)
            elif match:
                spans = list(_judge(each.source, match, data, self, work))
            if not spans:
                failures[each] = failures.get(each, 0) + 1
                work.cost += each.cost if match or each.source.once_a_line else 1
                last_end[each] = max(last_end.get(each, 0), _retry_at(each.source, match, data, place))
            for span in spans:
                ends.add(span[1])
                covered = max(covered, span[1]) if each.source.judge != "table" else covered
                last_end[each] = max(span[1], last_end.get(each, 0))
                yield span

    def _tries(self, data: bytes) -> Iterable[tuple[int, _Compiled]]:
        """Return the places where a pattern may begin, in order, each with the pattern."""
        lower = data.lower()
        if len(data) < _SHORT:
            heads = self._by_head.keys()
            places = [at for at in range(len(lower)) if lower[at : at + _HEAD] in heads or lower[at : at + 2] in heads]
        else:
            places = self._sieve.places(data)
        if len(places) < _MANY:
            return (
                (place, each)
                for place in places
                for size in (_HEAD, _HEAD - 1)
                for each in self._by_head.get(lower[place : place + size], ())
            )
        return self._thin_out(data, lower, np.array(places, np.intp))

    def _thin_out(self, data: bytes, lower: bytes, places: npt.NDArray[np.intp]) -> Iterable[tuple[int, _Compiled]]:
        """Drop most of the places at which a pattern cannot match, all places of a pattern at once."""
        texts = _Bytes(data), _Bytes(lower)
        every: list[_Compiled] = []
        parts: list[npt.NDArray[np.intp]] = []
        for size in (_HEAD, _HEAD - 1):
            codes = sum((texts[1].at(places, step).astype(np.int32) << (8 * step) for step in range(size)), np.int32(0))
            for code in np.unique(codes).tolist():
                head = code.to_bytes(size, "little")
                group = self._by_head.get(head, ())
                here = places[codes == code] if group else places
                every.extend(group)
                parts.extend(each.thin_out(head, here, *texts) for each in group)
        if not parts:
            return ()
        owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        merged = np.concatenate(parts)
        order = np.argsort(merged, kind="stable")
        return (
            (place, every[owner]) for place, owner in zip(merged[order].tolist(), owners[order].tolist(), strict=True)
        )

    def _in_long_words(self, data: bytes, work: _Work) -> Iterator[Span]:
        end = 0
        for run_start, run_end in _long_words(data):
            if run_start < end:
                continue
            start = (
                _start_of(_WORD_START, data, run_start, run_end)
                if run_start and _CONTINUES[data[run_start - 1]]
                else run_start
            )
            rest = _WORD_REST.match(data, run_end)
            end = rest.end() if rest else run_end
            if start and data[start - 1] in _JOINING:
                continue
            for each in self._at_long_words.get(data[start : start + 2], ()):
                if match := each.regex.match(data, start):
                    yield from _judge(each.source, match, data, self, work)
            has_prefix = end - start > run_end - run_start
            if has_prefix and work.judge(looks_like_provider_token, data[start:end]) and not _names_other(data, start):
                yield start, end, "token"


get_searcher: Final = lru_cache(maxsize=16)(Searcher)


def _compile(pattern: SecretPattern) -> _Compiled:
    regex = re.compile(utf8(pattern.regex), re.IGNORECASE if pattern.any_case else 0)
    before = re.compile(utf8(pattern.before) + rb"\Z") if pattern.before else None
    reach = int(pattern.before.rpartition(",")[2].rstrip("}")) if pattern.before else 0
    cost = _DECODING_COST if pattern.judge == "encoded" else _LINE_COST if pattern.once_a_line else _REJECTION_COST
    return _Compiled(pattern, regex, before, reach, cost)


def _stands_alone(data: bytes, span: Span) -> bool:
    return _IS_BREAK[data[span[0] - 1]] and (span[1] == len(data) or _IS_BREAK[data[span[1]]])


def _retry_at(source: SecretPattern, match: re.Match[bytes] | None, data: bytes, place: int) -> int:
    """Return from where on a pattern is tried again after it failed, or its match was rejected."""
    if source.once_a_line:
        newline = _NEWLINE.search(data, place, place + 400)
        return newline.start() if newline else place + 400
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


def _start_of(before: re.Pattern[bytes], data: bytes, place: int, until: int | None = None) -> int:
    """Return where the word around this place begins. The n of a \\n before it does not belong to it."""
    match = before.search(data, max(0, place - 60), place)
    start = match.start() if match else place
    escape = _ESCAPE.match(data, max(0, start - 1), until or place)
    return escape.end() if escape else start


def _long_words(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the runs of letters and digits that are too long for a word."""
    if len(data) < _SHORT * 8:
        return (match.span() for match in _LONG_WORDS.finditer(data))
    others = np.flatnonzero(~_IS_BASE62[np.frombuffer(data + JOINT, np.uint8)])
    lengths = np.diff(others, prepend=-1) - 1
    chosen = np.flatnonzero(lengths >= _LONG_WORD)
    ends = others[chosen]
    return zip((ends - lengths[chosen]).tolist(), ends.tolist(), strict=True)


_NAME_OF_VALUE: Final = re.compile(
    rb"([A-Za-z_][\w-]{0,40})\\{0,3}['\"]?\s{0,3}[:=]\s{0,3}\\{0,3}['\"]?(?:W/)?\\{0,3}['\"]?\Z"
)
_OTHER_NAMES: Final = re.compile(
    rb"(?i)cursor|page|next|continu|etag|nonce|integrity|hash|digest|sha|checksum|(?:^|[_-])id$|_id$|[a-z]Id$|marker|sync|kid|public|"
    rb"class|src|href|filename|file|path|image|version|build|commit|revision|ref$|fingerprint"
)


def _names_other(data: bytes, start: int) -> bool:
    """Is the word the value of a name that says it is something else than a secret?"""
    match = _NAME_OF_VALUE.search(data, max(0, start - 52), start)
    return match is not None and _OTHER_NAMES.search(match[1]) is not None


# The judges


def _judge(
    source: SecretPattern, match: re.Match[bytes], data: bytes, searcher: Searcher, work: _Work
) -> Iterator[Span]:
    """Yield the spans and types of what really is a secret in a match."""
    if source.judge == "assignment":
        yield from _judge_assignment(match, data, work)
    elif source.judge == "cookies":
        yield from _judge_cookies(match)
    else:
        group: str | int = "secret" if "secret" in match.re.groupindex else 0
        start, end = match.span(group)
        if source.judge == "strong":
            end -= len(match[group]) - len(_trim(match[group]))
        secret = data[start:end]
        if secret.startswith(MARK) or is_example(secret):
            return
        if source.judge == "encoded":
            fits = _holds_secret(secret, searcher)
        elif source.judge in ("token", "checksum", "mixed"):
            body = match["body"] if "body" in match.re.groupindex else secret
            body = body if len(body) >= _LONG_WORD // 2 else secret
            fits = work.judge(_BODY_JUDGES[source.judge], body)
        else:
            fits = work.judge(_JUDGES.get(source.judge, bool), secret)
        if fits:
            yield start, end, source.type


def _is_secret(kind: str, value: bytes, quoted: bool) -> bool:
    return looks_secret(kind, value, quoted=quoted)


def _is_url_password(secret: bytes) -> bool:
    return len(secret) >= 4 and not is_placeholder(secret) and secret.lower() not in (b"pass", b"pswd", b"passw0rd")


_BODY_JUDGES: Final[dict[str, Callable[[bytes], bool]]] = {
    "token": looks_like_token,
    "checksum": has_checksum,
    "mixed": looks_mixed,
}
_JUDGES: Final[dict[str, Callable[[bytes], bool]]] = {
    "bearer": looks_random,
    "key": lambda secret: looks_secret("api-key", secret, quoted=True),
    "basic": looks_like_basic_auth,
    "url-password": _is_url_password,
    "password": lambda secret: looks_secret("password", secret, quoted=True),
    "strong": looks_strong,
    "seed": looks_like_seed_phrase,
}


def _trim(secret: bytes) -> bytes:
    """Return the word without what ends a sentence or a bracket."""
    return re.sub(rb"(?:[.,;:)\]}|*_]|\\[nrt].*)+\Z", b"", secret, flags=re.DOTALL)


def _holds_secret(blob: bytes, searcher: Searcher) -> bool:
    decoded = decode_base64(blob[:65536])
    return decoded is not None and (b"PRIVATE KEY-----" in decoded or bool(searcher.find(decoded).spans))


def _judge_assignment(match: re.Match[bytes], data: bytes, work: _Work) -> Iterator[Span]:
    names = match.re.groupindex
    group = next(name for name in ("quoted", "bare", "phrase") if name in names and match.start(name) >= 0)
    start, end = match.span(group)
    is_bare = group == "bare"
    is_element = "element" in names and match.start("element") >= 0
    is_call = "call" in names and match.start("call") >= 0
    if is_bare:
        following = data[end : end + 1]
        if (
            is_call
            or following in (b"(", b"[", b"{", b"$")
            or (is_element and following not in (b"<", b"]", b"&", b""))
        ):
            return  # a call, an index, a template: an expression that names a secret, not the secret
        while end > start and data[end - 1] == 0x2E:
            end -= 1
    name_start = _start_of(_NAME_BEFORE, data, match.start())
    if data[max(0, name_start - 2) : name_start] == b"::":
        return  # the name of a type
    kind = name_type(data[name_start : match.end("name")].decode("utf-8", "replace"))
    if kind is None or (kind != "password" and (group == "phrase" or (is_call and not looks_random(data[start:end])))):
        return
    if work.judge(_is_secret, kind, data[start:end], not is_bare or is_element):
        yield start, end, kind


_COOKIE: Final = re.compile(rb"([\w.-]{1,64}+)=([^;,\s]{16,4096}+)")
_COOKIE_NAME: Final = re.compile(rb"(?i)sess|sid$|^sid|auth|token|jwt|remember|login|identity|sso")


def _judge_cookies(match: re.Match[bytes]) -> Iterator[Span]:
    for pair in _COOKIE.finditer(match.string, *match.span("secret")):
        if _COOKIE_NAME.search(pair[1]) and not pair[2].startswith(MARK) and looks_random(pair[2]):
            yield *pair.span(2), "cookie"


_NEWLINE: Final = re.compile(rb"\r?\n|\\r\\n|\\n|\xff")
_LONGEST_HEADER: Final = 1000
_COLUMN: Final = re.compile(rb"[^=:(){}<>'\"\\]{1,40}|[^=:{}<>'\"\\]{1,36}\(s\)")


def _line_end(data: bytes, place: int) -> int:
    match = _NEWLINE.search(data, place)
    return match.start() if match else len(data)


def _line_start(data: bytes, place: int) -> int:
    least = max(0, place - _LONGEST_HEADER)
    breaks = [
        data.rfind(each, least, place) + len(each) for each in (b"\n", JOINT, b"\\n") if each in data[least:place]
    ]
    return max(breaks, default=least)


def _read_table(place: int, data: bytes, work: _Work) -> tuple[Sequence[Span], int]:
    """Return the secrets in the rows below a header, of a CSV file or a Markdown table, and where the table ends."""
    start, end = _line_start(data, place), _line_end(data, place)
    header = data[start:end] if end - start <= _LONGEST_HEADER else b""
    separator = max((b"|", b"\t", b",", b";"), key=header.count)
    names = [_plain_cell(cell) for cell in header.split(separator)]
    columns = [name for name in names if name] if separator == b"|" else names
    kinds = {column: kind for column, name in enumerate(names) if (kind := name_type(name.decode("utf-8", "replace")))}
    if len(names) < 2 or not kinds or not all(map(_COLUMN.fullmatch, columns)):
        return (), end
    spans: list[Span] = []
    while (newline := _NEWLINE.match(data, end)) and newline[0] != JOINT:
        row_start, row_end = newline.end(), _line_end(data, newline.end())
        cells = data[row_start:row_end].split(separator)
        if len(cells) != len(names) or not work.may_try(row_start):
            break
        end = row_end
        work.cost += 1
        for column, kind in kinds.items():
            value = _plain_cell(cells[column])
            if len(value) > 3 and work.judge(_is_secret, kind, value, True):
                work.cost -= 1
                at = data.index(value, row_start + sum(len(cell) + 1 for cell in cells[:column]))
                spans.append((at, at + len(value), kind))
    return spans, end


def _plain_cell(cell: bytes) -> bytes:
    return cell.strip(b" \t\r\\").strip(b"\"'`*").strip()


def is_allowed(secret: bytes, allow: tuple[str, ...]) -> bool:
    """Is this one of the values that an operator allows?"""
    if not allow:
        return False
    text = secret.decode("utf-8", "replace")
    return any(text.startswith(item[:-1]) if item.endswith("*") else text == item for item in allow)
