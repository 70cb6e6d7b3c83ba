"""The words of a session: counted as browse reads them, however the texts come."""

from __future__ import annotations

from collections import Counter

import numpy as np
from context_sessions import NASTY
from hypothesis import given
from hypothesis import strategies as st

from leafgate.browse.lexical import Entries
from leafgate.browse.words import all_words
from leafgate.embed.session_words import SessionWords, pieces_of

texts = st.lists(
    st.sampled_from(NASTY) | st.sampled_from(("pageId", "GitHub", "base64", "a1b2", "\x1c", "\x85", "ÄÖ")) | st.text(),
    max_size=12,
).map("".join)


def counted(words: SessionWords) -> list[Counter[str]]:
    entries: Entries = words.entries()
    named = words.words
    return [
        Counter({named[entries.word[at]]: int(entries.count[at]) for at in range(start, end)})
        for start, end in zip(entries.bounds.tolist(), entries.bounds[1:].tolist(), strict=False)
    ]


@given(texts)
def test_no_word_begins_in_one_piece_and_ends_in_another(text: str) -> None:
    pieces = [piece.decode("utf-8", "surrogatepass") for piece in pieces_of(text)]
    assert [word for piece in pieces for word in all_words(piece)] == all_words(text)


@given(st.lists(texts, max_size=6), st.lists(texts, max_size=3))
def test_words_are_counted_whenever_texts_come(first: list[str], then: list[str]) -> None:
    words = SessionWords()
    for place, text in enumerate(first):
        words.put(place, text)
    assert counted(words) == [Counter(all_words(text)) for text in first]
    for place, text in enumerate(then, len(first)):
        words.put(place, text)
    assert counted(words) == [Counter(all_words(text)) for text in (*first, *then)]
    assert words.words == list(dict.fromkeys(word for text in (*first, *then) for word in all_words(text)))


def test_a_place_may_get_another_text_before_and_after_counting() -> None:
    words = SessionWords()
    words.put(0, "one")
    words.put(1, "two")
    words.put(0, "three three")
    assert counted(words) == [Counter(three=2), Counter(two=1)]
    words.put(1, "four")
    assert counted(words) == [Counter(three=2), Counter(four=1)]


def test_counts_have_an_end() -> None:
    words = SessionWords()
    words.put(0, "again " * 1000)
    assert words.entries().count.tolist() == [255]


def test_nothing_has_no_words() -> None:
    assert words_and_bounds(SessionWords()) == ([], [0])


def words_and_bounds(words: SessionWords) -> tuple[list[str], list[int]]:
    entries = words.entries()
    assert entries.word.dtype == np.int32
    return words.words, entries.bounds.tolist()
