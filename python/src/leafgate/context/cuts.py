"""Where a text may be cut without changing its tokens.

The rules, and why they are sound. A byte_level map splits a text by its pattern and tokenizes the pieces one by one.
None of the alternatives listed here looks behind; what they look ahead at is one character behind white space.

1. None matches a letter or digit followed by a character that is neither, nor a combining mark, nor an apostrophe. So
   between two such characters every text is split, and both sides are split as if alone.
2. None matches a line feed followed by anything but white space and slashes. If white space up to a line feed is a
   separate piece (NEWLINES), whatever follows, the same holds between a line feed and such a character.

Then encode(text) == encode(text[:cut]) + encode(text[cut:]). A pattern with any other alternative has no cuts. Only
characters are used whose class is the same in every version of Unicode.

A metaspace map joins symbols across the whole text, but only into tokens of its vocabulary: where no token holds one
character directly followed by another, nothing is ever joined across that pair. Cuts are made before blanks, because
the encoder puts a blank before every text: encode(text) == encode(text[:cut]) + encode(text[cut + 1:]).

Maps of other kinds (several patterns, added tokens, metaspace without a prefix) have no cuts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from leafgate.data import load_table
from leafgate.tokens.token_map import TokenMap

_TABLE: Final = load_table("cuts", {"alternatives": dict, "characters": dict})
NEWLINES: Final = frozenset(_TABLE["alternatives"]["newlines"])
_OTHER_SPACE: Final = frozenset(_TABLE["alternatives"]["other_space"])
KNOWN_ALTERNATIVES: Final = NEWLINES | _OTHER_SPACE | frozenset(_TABLE["alternatives"]["others"])
_ALNUM: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LETTERS, _OTHERS = _TABLE["characters"]["letters"], _TABLE["characters"]["others"]
_BEHIND_LINE: Final = rf"0-9{_LETTERS}!-.:-@\[-`{{-~"
_WORD_ENDS: Final = f"[0-9{_LETTERS}](?=[{_OTHERS}])"
_LINE_ENDS: Final = rf"\n(?=[{_BEHIND_LINE}])"
_FALLBACK_BYTE: Final = re.compile(r"<0x[0-9A-F]{2}>")
_REACHES: Final = (64, 1024, 16384)


@dataclass(frozen=True)
class Cutter:
    """Finds cuts. The `skip` characters after a cut are added by the encoder itself."""

    before: re.Pattern[str] | None
    skip: int = 0

    def first(self, text: str) -> int | None:
        """The first place at which the text may be cut."""
        match = self.before.search(text) if self.before is not None else None
        return None if match is None else match.end()

    def between(self, before: str, behind: str) -> bool:
        """Whether the border between two texts is a cut."""
        pair = before[-1:] + behind[:1]
        match = self.before.match(pair) if self.before is not None and self.skip == 0 else None
        return match is not None and match.end() == len(before[-1:]) < len(pair)

    def last(self, text: str) -> int | None:
        """The last place at which the text may be cut. It is usually near the end, so the search starts there."""
        if self.before is None:
            return None
        for reach in (*_REACHES, len(text)):
            start = max(len(text) - reach, 0)
            ends = [match.end() for match in self.before.finditer(text, start)]
            if ends:
                return ends[-1]
        return None


NO_CUTS: Final = Cutter(None)


def make_cutter(token_map: TokenMap) -> Cutter:
    """The cuts of texts under this map."""
    if token_map.added or token_map.patterns:
        return NO_CUTS
    if token_map.kind == "metaspace":
        return _metaspace(token_map)
    alternatives = split_alternatives(token_map.pattern)
    if not KNOWN_ALTERNATIVES.issuperset(alternatives):
        return NO_CUTS
    space = [each for each in alternatives if each in NEWLINES or each in _OTHER_SPACE]
    lines_end_pieces = bool(space) and space[0] in NEWLINES
    return Cutter(re.compile(f"{_WORD_ENDS}|{_LINE_ENDS}" if lines_end_pieces else _WORD_ENDS))


def split_alternatives(pattern: str) -> list[str]:
    """The alternatives of a pattern's top level."""
    parts, depth, in_class, start = [], 0, False, 0
    escaped = False
    for place, char in enumerate(pattern):
        if escaped or char == "\\":
            escaped = not escaped
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth == 0:
            parts.append(pattern[start:place])
            start = place + 1
    return [*parts, pattern[start:]]


def _metaspace(token_map: TokenMap) -> Cutter:
    joins_bytes = any(_FALLBACK_BYTE.search(part) for merge in token_map.merges or () for part in merge)
    if joins_bytes or not token_map.has_prefix:
        return NO_CUTS
    before_blank = {token[at - 1] for token in token_map.vocab for at in range(1, len(token)) if token[at] == "▁"}
    free = "".join(char for char in _ALNUM if char not in before_blank)
    # Something must follow the blank: the encoder adds none to an empty text.
    return Cutter(re.compile(rf"[{free}](?= [\s\S])"), skip=1) if free else NO_CUTS
