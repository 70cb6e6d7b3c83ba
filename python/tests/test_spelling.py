"""Correcting words: near ones are found, known and short ones are left alone."""

import numpy as np
import pytest

from leafgate.browse.spelling import build_spelling, edits

WORDS = ("branch", "branches", "channel", "chart", "file", "papers", "search", "status", "form", "slack")
SPELLING = build_spelling(WORDS, np.ones(len(WORDS), np.float32))


def corrected(word: str, known: tuple[str, ...] = ()) -> list[str]:
    return [WORDS[each.word] for each in SPELLING.correct(word, known.__contains__)]


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("brnaches", "branches"), ("chanel", "channel"), ("papres", "papers"), ("serach", "search"), ("sttaus", "status"),
     ("slak", "slack"), ("flie", "file")],
)  # fmt: skip
def test_near_words_are_found(typo: str, meant: str) -> None:
    assert corrected(typo)[0] == meant


@pytest.mark.parametrize("word", ["cat", "zzzzzz", "", "héllo", "x" * 60, "se4rch"])
def test_nothing_near_short_or_odd_is_left(word: str) -> None:
    assert corrected(word) == []


def test_a_known_word_is_left_to_meaning() -> None:
    assert corrected("farm") == ["form"]
    assert corrected("farm", known=("farm",)) == []


@pytest.mark.parametrize(("a", "b", "count"), [("a", "a", 0), ("ab", "ba", 1), ("abc", "abd", 1), ("abc", "xyz", 3)])
def test_edits(a: str, b: str, count: int) -> None:
    assert edits(a, b, 2) == count


def test_an_empty_vocabulary_corrects_nothing() -> None:
    assert build_spelling((), np.zeros(0, np.float32)).correct("search", lambda _: False) == []
