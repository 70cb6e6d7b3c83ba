"""Repeats: what says nothing new is known, and points to what is kept."""

from __future__ import annotations

from context_sessions import holdings, item

from leafgate.context.repeats import Repeats
from leafgate.model.context import ContextItem
from leafgate.tokens.encoder import Encoder


def kept(encoder: Encoder, *items: ContextItem) -> list[int | None]:
    held = holdings(encoder, items)
    return [held.duplicate_of(place) for place in range(len(items))]


def test_of_the_same_results_of_the_same_call_the_last_is_kept(toy: Encoder) -> None:
    asked = [("c1", "find(x)"), ("c2", "find(x)"), ("c3", "find(x)"), ("c4", "find(y)")]
    items = [
        each
        for call, text in asked
        for each in (item(call, "tool_call", text), item(f"r{call}", "tool_result", "nothing", call))
    ]
    assert kept(toy, *items) == [4, 5, 4, 5, None, None, None, None]


def test_of_the_same_facts_the_first_is_kept_of_documents_and_plans_the_last(toy: Encoder) -> None:
    assert kept(toy, *(item(f"f{n}", "memory_fact", "yes") for n in range(3))) == [None, 0, 0]
    assert kept(toy, *(item(f"d{n}", "doc_snippet", "yes") for n in range(3))) == [2, 2, None]
    assert kept(toy, *(item(f"s{n}", "plan_state", "yes") for n in range(3))) == [2, 2, None]


def test_turns_policies_and_calls_alone_are_all_kept(toy: Encoder) -> None:
    for kind in ("user_turn", "agent_msg", "policy", "tool_call"):
        assert kept(toy, item("a", kind, "yes"), item("b", kind, "yes")) == [None, None]


def test_the_same_text_of_another_kind_is_another(toy: Encoder) -> None:
    assert kept(toy, item("a", "doc_snippet", "yes"), item("b", "plan_state", "yes")) == [None, None]


def test_calls_that_share_results_do_not_point_at_each_other(toy: Encoder) -> None:
    found = kept(
        toy,
        item("c1", "tool_call", "f()"),
        item("r1", "tool_result", "x", "c1"),
        item("c2", "tool_call", "f()"),
        item("r2", "tool_result", "x", "c2"),
        item("r3", "tool_result", "x", "c1"),
        item("r4", "tool_result", "x", "c2"),
    )
    assert found == [2, 5, None, 5, 5, None]


def test_results_without_a_call_are_the_same_by_their_text(toy: Encoder) -> None:
    assert kept(toy, item("a", "tool_result", "x"), item("b", "tool_result", "x")) == [1, None]


def test_results_that_come_before_their_calls_are_not_taken_for_each_other(toy: Encoder) -> None:
    results = [item("r1", "tool_result", "done", "c1"), item("r2", "tool_result", "done", "c2")]
    calls = [item("c1", "tool_call", "delete('a')"), item("c2", "tool_call", "delete('b')")]
    assert kept(toy, *results, *calls) == [None, None, None, None]


def test_what_is_said_very_often_is_found_in_a_few_steps() -> None:
    """Of n steps for each of n questions, this would never end."""
    repeats, many = Repeats(), 200_000
    for place in range(many):
        repeats.hear(place, item("d", "doc_snippet", "the same"), None, None)
    assert {repeats.kept_for(place) for place in range(many - 1)} == {many - 1}
    assert repeats.kept_for(many - 1) is None
