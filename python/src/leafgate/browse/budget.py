"""Token budgets: what a card may cost, and how a description is shortened to fit (spec 2.4, 2.5).

In: a text and a counter. Out: the same text, or its longest fitting part, always the same for the same input.
Touches nothing. The counter is handed in; without one a bound from above is used, which never allows too much.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

Count = Callable[[str], int]

CARD_HARD_CAP: Final = 80
CARD_TARGET: Final = 57  # ten cards and a page's preamble are then within 600
MIN_DESCRIPTION: Final = 5  # a heavy id may push a card over the target, not over the cap

MAX_READ: Final = 1_024  # characters of a description that are looked at
MAX_SHORTENED: Final = 512  # characters within which a shortened one must end: no card has room for more

ELLIPSIS: Final = "…"

_SEAM: Final = 4  # tokens by which a text may be lighter than its beginning
_LONG_WORDS: Final = 6  # characters of a token, at a guess

_VIRAMA: Final = 9  # the combining class
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)")
_NOT_AN_END: Final = re.compile(r"(?:\b[A-Za-z]|\betc|\bvs|\bcf)\.$")
# Lower-case letters of which any two neighbours are one token; a space before them merges likewise.
_WEIGHED: Final = re.compile(r"( ?[abcdehiklmnoprstuwy]+)|([0-9]+)|([^\x00-\x7f]+)|.", re.DOTALL)


def token_upper_bound(text: str) -> int:
    """Never less than the cl100k_base tokens of a text, without a tokenizer: the counter of those who have none."""
    bound = 0
    for run in _WEIGHED.finditer(text):
        if run[1]:
            bound += (2 * len(run[1]) + 1) // 3
        elif run[2]:
            bound += (len(run[2]) + 2) // 3
        elif run[3]:
            bound += len(run[3].encode("utf-8", "surrogatepass"))
        else:
            bound += 1
    return bound


def one_line(text: str, limit: int = MAX_READ) -> str:
    """The beginning of a text on one line: controls and line breaks become spaces, invisible signs go."""
    line = " ".join(text[:limit].split())
    return line if line.isprintable() else " ".join("".join(map(_visible, line)).split())


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Cc", "Zl", "Zp", "Cs"):
        return " "
    # Bidirectional overrides, zero-width spaces, tag characters; joiners stay, for words and emoji are built with them.
    return "" if category == "Cf" and character not in "\u200c\u200d" else character


def fit_description(text: str, room: int, count: Count) -> str:
    """The text if it fits; else its longest run of whole sentences; else as much as fits, and an ellipsis."""
    whole = one_line(text)
    if len(text) <= MAX_READ and not _is_hopeless(whole, room, count) and count(whole) <= room:
        return whole
    end = min(len(whole), MAX_SHORTENED)
    # What follows the cut decides whether a point at its very end closes a sentence.
    fitting = ""
    for match in _SENTENCE_END.finditer(whole, 0, end + 1):
        sentences = whole[: match.end()]
        if match.end() > end or _NOT_AN_END.search(sentences):
            continue
        weight = count(sentences)
        if weight <= room:
            fitting = sentences
        elif weight > room + _SEAM:  # from here on it only grows
            break
    if fitting:
        return fitting
    while end > 0 and not _is_boundary(whole, end):
        end -= 1
    return cut_with_ellipsis(whole[:end], room, count)


def _is_hopeless(text: str, room: int, count: Count) -> bool:
    """Whether the beginning of a long text is too heavy already: counting costs by the length."""
    begin = _LONG_WORDS * max(room, 1)
    return len(text) > 2 * begin and count(text[:begin]) > room + _SEAM


def cut_with_ellipsis(text: str, room: int, count: Count) -> str:
    """The longest beginning that takes one token less than the room, never cut within a visible character."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle]) + 1 <= room:
            low = middle
        else:
            high = middle - 1
    while low > 0 and (not _is_boundary(text, low) or count(_closed(text[:low])) > room):
        low -= 1
    return _closed(text[:low]) if low > 0 else ""


def _closed(text: str) -> str:
    return text.rstrip(" .,;:(-") + ELLIPSIS


def _is_boundary(text: str, index: int) -> bool:
    """Whether a visible character may end at this index: no mark, joiner or half of a flag on either side."""
    if index >= len(text):
        return True
    after, before = text[index], text[index - 1]
    is_tone = "\U0001f3fb" <= after <= "\U0001f3ff"
    if unicodedata.category(after) in ("Mn", "Me", "Mc") or is_tone or after in "\u200c\u200d" or before == "\u200d":
        return False
    if unicodedata.combining(before) == _VIRAMA:  # it ties the next consonant to this one
        return False
    if _is_flag_half(after) and _is_flag_half(before):
        begin = index
        while begin > 0 and _is_flag_half(text[begin - 1]):
            begin -= 1
        return (index - begin) % 2 == 0
    return True


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
