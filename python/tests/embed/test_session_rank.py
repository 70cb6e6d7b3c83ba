"""The words of a session: counted as browse reads them, however the texts come."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from context_sessions import NASTY
from hypothesis import given
from hypothesis import strategies as st

from leafgate.browse.lexical import Entries
from leafgate.browse.words import all_words
from leafgate.embed.session_rank import MOST_COMPARED, SessionRanker, SessionWords, pieces_of

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


TEXTS = (
    "The invoice INV-104 is overdue since October",
    "Weather in Lisbon: sunny, 24 degrees",
    "Meeting notes about the garden and its roses",
    "A bill that was not paid in time",
)


def ranker(*texts: str) -> SessionRanker:
    made = SessionRanker()
    for place, text in enumerate(texts):
        made.put(place, text)
    return made


def test_words_and_meaning_count() -> None:
    relevance = ranker(*TEXTS).relevance("overdue invoices")
    assert np.argmax(relevance) == 0
    assert relevance[3] > max(relevance[1], relevance[2])
    assert relevance.min() >= 0
    assert relevance.max() <= 1


def test_a_misspelt_word_is_understood() -> None:
    assert np.argmax(ranker(*TEXTS).relevance("wether in lisbon")) == 1


@pytest.mark.parametrize("query", ["what of INV-104?", "104", "invoice 104", "/out/104.csv", "https://example.org/104"])
def test_numbers_paths_and_urls_are_words(query: str) -> None:
    others = (f"The invoice INV-{n} is overdue since October" for n in range(200, 260))
    assert np.argmax(ranker(*others, *TEXTS).relevance(query)) == 60


def test_without_a_question_nothing_is_relevant() -> None:
    for query in ("", "   ", "the of and", "…"):
        assert not ranker(*TEXTS).relevance(query).any()
    assert len(SessionRanker().relevance("x")) == 0


def test_texts_that_come_later_and_texts_that_are_replaced_count() -> None:
    made = ranker(*TEXTS)
    made.relevance("roses")
    made.put(4, "roses, roses, roses")
    assert np.argmax(made.relevance("roses")) == 4
    made.put(4, "nothing of that kind")
    assert np.argmax(made.relevance("roses")) == 2
    assert made.relevance("roses").tolist() == ranker(*TEXTS, "nothing of that kind").relevance("roses").tolist()


def test_texts_without_words_are_no_trouble() -> None:
    assert not ranker("", "....", "12345").relevance("invoice").any()


def test_a_long_session_finds_its_old_texts_by_words() -> None:
    many = ranker("the one about zeppelins", *(f"talk {n} about bread and butter" for n in range(2 * MOST_COMPARED)))
    assert np.argmax(many.relevance("zeppelin")) == 0
