"""Redaction: replace secrets in a text or a JSON value by marks, and count them.

A mark reads `[redacted:TYPE]` and is never itself treated as a secret: redacting twice equals redacting once. One sieve
finds the few places where a secret may begin, and patterns are tried only there, so clean text costs one search.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

from leafgate.clean.result import DEPTH, MAX_DEPTH, Cleaned, CleaningReport, all_strings, map_strings, replace_spans
from leafgate.clean.secret_judges import JOINT
from leafgate.clean.secret_search import Searcher, get_searcher, is_allowed
from leafgate.clean.secret_values import looks_secret, name_type, type_of_kind
from leafgate.clean.secrets import DEFAULT_PATTERNS, SecretPattern
from leafgate.clean.sieve import utf8

# A mark can separate two secrets that were written as one word; the second is then visible only in the next round.
_ROUNDS: Final = 8
_LONGEST_JSON: Final = 1 << 16  # characters of a text that is read as JSON
_MARK: Final = re.compile(r"\[redacted:[a-z0-9-]+\]")


@dataclass(frozen=True)
class RedactPolicy:
    """Which secrets are replaced. `allow` lists values that are not secrets: whole, or a beginning followed by `*`."""

    patterns: tuple[SecretPattern, ...] = DEFAULT_PATTERNS
    allow: tuple[str, ...] = ()
    max_depth: int = MAX_DEPTH

    @cached_property
    def searcher(self) -> Searcher:
        """The compiled patterns, kept with the policy: hashing a hundred patterns per text costs more than a search."""
        return get_searcher(self.patterns)


DEFAULT: Final = RedactPolicy()


def redact_text(text: str, policy: RedactPolicy = DEFAULT) -> Cleaned[str]:
    """Replace each secret of a text by its mark."""
    (result,) = _redact_texts([text], policy)
    return _redact_json_text(result, policy)


def _redact_json_text(before: Cleaned[str], policy: RedactPolicy) -> Cleaned[str]:
    """Redact also what its names give away in a text that is JSON, not too long. Its form stays as it was written."""
    text = before.value
    if text[:1] not in ("{", "[") or text[-1:] not in ("}", "]", "\n") or len(text) > _LONGEST_JSON:
        return before
    if not policy.searcher.find_texts([text]):
        return before
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return before
    secrets: dict[str, str] = {}

    def look(string: str, name: str | None) -> str:
        kind = _kind_by_name(string, name, policy)
        if kind:
            secrets[string] = kind
        return string

    map_strings(value, look, policy.max_depth)
    counts: Counter[str] = Counter(before.report.redacted)
    for secret, kind in secrets.items():
        for form in {json.dumps(secret), json.dumps(secret, ensure_ascii=False)}:
            counts[kind] += text.count(form)
            text = text.replace(form, f'"{mark(kind)}"')
    return Cleaned(text, CleaningReport(redacted=dict(+counts))) if text != before.value else before


def _kind_by_name(text: str, name: str | None, policy: RedactPolicy) -> str | None:
    """Return the type of the secret that a string is because of its name, or None."""
    kind = name_type(name) if name is not None else None
    data = utf8(text)
    is_secret = kind and looks_secret(kind, data, quoted=True) and not is_allowed(data, policy.allow)
    return type_of_kind(kind) if kind and is_secret else None


def redact_json(value: Any, policy: RedactPolicy = DEFAULT) -> Cleaned[Any]:
    """Replace each secret in strings and keys. A string's name helps to decide whether it is a secret: that of its
    member, of the variable in {"name": ..., "value": ...}, or of its column in {"columns": [...], "rows": [...]}."""
    strings = all_strings(value, policy.max_depth)
    suspects = policy.searcher.find_texts(strings.items)
    if not suspects and not strings.too_deep:
        return Cleaned(value)
    # All share a budget: short texts are read before a long one can use it up.
    texts = sorted((text for text in dict.fromkeys(strings.items) if text in suspects), key=len)
    results = {
        text: _redact_json_text(result, policy)
        for text, result in zip(texts, _redact_texts(texts, policy), strict=True)
    }
    counts: Counter[str] = Counter()

    def clean(text: str, name: str | None) -> str:
        if text not in suspects and name not in suspects:
            return text
        result = results.get(text) or Cleaned(text)
        kind = _kind_by_name(text, name, policy)
        if kind:
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


def _redact_texts(texts: Sequence[str], policy: RedactPolicy) -> list[Cleaned[str]]:
    """Redact the texts in one search: thousands of short ones cost little more than one long text."""
    pieces = [utf8(text) for text in texts]
    counts: list[Counter[str]] = [Counter() for _ in texts]
    cost = 0
    for _ in range(_ROUNDS):
        data = JOINT.join(pieces)
        findings = policy.searcher.find(data, policy.allow, cost)
        cost = findings.cost
        spans = findings.spans
        if not spans:
            break
        if len(texts) > 1 and any(JOINT in data[start:end] for start, end, _ in spans):
            return [redact_text(text, policy) for text in texts]  # a pattern of an operator ran on into the next text
        ends = list(accumulate(len(piece) + 1 for piece in pieces))
        for start, _, kind in spans:
            counts[bisect_right(ends, start)][kind] += 1
        data = replace_spans(data, ((start, end, mark(kind).encode()) for start, end, kind in spans))
        pieces = data.split(JOINT)
        if findings.is_settled:
            break
    return [
        Cleaned(piece.decode("utf-8", "surrogatepass"), CleaningReport(redacted=dict(count)))
        if count
        else Cleaned(text)
        for text, piece, count in zip(texts, pieces, counts, strict=True)
    ]


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
