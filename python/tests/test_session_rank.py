"""Ranking a session's texts: by words and meaning, as tools are ranked, and the same when texts come one by one."""

from __future__ import annotations

import numpy as np
import pytest

from leafgate.embed.session_rank import MOST_COMPARED, SessionRanker

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
