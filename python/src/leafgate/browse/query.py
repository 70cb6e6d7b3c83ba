"""Queries: split the text of a user or model into words, and translate them into the words of a catalog.

This module decides what may be corrected: never a path, a URL, an id or anything in quotes, because those are
arguments. Other words that are neither in the catalog nor English are corrected; compounds are joined and split, and
short forms are spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from leafgate.browse.lexical import LexicalIndex
from leafgate.browse.words import SpellingIndex, identifier_run, prose_run, stem
from leafgate.data import load_table

MAX_CHARACTERS: Final = 4_000  # of a longer query only the beginning is read
MAX_WORDS: Final = 64
FIXED_WEIGHT: Final = 0.5
COMPOUND_WEIGHT: Final = 0.9
SHORT_FORM_WEIGHT: Final = 0.8
_ENDINGS: Final = ("s", "es", "ed", "d", "ing", "ly", "er", "r")

_CHUNK: Final = re.compile(
    r"""
      `(?P<code>[^`\n]{1,200})`
    | "(?P<double>[^"\n]{1,200})"
    | (?<!\w)'(?P<single>[^'\n]{1,200})'(?!\w)
    | (?P<bare>[^\s"`]+)
    | (?P<odd>["`])
    """,
    re.VERBOSE,
)
_URL: Final = re.compile(r"\w{2,8}://\S|www\.\w")
_FILE: Final = re.compile(r"^(?:\S*/)?[\w.\-]*\w\.(?P<extension>[A-Za-z][A-Za-z0-9]{1,4})$")
_DOMAINS: Final = frozenset(("com", "org", "net", "io", "dev"))
_RUN: Final = re.compile(r"[^\W_]+")
_EDGES: Final = " \t\r\n.,;:!?()[]{}<>\"'`"

_TABLE: Final = load_table("query_words", {"stop_words": str, "short_forms": dict})
STOP_WORDS: Final[frozenset[str]] = frozenset(_TABLE["stop_words"].split())
SHORT_FORMS: Final[dict[str, str]] = _TABLE["short_forms"]


@dataclass(frozen=True)
class QueryWord:
    """One word. A `fixed` word stands in a path, URL, id or quotation: it is an argument and never corrected.

    Arguments say little about a tool, and numbers nothing. A search in texts may look for arguments: there, with
    `in_text`, they count fully.
    """

    text: str
    fixed: bool = False
    in_text: bool = False

    @property
    def is_significant(self) -> bool:
        """Does the word say anything about what the query looks for?"""
        return not (self.text in STOP_WORDS or (self.text.isdigit() and not self.in_text))

    @property
    def weight(self) -> float:
        return FIXED_WEIGHT if self.fixed and not self.in_text else 1.0


@dataclass(frozen=True)
class Query:
    text: str
    words: tuple[QueryWord, ...]
    mentions: tuple[str, ...]  # the words unchanged, for exact names and ids
    quoted: tuple[str, ...]


def parse_query(text: str) -> Query:
    """Parse a query for tools."""
    text = text[:MAX_CHARACTERS]
    words: list[QueryWord] = []
    mentions: list[str] = []
    quoted: list[str] = []
    for chunk in _CHUNK.finditer(text):
        kind, value = str(chunk.lastgroup), chunk.group(chunk.lastgroup or 0)
        if kind in ("code", "double", "single"):
            quoted.append(value.strip())
            words += [QueryWord(word, fixed=True) for word in _words(value)]
        elif kind == "bare" and (bare := value.strip(_EDGES)):
            mentions.append(bare)
            words += _bare_words(bare)
    return Query(text, tuple(dict.fromkeys(words))[:MAX_WORDS], tuple(mentions[:MAX_WORDS]), tuple(quoted))


def parse_search(text: str) -> Query:
    """Parse a query for texts rather than tools: paths, URLs and numbers are words like any other."""
    text = text[:MAX_CHARACTERS]
    words = [
        QueryWord(word, fixed=any(map(str.isdigit, word)) or "_" in chunk, in_text=True)
        for chunk in text.split()
        for word in _words(chunk)
    ]
    return Query(text, tuple(dict.fromkeys(words))[:MAX_WORDS], (), ())


def _bare_words(bare: str) -> list[QueryWord]:
    """Return the words of a chunk. A URL counts as the word url, a file as the word file, its name and extension."""
    file = _FILE.match(bare)
    extension = file["extension"].lower() if file else ""
    if _URL.search(bare) or extension in _DOMAINS:
        return [QueryWord("url", fixed=True)]
    if file or bare.startswith(("/", "./", "../", "~/")) or bare.count("/") > 1:
        parts = _words(bare[: file.start("extension")] if file else bare)
        return [QueryWord(word, fixed=True) for word in ("file", *parts, extension) if word]
    fixed = any(c.isdigit() for c in bare) or "_" in bare or "::" in bare or bare.startswith(("#", "@", "-"))
    return [QueryWord(word, fixed) for word in _words(bare)]


def _words(text: str) -> list[str]:
    split = identifier_run if "_" in text else prose_run
    return [word for run in _RUN.findall(text) for word in split(run)]


# Translation into the words of a catalog


@dataclass(frozen=True)
class Reading:
    """A query in the words of a catalog."""

    terms: dict[int, float]
    perfect_score: float  # the score of a perfect match, by which every item is measured
    covered_score: float  # the part of it for which the catalog has a word
    text: str  # corrected and spelled out, for comparing meaning


def read_query(query: Query, lexical: LexicalIndex, spelling: SpellingIndex, is_word: Callable[[str], bool]) -> Reading:
    """Translate a query into weighted terms of the catalog."""
    terms: dict[int, float] = {}
    text: list[str] = []
    perfect_score = covered_score = 0.0
    before = ""
    for word in query.words:
        matches, spelling_out = _match(word, lexical, spelling, is_word)
        text += spelling_out
        if not word.is_significant:
            continue
        compound = lexical.word_ids.get(before + word.text) if before and not word.fixed else None
        if compound is not None:
            matches = {**matches, int(lexical.term_of_word[compound]): 1.0}
        before = "" if word.fixed else word.text
        for term, weight in matches.items():
            terms[term] = max(terms.get(term, 0.0), weight)
        rarest = max((float(lexical.rarity[term]) for term in matches), default=lexical.rarest)
        perfect_score += word.weight * rarest
        covered_score += word.weight * rarest if matches else 0.0
    return Reading(terms, perfect_score, covered_score, " ".join(text))


def make_word_test(in_dictionary: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a test whether a word, with or without its ending, is in the dictionary."""

    def is_word(word: str) -> bool:
        if in_dictionary(word):
            return True
        for ending in _ENDINGS:
            bare = word.removesuffix(ending)
            if bare != word and len(bare) > 2 and any(map(in_dictionary, _base_forms(bare))):
                return True
        return False

    return is_word


def _base_forms(bare: str) -> Iterator[str]:
    """Yield the words that `bare`, without its ending, may come from: `filter`, `bak` -> `bake`, `stopp` -> `stop`."""
    yield bare
    yield bare + "e"
    if bare[-1] == bare[-2]:
        yield bare[:-1]


def _match(
    word: QueryWord, lexical: LexicalIndex, spelling: SpellingIndex, is_word: Callable[[str], bool]
) -> tuple[dict[int, float], list[str]]:
    """Return the catalog's terms for one word, and its words for comparing meaning."""
    if not word.is_significant:
        return {}, [word.text]
    terms: dict[int, float] = {}
    text = [word.text]
    long_form = SHORT_FORMS.get(word.text, "").split()
    for part in long_form:
        if (term := lexical.term_ids.get(stem(part))) is not None:
            terms[term] = SHORT_FORM_WEIGHT * word.weight
    if (term := lexical.term_ids.get(stem(word.text))) is not None:
        terms[term] = word.weight
    if terms or long_form or word.fixed:
        return terms, long_form or text
    if halves := _halves(word.text, lexical):
        return {int(lexical.term_of_word[half]): COMPOUND_WEIGHT for half in halves}, text
    corrections = spelling.correct(word.text, is_word)
    if corrections:
        text = [lexical.words[corrections[0].word]]
    return {int(lexical.term_of_word[each.word]): each.closeness for each in corrections}, text


def _halves(word: str, lexical: LexicalIndex) -> tuple[int, int] | None:
    """Split a compound that the catalog writes as two words: `webpage` as web page."""
    if not 6 <= len(word) <= 24:
        return None
    for cut in range(3, len(word) - 2):
        first, second = lexical.word_ids.get(word[:cut]), lexical.word_ids.get(word[cut:])
        if first is not None and second is not None:
            return first, second
    return None
