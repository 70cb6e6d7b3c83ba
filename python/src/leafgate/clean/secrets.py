"""The kinds of secrets: what their tokens look like, and the shapes of text that hold one.

Both are data (data/secrets.toml). A pattern is tried only where one of its literal beginnings stands. No part of it can
look back, and repeats are bounded and possessive: a try that fails costs little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from leafgate.data import check_types, expand, load_table

Judge = Literal[
    "", "token", "checksum", "mixed", "bearer", "key", "basic", "url-password", "assignment", "password", "strong",
    "strict", "named", "explicit", "long", "prose-long", "otp", "alone", "call",
    "login", "groups", "seed",
    "encoded", "cookies", "table", "der", "random", "random-mixed", "prose-key", "codes", "code", "insert",
    "url-key", "credential-line", "phrase", "human", "option", "bare-key", "bytes",
]  # fmt: skip


@dataclass(frozen=True)
class SecretPattern:
    """One kind of secret. `regex` (for UTF-8 bytes) must match at a beginning; the group `secret`, or the whole match,
    is replaced if the judge agrees."""

    type: str
    starts: tuple[str, ...]
    regex: str
    any_case: bool = False
    whole_word: bool = True  # the match may not continue a word
    before: str = ""  # what belongs to the match before its literal beginning: one class of characters, repeated
    judge: Judge = ""
    once_a_line: bool = False  # a try reads on for a line: the next one is on the next line
    at_long_word: bool = False  # the beginning is short and common: it is tried only where a long word begins


_TABLE: Final = load_table(
    "secrets", {"alphabets": dict, "tokens": dict, "examples": dict, "names": dict, "fragments": dict, "patterns": list}
)
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    kind: tuple(words.split()) for kind, words in _TABLE["names"].items()
}  # words in the names of variables, by kind
EXAMPLES: Final[frozenset[bytes]] = frozenset(value.encode() for value in _TABLE["examples"]["whole"])
EXAMPLE_PARTS: Final[tuple[bytes, ...]] = tuple(value.encode() for value in _TABLE["examples"]["part"])

_ENTRY: Final = dict.fromkeys(("type", "regex", "judge"), str)
_KEYS: Final = (
    _ENTRY | {"starts": list} | dict.fromkeys(("any_case", "whole_word", "at_long_word", "once_a_line"), bool)
)
_PART: Final = re.compile(r"\{(\w+) (\d+)(?:-(\d+)|(\+))?\}")
_LONGEST: Final = 4096  # characters of a part without a limit
_TOKEN_END: Final = r"(?<!\.)(?![A-Za-z0-9])"
_CHECKSUM: Final = "crc32"


def read_form(kind: str, form: str) -> SecretPattern:
    """Return the pattern of a form in data/secrets.toml such as "ghp_ gho_ {base62 36} crc32"."""
    items = re.findall(r"\{[^}]*\}|[^\s{}]+", form)
    judge: Judge = "checksum" if items[-1] == _CHECKSUM else "token"
    if judge == "checksum":
        del items[-1]
    before = _part(items.pop(0)) if items[0].startswith("{") else ""
    count = next((place for place, item in enumerate(items) if item.startswith("{")), len(items))
    starts, rest = items[:count], items[count:]
    body = "".join(_part(item) if item.startswith("{") else re.escape(item) for item in rest[:-1])
    last = _part(rest[-1]) if rest else ""
    body += f"(?P<body>{last})" if last else ""
    if "." not in last:  # the full stop of a sentence is given back, so that such a part is not possessive
        body = body.replace("}", "}+")
    literals = "|".join(map(re.escape, starts))
    regex = f"{before}(?:{literals}){body}{_TOKEN_END}"
    whole_word = judge != "checksum"
    return SecretPattern(kind, tuple(starts), regex, whole_word=whole_word, before=before, judge=judge)


def _part(item: str) -> str:
    match = _PART.fullmatch(item)
    if match is None:
        raise ValueError(f"secrets.toml: {item} is not a part of a form")
    alphabet, least, most, is_open = match.groups()
    upper = most or (_LONGEST if is_open else least)
    return f"[{_TABLE['alphabets'][alphabet]}]{{{least},{upper}}}"


def _load_patterns() -> Iterator[SecretPattern]:
    for entry in _TABLE["patterns"]:
        check_types("secrets.toml", entry, _KEYS)
        values: dict[str, Any] = entry | {"starts": tuple(entry["starts"])}
        # Fragments contain fragments.
        values["regex"] = expand(expand(entry["regex"], _TABLE["fragments"]), _TABLE["fragments"])
        yield SecretPattern(**values)
    for kind, forms in _TABLE["tokens"].items():
        for form in forms:
            yield read_form(kind, form)


DEFAULT_PATTERNS: Final[tuple[SecretPattern, ...]] = tuple(_load_patterns())
