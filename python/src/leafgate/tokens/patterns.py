"""The pre-tokenizer patterns in wide use, by name. In: a name or a pattern. Out: the other one. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LEAD: Final = r"[^\r\n\p{L}\p{N}]?"
_SIGNS: Final = r" ?[^\s\p{L}\p{N}]+"
_BLANKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

PATTERNS: Final[Mapping[str, str]] = {
    "cl100k": rf"{_CONTRACTIONS}|{_LEAD}\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}[\r\n]*|{_BLANKS}",
    "o200k": (
        rf"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}|{_SIGNS}[\r\n/]*|{_BLANKS}"
    ),
    "qwen2": rf"{_CONTRACTIONS}|{_LEAD}\p{{L}}+|\p{{N}}|{_SIGNS}[\r\n]*|{_BLANKS}",
    "gpt2": rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+|{_SIGNS}|\s+(?!\S)|\s+",
}

# As tiktoken writes two of them: other words for the same cuts.
_SPELLINGS: Final[Mapping[str, str]] = {
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s": "cl100k",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
}
_FAMILIES: Final = {**{pattern: name for name, pattern in PATTERNS.items()}, **_SPELLINGS}


def family_of(pattern: str) -> str | None:
    """The name of a pattern, or None where it is one of its own."""
    return _FAMILIES.get(pattern)
