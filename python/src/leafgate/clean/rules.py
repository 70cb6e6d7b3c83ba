"""The rules for hidden instructions in definitions: patterns over folded text, from `data/scan_rules.toml`.

The classifier of `clean.instructions` counts them as features of a definition, and a scan names those that match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leafgate.clean.markers import shadow
from leafgate.data import check_types, expand, load_table

_SPACED_LETTERS: Final = re.compile(r"(?<![^\W_])(?:[^\W\d_][ .\-_*]{1,3}){5,}[^\W\d_](?![^\W_])")
_SEPARATORS: Final = re.compile(r"[\s*`_]+")
_LEET: Final = str.maketrans("013457", "oieast")


@dataclass(frozen=True)
class ScanRule:
    """Patterns for one purpose. `unless`: words in the match that make it harmless."""

    name: str
    kind: str
    patterns: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None

    def matches(self, words: str) -> list[re.Match[str] | None]:
        """Return the match of each pattern in folded text, or None."""
        hits = (pattern.search(words) for pattern in self.patterns)
        return [hit if hit and not (self.unless and self.unless.search(hit[0])) else None for hit in hits]


def _load_rules(entries: Iterable[Mapping[str, Any]], fragments: Mapping[str, str]) -> Iterator[ScanRule]:
    types = {"name": str, "kind": str, "patterns": list, "unless": str}
    for entry in entries:
        check_types("scan_rules.toml", entry, types)
        patterns = tuple(re.compile(expand(pattern, fragments), re.VERBOSE) for pattern in entry["patterns"])
        unless = re.compile(entry["unless"], re.VERBOSE) if "unless" in entry else None
        yield ScanRule(entry["name"], entry["kind"], patterns, unless)


TABLE: Final = load_table("scan_rules", {"fragments": dict, "rules": list, "wordings": dict})
RULES: Final = tuple(_load_rules(TABLE["rules"], TABLE["fragments"]))
PATTERN_COUNT: Final = sum(len(rule.patterns) for rule in RULES)


_OVERRIDES: Final = tuple(rule for rule in RULES if rule.name.startswith("override"))


def has_override(text: str) -> bool:
    """Does a text tell its reader to drop the instructions that it has?"""
    words = fold(text)
    return any(match for rule in _OVERRIDES for match in rule.matches(words))


def find_patterns(text: str) -> list[int]:
    """Return the numbers of the patterns that a text matches."""
    words = fold(text)
    matches = (match for rule in RULES for match in rule.matches(words))
    return [number for number, match in enumerate(matches) if match is not None]


def fold(text: str) -> str:
    """Return what the rules read: one case, one width, single spaces, spaced letters joined, digits as letters."""
    words = join_spaced_letters(shadow(text) if not text.isascii() else text.lower())
    # Whole words, also those without a digit: a pattern that looks for the digit takes quadratic time on a long word.
    words = re.sub(r"[a-z0-9]+", _unleet, words)
    return _SEPARATORS.sub(" ", words) + "\n" + (re.sub(r"\s+", " ", text.lower()) if not text.isascii() else "")


def _unleet(match: re.Match[str]) -> str:
    word = match[0]
    if word.isalpha():
        return word
    return word.translate(_LEET) if len(word) > 3 and sum(map(str.isalpha, word)) >= 2 else word


def join_spaced_letters(text: str) -> str:
    """Return the text with words of spaced letters (`w o r d`) written as words. Two spaces part words."""
    return _SPACED_LETTERS.sub(_join_letters, text)


def _join_letters(match: re.Match[str]) -> str:
    words = re.split(r"[ .\-_*]{2,}", match[0])
    return " ".join(re.sub(r"[ .\-_*]", "", word) for word in words)
