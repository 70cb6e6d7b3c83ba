"""How large a text is, and when that is an estimate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hostile_texts import CSV, LOG, PROSE, RECORDS

from leafgate.firewall.size import EXACT_CHARS, Size, count_lines, weigh, weigh_exactly


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
