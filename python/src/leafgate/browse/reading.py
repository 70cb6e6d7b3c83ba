"""Reads a query in the catalog's own words. In: Query, an index. Out: weighted terms, plain text. May touch: nothing.

Joins and splits compounds, spells out short forms, corrects what is neither in the catalog nor English.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from leafgate.browse.lexical import LexicalIndex
from leafgate.browse.query import SHORT_FORMS, Query, QueryWord
from leafgate.browse.spelling import SpellingIndex
from leafgate.browse.words import stem

COMPOUND_WEIGHT: Final = 0.9
SHORT_FORM_WEIGHT: Final = 0.8

_ENDINGS: Final = ("s", "es", "ed", "d", "ing", "ly", "er", "r")


@dataclass(frozen=True)
class Reading:
    terms: dict[int, float]
    asked: float  # what a perfect match would score; the yardstick for every item
    found: float  # the part of it that the catalog has any word for
    spoken: str  # corrected and spelt out, for comparing meaning


def read_query(query: Query, lexical: LexicalIndex, spelling: SpellingIndex, is_word: Callable[[str], bool]) -> Reading:
    terms: dict[int, float] = {}
    spoken: list[str] = []
    asked = found = 0.0
    before = ""
    for word in query.words:
        matches, said = _matches(word, lexical, spelling, is_word)
        spoken += said
        if not word.tells:
            continue
        joined = lexical.word_ids.get(before + word.text) if before and not word.fixed else None
        if joined is not None:
            matches = {**matches, int(lexical.term_of_word[joined]): 1.0}
        before = "" if word.fixed else word.text
        for term, weight in matches.items():
            terms[term] = max(terms.get(term, 0.0), weight)
        rarest = max((float(lexical.rarity[term]) for term in matches), default=lexical.rarest)
        asked += word.weight * rarest
        found += word.weight * rarest if matches else 0.0
    return Reading(terms, asked, found, " ".join(spoken))


def english(known: Callable[[str], bool]) -> Callable[[str], bool]:
    """Whether a word, or what is left without its ending, is known."""

    def is_word(word: str) -> bool:
        if known(word):
            return True
        for ending in _ENDINGS:
            bare = word.removesuffix(ending)
            if bare != word and len(bare) > 2 and (known(bare) or known(bare + "e") or _undoubled(bare, known)):
                return True
        return False

    return is_word


def _undoubled(bare: str, known: Callable[[str], bool]) -> bool:
    return bare[-1] == bare[-2] and known(bare[:-1])


def _matches(
    word: QueryWord, lexical: LexicalIndex, spelling: SpellingIndex, is_word: Callable[[str], bool]
) -> tuple[dict[int, float], list[str]]:
    """The catalog's terms for one word, and how it is said aloud."""
    if not word.tells:
        return {}, [word.text]
    found: dict[int, float] = {}
    said = [word.text]
    long_form = SHORT_FORMS.get(word.text, "").split()
    for part in long_form:
        if (term := lexical.term_ids.get(stem(part))) is not None:
            found[term] = SHORT_FORM_WEIGHT * word.weight
    if (term := lexical.term_ids.get(stem(word.text))) is not None:
        found[term] = word.weight
    if found or long_form or word.fixed:
        return found, long_form or said
    if halves := _halves(word.text, lexical):
        return {int(lexical.term_of_word[half]): COMPOUND_WEIGHT for half in halves}, said
    corrections = spelling.correct(word.text, is_word)
    if corrections:
        said = [lexical.words[corrections[0].word]]
    return {int(lexical.term_of_word[each.word]): each.closeness for each in corrections}, said


def _halves(word: str, lexical: LexicalIndex) -> tuple[int, int] | None:
    """`webpage` where the catalog says web page."""
    if not 6 <= len(word) <= 24:
        return None
    for cut in range(3, len(word) - 2):
        first, second = lexical.word_ids.get(word[:cut]), lexical.word_ids.get(word[cut:])
        if first is not None and second is not None:
            return first, second
    return None
