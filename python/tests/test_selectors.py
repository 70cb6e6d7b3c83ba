from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.firewall.selectors import apply_selector
from leafgate.model.errors import GatewayError

TEXT = "\n".join(f"line {n}" for n in range(1, 101))


def words(text: str) -> int:
    return len(text.split())


def view(selector: object, text: str = TEXT, budget: int = 400) -> Any:
    return apply_selector(selector, text, words, budget)


def test_lines_are_counted_from_one_and_both_ends_belong() -> None:
    found = view({"type": "lines", "start": 3, "end": 5})
    assert found.text.splitlines() == ["line 3", "line 4", "line 5"]
    assert found.shown == "lines 3 to 5 of 100"
    assert found.next == {"type": "lines", "start": 6, "end": 8}


def test_head_and_tail() -> None:
    assert view({"type": "head", "lines": 2}).text == "line 1\nline 2"
    assert view({"type": "tail", "lines": 2}).text == "line 99\nline 100"
    assert view({"type": "tail", "lines": 2}).next is None


def test_the_budget_cuts_and_next_goes_on_until_everything_was_read() -> None:
    seen: list[str] = []
    selector: Any = {"type": "lines", "start": 1, "end": 100}
    for _ in range(100):
        found = view(selector, budget=30)
        seen += found.text.splitlines()
        if found.next is None:
            break
        selector = found.next
    assert seen == TEXT.splitlines()


def test_one_line_that_is_too_long_is_cut_not_lost() -> None:
    found = apply_selector({"type": "head"}, "x" * 10_000, len, 100)
    assert found.text.startswith("xxx")
    assert len(found.text) <= 101


def test_search_finds_with_context_and_goes_on() -> None:
    found = view({"type": "search", "text": "LINE 5", "context": 1}, budget=1000)
    assert "4: line 4" in found.text
    assert "11 hits" in found.shown
    first = view({"type": "search", "text": "line"}, budget=40)
    assert first.next["start"] > 1


def test_stats_tell_the_size() -> None:
    assert view({"type": "stats"}).text == f"100 lines, {len(TEXT)} bytes, 200 tokens"


@pytest.mark.parametrize(
    "selector",
    [
        None,
        "head",
        [],
        {},
        {"type": "everything"},
        {"type": ["head"]},
        {"type": "lines", "start": 0},
        {"type": "lines", "start": -1, "end": 2},
        {"type": "lines", "start": 5, "end": 4},
        {"type": "lines", "start": "1", "end": 2},
        {"type": "lines", "start": True, "end": 2},
        {"type": "lines", "start": 101, "end": 102},
        {"type": "head", "lines": 1.5},
        {"type": "search"},
        {"type": "search", "text": ""},
        {"type": "search", "text": "x", "context": -1},
    ],
)
def test_whatever_a_selector_is_the_answer_is_typed(selector: object) -> None:
    with pytest.raises(GatewayError) as raised:
        view(selector)
    assert raised.value.code == "VIEW_FAILED"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
selectors = json_values | st.fixed_dictionaries(
    {"type": st.sampled_from(["head", "tail", "lines", "search", "stats"])},
    optional={
        "start": json_values,
        "end": json_values,
        "lines": json_values,
        "text": json_values,
        "context": json_values,
    },
)


@settings(max_examples=300, deadline=None)
@given(selectors, st.text(max_size=500), st.integers(20, 200))
def test_no_selector_crashes(selector: object, text: str, budget: int) -> None:
    counter: Callable[[str], int] = len
    try:
        found = apply_selector(selector, text, counter, budget)
    except GatewayError as error:
        assert error.code == "VIEW_FAILED"
    else:
        assert isinstance(found.text, str)
