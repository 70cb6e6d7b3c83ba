"""Closures: all that an item needs, and an end to every circle."""

from __future__ import annotations

from context_sessions import holdings, item

from leafgate.context.closure import closure_of
from leafgate.tokens.encoder import Encoder


def test_a_result_brings_its_call_and_its_turn(toy: Encoder) -> None:
    held = holdings(
        toy,
        [
            item("u0", "user_turn", "before"),
            item("u1", "user_turn", "x", "u0"),
            item("c1", "tool_call", "f()", "u1"),
            item("r1", "tool_result", "y", "c1"),
        ],
    )
    assert closure_of(held, 3, (), 9).places == (3, 2, 1)  # a turn stands for itself
    assert closure_of(held, 3, (1, 2), 9).places == (3,)
    assert closure_of(held, 3, (), 0).places == (3,)
    assert closure_of(held, 1, (), 9).places == (1,)


def test_circles_end(toy: Encoder) -> None:
    held = holdings(
        toy, [item("a", "tool_call", "x", "b"), item("b", "tool_result", "y", "a"), item("c", "doc_snippet", "z", "c")]
    )
    assert closure_of(held, 0, (), 9).places == (0, 1)
    assert closure_of(held, 1, (), 9).places == (1, 0)
    assert closure_of(held, 2, (), 9).places == (2,)


def test_a_missing_parent_forbids_calls_and_results_only(toy: Encoder) -> None:
    held = holdings(
        toy,
        [
            item("r", "tool_result", "x", "gone"),
            item("c", "tool_call", "x", "lost"),
            item("r2", "tool_result", "x", "c"),
            item("d", "doc_snippet", "x", "gone"),
            item("a", "agent_msg", "x", "gone"),
        ],
    )
    assert [closure_of(held, place, (), 9).lacks for place in range(5)] == ["gone", "lost", "lost", None, None]


def test_a_very_long_chain_is_followed_without_recursion(toy: Encoder) -> None:
    chain = [item(f"d{n}", "doc_snippet", "x", f"d{n - 1}" if n else None) for n in range(20_000)]
    held = holdings(toy, chain)
    assert len(closure_of(held, 19_999, (), 30_000).places) == 20_000
    assert len(closure_of(held, 19_999, (), 100).places) == 101
