"""Splits text into words and words into stems. In: text. Out: lower-case words, stems. May touch: nothing.

Index and query go through the same functions, so that whatever one side calls a word, the other does too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import Stemmer  # type: ignore[import-not-found]  # compiled, and without types

MAX_WORD: Final = 40  # longer runs are encoded data, not words

_RUN: Final = re.compile(r"[^\W_]+")
_PIECES: Final = re.compile(r"[^\W\d_]+|\d+")
_HUMPS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_STEMMER: Final = Stemmer.Stemmer("english", 0)  # without a cache: `stem` has one


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The Snowball English stem; a number, or a word of another script, is its own stem."""
    if len(word) < 3 or not word.isascii() or word.isdigit():
        return word
    stemmed: str = _STEMMER.stemWord(word)
    return stemmed


@lru_cache(maxsize=1 << 16)
def identifier_run(run: str) -> tuple[str, ...]:
    """`getFileContents` -> getfilecontents, get, file, contents; `base64` -> base64, base, 64."""
    if len(run) > MAX_WORD:
        return ()
    whole = run.lower()
    parts = [hump.lower() for piece in _PIECES.findall(run) for hump in _humps(piece)]
    return (whole,) if len(parts) < 2 else (whole, *parts)


@lru_cache(maxsize=1 << 16)
def prose_run(run: str) -> tuple[str, ...]:
    """In prose `GitHub` is one word (it is no kind of git), while `pageId` is still two."""
    if len(run) > MAX_WORD:
        return ()
    if run.islower() or run.isdigit() or run.isupper() or run[0].isupper():
        return (run.lower(),)
    return identifier_run(run)


@lru_cache(maxsize=1 << 16)
def _unnumbered(run: str) -> tuple[str, ...]:
    return () if run.isdigit() else prose_run(run)


def identifier_words(text: str) -> list[str]:
    """The words of a name: split at separators, at case and at digits."""
    return [word for run in _RUN.findall(text) for word in identifier_run(run)]


def prose_words(text: str) -> list[str]:
    """The words of a sentence. Bare numbers are left out: they are sizes and defaults, and match any argument."""
    return [word for run in _RUN.findall(text) for word in _unnumbered(run)]


def all_words(text: str) -> list[str]:
    """The words of a sentence, and its numbers: an invoice is known by its own."""
    return [word for run in _RUN.findall(text) for word in prose_run(run)]


def _humps(piece: str) -> list[str]:
    if piece.islower() or piece.isupper() or piece.isdigit() or not piece.isascii():
        return [piece]
    return _HUMPS.findall(piece)
