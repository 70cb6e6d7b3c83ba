"""Redaction of secrets. In: a string or a JSON value. Out: the same with marks in their place, and counts. Pure.

A mark reads `[redacted:TYPE]` and is never itself taken for a secret: redacting twice equals redacting once. One sieve
finds the few places where a secret may begin; only there are patterns tried, so clean text costs one look.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final

from leafgate.firewall.json_strings import MAX_DEPTH, all_strings, map_strings
from leafgate.firewall.secrets import (
    DEFAULT_PATTERNS,
    SecretPattern,
    is_placeholder,
    looks_like_basic_auth,
    looks_random,
    looks_secret,
    name_type,
)
from leafgate.firewall.sieve import Sieve, spelled, utf8

DEPTH: Final = "too-deep"


@dataclass(frozen=True)
class RedactPolicy:
    """Which secrets are replaced. `allow` lists values that are none: whole, or their beginning followed by `*`."""

    patterns: tuple[SecretPattern, ...] = DEFAULT_PATTERNS
    allow: tuple[str, ...] = ()
    max_depth: int = MAX_DEPTH

    @cached_property
    def searcher(self) -> _Searcher:
        """Made once per policy: hashing a hundred patterns for every text would cost more than the search."""
        return _searcher(self.patterns)


DEFAULT: Final = RedactPolicy()


@dataclass(frozen=True)
class Redacted:
    """A text without secrets, and how many of each type were replaced."""

    text: str
    redacted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RedactedJson:
    """A JSON value without secrets, likewise."""

    value: Any
    redacted: Mapping[str, int] = field(default_factory=dict)


def redact_text(text: str, policy: RedactPolicy = DEFAULT) -> Redacted:
    """The text with each secret replaced by its mark."""
    searcher = policy.searcher
    data = utf8(text)
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        spans = list(searcher.spans(data, policy.allow))
        if not spans:
            break
        data = _marked(data, spans)
        counts.update(kind for _, _, kind in spans)
    return Redacted(data.decode("utf-8", "surrogatepass"), dict(counts)) if counts else Redacted(text)


def _marked(data: bytes, spans: list[tuple[int, int, str]]) -> bytes:
    pieces: list[bytes] = []
    done = 0
    for start, end, kind in spans:
        pieces += (data[done:start], mark(kind).encode())
        done = end
    return b"".join((*pieces, data[done:]))


def redact_json(value: Any, policy: RedactPolicy = DEFAULT) -> RedactedJson:
    """The value with each secret replaced, in strings and keys; a member's name tells about the string it holds."""
    strings = all_strings(value, policy.max_depth)
    dirty = worth_a_look(strings.found, policy)
    if not dirty and not strings.too_deep:
        return RedactedJson(value)
    counts: Counter[str] = Counter()

    def clean(text: str, name: str | None) -> str:
        if text not in dirty and name not in dirty:
            return text
        kind = name_type(name) if name is not None else None
        data = utf8(text)
        if kind and looks_secret(kind, data, quoted=True) and not _allowed(data, policy.allow):
            inner = redact_text(text, policy)
            if len(inner.redacted) == 1 and inner.text == mark(next(iter(inner.redacted))):
                kind = next(iter(inner.redacted))  # the value's own form says more than its name
            counts[kind] += 1
            return mark(kind)
        redacted = redact_text(text, policy)
        counts.update(redacted.redacted)
        return redacted.text

    made, withheld = map_strings(value, clean, policy.max_depth)
    if withheld:
        counts[DEPTH] += withheld
    return RedactedJson(made, dict(counts))


def worth_a_look(texts: Sequence[str], policy: RedactPolicy = DEFAULT) -> set[str]:
    """Those of the texts that may hold a secret, or name one; the others hold none."""
    return policy.searcher.dirty(texts)


def mark(kind: str) -> str:
    """What stands in the place of a secret."""
    return f"[redacted:{kind}]"


# A mark can part two secrets that were written as one word, so that the other is seen only in the next round.
_ROUNDS: Final = 8
_SHORT: Final = 400  # bytes below which a look at each pair is quicker than the sieve
_HEAD: Final = 3  # bytes of a beginning by which its patterns are found
_WORD_BYTES: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_NAME_BEFORE: Final = re.compile(rb"[A-Za-z0-9_.-]{0,40}\Z")


@dataclass(frozen=True, eq=False)
class _Compiled:
    source: SecretPattern
    regex: re.Pattern[bytes]


class _Searcher:
    """The patterns of one policy, made ready."""

    def __init__(self, patterns: tuple[SecretPattern, ...]) -> None:
        compiled = [
            _Compiled(pattern, re.compile(pattern.regex.encode(), re.IGNORECASE if pattern.any_case else 0))
            for pattern in patterns
        ]
        self._anywhere = [each for each in compiled if not each.source.starts]
        starts = [(start, each) for each in compiled for start in each.source.starts]
        self._sieve = Sieve({"secret": [spelled(start, any_case=each.source.any_case) for start, each in starts]})
        self._pairs = frozenset(start[:2].lower().encode() for start, _ in starts)
        self._by_head: dict[bytes, list[_Compiled]] = {}
        for start, each in starts:
            known = self._by_head.setdefault(start[:_HEAD].lower().encode(), [])
            if each not in known:
                known.append(each)

    def dirty(self, strings: Sequence[str]) -> set[str]:
        """The strings worth looking at."""
        return set(strings) if self._anywhere else self._sieve.dirty(strings)

    def _places(self, data: bytes) -> list[int]:
        if len(data) >= _SHORT:
            return self._sieve.places(data)
        lower = data.lower()
        return [at for at in range(len(lower) - 1) if lower[at : at + 2] in self._pairs]

    def spans(self, data: bytes, allow: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
        """Where secrets stand, in order, without overlap; of two that overlap, the one that begins first."""
        found = sorted(self._candidates(data, allow), key=lambda span: (span[0], -span[1]))
        end = 0
        for span in found:
            if span[0] >= end:
                yield span
                end = span[1]

    def _candidates(self, data: bytes, allow: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
        ends: set[int] = set()
        taken: dict[_Compiled, int] = {}  # no pattern looks again at what it took: a chain of tokens is read once
        for place in self._places(data):
            head = data[place : place + _HEAD].lower()
            for each in (*self._by_head.get(head, ()), *self._by_head.get(head[:2], ())):
                start = place - each.source.lead
                if start < taken.get(each, 0) or (each.source.whole_word and not self._begins_word(data, start, ends)):
                    continue
                match = each.regex.match(data, start)
                span = _judged(each.source, match, data) if match else None
                if span and not _allowed(data[span[0] : span[1]], allow):
                    ends.add(span[1])
                    taken[each] = span[1]
                    yield span
        for each in self._anywhere:
            for match in each.regex.finditer(data):
                span = _judged(each.source, match, data)
                if span and not _allowed(data[span[0] : span[1]], allow):
                    yield span

    @staticmethod
    def _begins_word(data: bytes, start: int, ends: set[int]) -> bool:
        return start == 0 or data[start - 1] not in _WORD_BYTES or start in ends


@lru_cache(maxsize=16)
def _searcher(patterns: tuple[SecretPattern, ...]) -> _Searcher:
    return _Searcher(patterns)


def _judged(source: SecretPattern, match: re.Match[bytes], data: bytes) -> tuple[int, int, str] | None:
    """The span and type of a match that really is a secret."""
    if source.judge == "assignment":
        return _assigned(match, data)
    group: str | int = "secret" if "secret" in match.re.groupindex else 0
    secret, kind = match[group], source.type
    if secret.startswith(b"[redacted:"):
        return None
    fits = True
    match source.judge:
        case "bearer":
            fits = looks_random(secret)
        case "basic":
            fits = looks_like_basic_auth(secret)
        case "url-password":
            fits = not is_placeholder(secret) or secret.lower() in (b"password", b"secret", b"passwd")
    return (*match.span(group), kind) if fits else None


def _assigned(match: re.Match[bytes], data: bytes) -> tuple[int, int, str] | None:
    before = _NAME_BEFORE.search(data, max(0, match.start() - 40), match.start())
    name = ((before[0] if before else b"") + match["name"]).decode("ascii")
    kind = name_type(name)
    group = "quoted" if match["quoted"] is not None else "bare"
    if kind is None:
        return None
    value, end = match[group], match.end(group)
    if group == "bare" and data[end : end + 1] in (b"(", b"[", b"{", b"$"):
        return None  # a call, an index, a template: an expression that names a secret, not the secret
    return (match.start(group), end, kind) if looks_secret(kind, value, quoted=group == "quoted") else None


def _allowed(secret: bytes, allow: tuple[str, ...]) -> bool:
    text = secret.decode("utf-8", "replace")
    return any(text.startswith(item[:-1]) if item.endswith("*") else text == item for item in allow)
