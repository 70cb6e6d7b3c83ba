"""Redaction: replace secrets in a text or a JSON value by marks, and count them.

A mark reads `[redacted:TYPE]` and is never itself treated as a secret: redacting twice equals redacting once. One sieve
finds the few places where a secret may begin, and patterns are tried only there, so clean text costs one search.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

from leafgate.clean.result import DEPTH, MAX_DEPTH, Cleaned, CleaningReport, all_strings, map_strings, replace_spans
from leafgate.clean.secrets import (
    DEFAULT_PATTERNS,
    SecretPattern,
    is_placeholder,
    looks_like_basic_auth,
    looks_random,
    looks_secret,
    name_type,
)
from leafgate.clean.sieve import Sieve, make_needle, utf8

# A mark can separate two secrets that were written as one word; the second is then visible only in the next round.
_ROUNDS: Final = 8
_SHORT: Final = 400  # bytes below which examining each pair is faster than the sieve
_HEAD: Final = 3  # bytes of a beginning by which its patterns are indexed
_WORD_BYTES: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_MARK: Final = re.compile(r"\[redacted:[a-z0-9-]+\]")
_NAME_BEFORE: Final = re.compile(rb"[A-Za-z0-9_.-]{0,40}\Z")


@dataclass(frozen=True)
class RedactPolicy:
    """Which secrets are replaced. `allow` lists values that are not secrets: whole, or a beginning followed by `*`."""

    patterns: tuple[SecretPattern, ...] = DEFAULT_PATTERNS
    allow: tuple[str, ...] = ()
    max_depth: int = MAX_DEPTH

    @cached_property
    def searcher(self) -> _Searcher:
        """The compiled patterns, kept with the policy: hashing a hundred patterns per text costs more than a search."""
        return _searcher(self.patterns)


DEFAULT: Final = RedactPolicy()


def redact_text(text: str, policy: RedactPolicy = DEFAULT) -> Cleaned[str]:
    """Replace each secret of a text by its mark."""
    searcher = policy.searcher
    data = text.encode("utf-8", "surrogatepass")
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        spans = list(searcher.spans(data, policy.allow))
        if not spans:
            break
        data = replace_spans(data, ((start, end, mark(kind).encode()) for start, end, kind in spans))
        counts.update(kind for _, _, kind in spans)
    if not counts:
        return Cleaned(text)
    return Cleaned(data.decode("utf-8", "surrogatepass"), CleaningReport(redacted=dict(counts)))


def redact_json(value: Any, policy: RedactPolicy = DEFAULT) -> Cleaned[Any]:
    """Replace each secret in strings and keys. A member's name helps to decide whether its string is a secret."""
    strings = all_strings(value, policy.max_depth)
    suspects = policy.searcher.find_texts(strings.items)
    if not suspects and not strings.too_deep:
        return Cleaned(value)
    counts: Counter[str] = Counter()

    def clean(text: str, name: str | None) -> str:
        if text not in suspects and name not in suspects:
            return text
        kind = name_type(name) if name is not None else None
        data = utf8(text)
        result = redact_text(text, policy)
        if kind and looks_secret(kind, data, quoted=True) and not _allowed(data, policy.allow):
            kinds = list(result.report.redacted)
            if len(kinds) == 1 and result.value == mark(kinds[0]):
                kind = kinds[0]  # the form of the value is more specific than its name
            counts[kind] += 1
            return mark(kind)
        counts.update(result.report.redacted)
        return result.value

    clean_value, withheld = map_strings(value, clean, policy.max_depth)
    if withheld:
        counts[DEPTH] += withheld
    return Cleaned(clean_value, CleaningReport(redacted=dict(counts)))


def find_redacted(before: Any, after: Any) -> list[str]:
    """Return the texts for which marks stand in a JSON value: `after` is `before` redacted."""
    secrets: list[str] = []
    pending = [(before, after)]
    while pending:
        old, new = pending.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            pending += [*zip(old, new, strict=False), *zip(old.values(), new.values(), strict=False)]
        elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
            pending += zip(old, new, strict=False)
        elif isinstance(old, str) and isinstance(new, str) and old != new:
            secrets += _between(old, _MARK.split(new))
    return secrets


def _between(text: str, rest: Sequence[str]) -> Iterator[str]:
    """Yield what is between these parts of a text, which come in order."""
    done = len(rest[0])
    for part in rest[1:-1]:
        place = text.find(part, done + 1) if part else done
        if place > done:
            yield text[done:place]
            done = place + len(part)
    secret = text[done : len(text) - len(rest[-1])]
    if secret and not _MARK.fullmatch(secret):
        yield secret


def mark(kind: str) -> str:
    """Return the mark that replaces a secret of this kind."""
    return f"[redacted:{kind}]"


# The search


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
        self._sieve = Sieve({"secret": [make_needle(start, any_case=each.source.any_case) for start, each in starts]})
        self._pairs = frozenset(start[:2].lower().encode() for start, _ in starts)
        self._by_head: dict[bytes, list[_Compiled]] = {}
        for start, each in starts:
            group = self._by_head.setdefault(start[:_HEAD].lower().encode(), [])
            if each not in group:
                group.append(each)

    def find_texts(self, strings: Sequence[str]) -> set[str]:
        """Return the strings that may hold a secret, or name one; the others hold none."""
        return set(strings) if self._anywhere else self._sieve.find_texts(strings)

    def _places(self, data: bytes) -> list[int]:
        if len(data) >= _SHORT:
            return self._sieve.places(data)
        lower = data.lower()
        return [at for at in range(len(lower) - 1) if lower[at : at + 2] in self._pairs]

    def spans(self, data: bytes, allow: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
        """Yield the spans of secrets in order; of two that overlap, only the one that begins first."""
        end = 0
        for span in sorted(self._candidates(data, allow), key=lambda span: (span[0], -span[1])):
            if span[0] >= end:
                yield span
                end = span[1]

    def _candidates(self, data: bytes, allow: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
        ends: set[int] = set()
        last_end: dict[_Compiled, int] = {}  # a pattern does not read its match again: a chain of tokens is read once
        for place in self._places(data):
            head = data[place : place + _HEAD].lower()
            for each in (*self._by_head.get(head, ()), *self._by_head.get(head[:2], ())):
                start = place - each.source.lead
                if start < last_end.get(each, 0):
                    continue
                if each.source.whole_word and start and data[start - 1] in _WORD_BYTES and start not in ends:
                    continue  # the match would continue a word
                match = each.regex.match(data, start)
                span = _check_match(each.source, match, data) if match else None
                if span and not _allowed(data[span[0] : span[1]], allow):
                    ends.add(span[1])
                    last_end[each] = span[1]
                    yield span
        for each in self._anywhere:
            for match in each.regex.finditer(data):
                span = _check_match(each.source, match, data)
                if span and not _allowed(data[span[0] : span[1]], allow):
                    yield span


_searcher: Final = lru_cache(maxsize=16)(_Searcher)


def _check_match(source: SecretPattern, match: re.Match[bytes], data: bytes) -> tuple[int, int, str] | None:
    """Return the span and type of a match that really is a secret, or None."""
    if source.judge == "assignment":
        return _check_assignment(match, data)
    group: str | int = "secret" if "secret" in match.re.groupindex else 0
    secret = match[group]
    match source.judge:
        case "bearer":
            fits = looks_random(secret)
        case "basic":
            fits = looks_like_basic_auth(secret)
        case "url-password":
            fits = not is_placeholder(secret) or secret.lower() in (b"password", b"secret", b"passwd")
        case _:
            fits = True
    return (*match.span(group), source.type) if fits and not secret.startswith(b"[redacted:") else None


def _check_assignment(match: re.Match[bytes], data: bytes) -> tuple[int, int, str] | None:
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
