"""Cutting to tokens: what is kept fits, and ends where it reads well."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.firewall.fit import cut_line, head_of, most, tail_of, total
from leafgate.model.errors import TextError


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
