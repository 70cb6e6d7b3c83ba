"""How large a text is, and when that is an estimate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hostile_texts import CSV, LOG, PROSE, RECORDS
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.digest.size import (
    EXACT_CHARS,
    Size,
    count_lines,
    cut_line,
    head_of,
    most,
    tail_of,
    total,
    weigh,
    weigh_exactly,
)
from leafgate.model.errors import TextError


@pytest.mark.parametrize(
    ("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2), ("a\r\nb\u2028c", 2)]
)
def test_lines_end_with_a_line_feed(text: str, lines: int) -> None:
    assert count_lines(text) == lines


def test_small_texts_are_counted(count: Callable[[str], int]) -> None:
    assert weigh("hällo wörld\n", count, 800) == Size(14, 1, count("hällo wörld\n"))


@pytest.mark.parametrize("text", [LOG, CSV * 4, PROSE * 3, RECORDS])
def test_large_texts_are_estimated_well(text: str, count: Callable[[str], int]) -> None:
    assert len(text) > EXACT_CHARS
    found = weigh(text, count, 800)
    assert found.estimated
    assert abs(found.tokens - count(text)) < 0.12 * count(text)
    assert weigh_exactly(text, count).tokens == count(text)
    assert "about" in str(found)


def test_the_decision_is_not_an_estimate(count: Callable[[str], int]) -> None:
    blanks = " " * 60_000
    assert count(blanks) < 800
    assert weigh(blanks, count, 800).tokens <= 800


def test_a_huge_text_is_weighed_by_a_few_kilobytes() -> None:
    seen = 0

    def count(text: str) -> int:
        nonlocal seen
        seen += len(text)
        return len(text) // 4

    weigh("word " * 20_000_000, count, 800)
    assert seen < 20_000


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 500))
def test_most_finds_the_border(border: int, upper: int, first: int) -> None:
    assert most(lambda n: n <= border, upper, first) == min(border, upper)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=400), st.integers(0, 60))
def test_heads_and_tails_fit_and_belong(text: str, room: int) -> None:
    def count(part: str) -> int:
        return len(part.encode("utf-8", "replace")) // 3 + 1

    head, tail = head_of(text, count, room), tail_of(text, count, room)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert not head or count(head) <= room
    assert not tail or count(tail) <= room


def test_sentences_are_not_cut(count: Callable[[str], int]) -> None:
    text = "One is here. Two is there! Is three? Four and more words follow here."
    assert head_of(text, count, 12) == "One is here. Two is there! Is three?"
    assert tail_of(text, count, 9).lstrip() == "Four and more words follow here."


def test_a_line_is_cut_visibly() -> None:
    assert cut_line("abc", 3) == "abc"
    assert cut_line("abcd", 3) == "ab…"


def test_a_text_without_tokens_counts_as_its_bytes() -> None:
    def refuse(text: str) -> int:
        raise TextError("no")

    assert total(refuse)("äb") == 3
