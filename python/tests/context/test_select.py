"""Recipes: every phase has one, with every kind in it."""

from __future__ import annotations

import pytest
from context_sessions import holdings, item

from leafgate.context.holdings import Holdings
from leafgate.context.select import (
    HALF_LIFE,
    MOST_MISSES,
    OF_ITS_CALL,
    PRESENCE,
    RECENCY,
    RECIPES,
    RELEVANCE,
    STANDING_SHARE,
    Selection,
    best_first,
    score_items,
    select,
)
from leafgate.model.context import ContextError, ContextItem, ItemKind, Phase
from leafgate.tokens.encoder import Encoder


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_weighs_every_kind_that_competes(phase: Phase) -> None:
    recipe = RECIPES[phase]
    assert set(recipe.weights) == set(ItemKind) - {ItemKind.policy}
    assert all(0 < weight <= 1 for weight in recipe.weights.values())
    assert all(0 < share <= 1 for share in recipe.shares.values())
    assert recipe.budget > 0
    assert recipe.turns > 0


def test_phases_differ_in_what_they_want() -> None:
    assert len({recipe.budget for recipe in RECIPES.values()}) == len(Phase)
    assert RECIPES[Phase.interpret].weights[ItemKind.tool_result] > RECIPES[Phase.route].weights[ItemKind.tool_result]
    assert [phase for phase, recipe in RECIPES.items() if recipe.about_result] == [Phase.interpret]
    assert [phase for phase, recipe in RECIPES.items() if recipe.bare_calls] == [Phase.route, Phase.call]


ANSWER = RECIPES[Phase.answer]


def test_relevance_and_recency_add_up(toy: Encoder) -> None:
    turns = [item(f"u{n}", "user_turn", "x") for n in range(int(HALF_LIFE) + 1)]
    relevance = [0.0] * len(turns)
    relevance[0] = 1.0
    scores = score_items(holdings(toy, turns), relevance, ANSWER)
    assert scores[0] == pytest.approx(RELEVANCE + RECENCY / 2 + PRESENCE)
    assert scores[-1] == RECENCY + PRESENCE
    assert best_first(scores)[:2] == [0, len(turns) - 1]


def test_kinds_weigh_differently_by_phase(toy: Encoder) -> None:
    held = holdings(toy, [item("r", "tool_result", "x"), item("u", "user_turn", "x")])
    for phase in Phase:
        result, turn = score_items(held, [1.0, 1.0], RECIPES[phase])
        assert (result > turn) == (phase is Phase.interpret)


def test_a_result_is_about_what_its_call_asked_for(toy: Encoder) -> None:
    calls = [item(f"c{n}", "tool_call", "x") for n in range(2)]
    results = [item(id, "tool_result", "x", call) for id, call in (("r1", "c1"), ("r0", "c0"), ("r", None))]
    scores = score_items(holdings(toy, [*calls, *results]), [1.0, 0.0, 0.0, 0.0, 0.0], ANSWER)
    assert scores[3] - scores[2] > ANSWER.weights[ItemKind.tool_result] * RELEVANCE * OF_ITS_CALL
    assert scores[4] < scores[3]
    full = score_items(holdings(toy, [*calls, *results]), [1.0, 0.0, 0.0, 1.0, 0.0], ANSWER)
    assert full.max() <= 1


def test_a_plan_that_was_replaced_counts_little(toy: Encoder) -> None:
    held = holdings(toy, [item(f"s{n}", "plan_state", f"plan {n}") for n in range(3)])
    old, older, last = score_items(held, [1.0, 1.0, 1.0], ANSWER)
    assert max(old, older) < last / 2


def test_equals_go_newest_first(toy: Encoder) -> None:
    held = holdings(toy, [item(f"u{n}", "user_turn", "x") for n in range(4000)])
    scores = score_items(held, [0.0] * 4000, ANSWER)
    assert scores[0] == scores[1]  # too old to tell apart
    order = best_first(scores)
    assert order == list(range(3999, -1, -1))


def test_nothing_has_no_scores(toy: Encoder) -> None:
    assert best_first(score_items(holdings(toy, []), [], ANSWER)) == []


def chosen(held: Holdings, budget: int, phase: Phase = Phase.answer, relevance: list[float] | None = None) -> Selection:
    recipe = RECIPES[phase]
    return select(held, score_items(held, relevance or [0.0] * len(held), recipe), recipe, budget)


def ids(held: Holdings, selection: Selection) -> list[str]:
    return [held[place].id for place in selection.places]


def spent_on_results(held: Holdings, budget: int) -> int:
    taken = [held[place] for place in chosen(held, budget, Phase.route).places]
    return sum(len(held.tokens.ids_of(each).ids) for each in taken if each.kind is ItemKind.tool_result)


def turns(count: int, words: int = 20) -> list[ContextItem]:
    return [item(f"u{n}", "user_turn", f"turn {n} " + "word " * words) for n in range(count)]


def test_policies_come_first_whatever_they_cost(qwen: Encoder) -> None:
    held = holdings(qwen, [*turns(3), item("p", "policy", "rule " * 500)])
    selection = chosen(held, 50)
    assert ids(held, selection) == ["p"]
    assert selection.groups[0].needed
    assert selection.cheaper_by(1, "x") is None


def test_a_policy_without_tokenization_is_an_error(toy: Encoder) -> None:
    with pytest.raises(ContextError, match="'p'"):
        chosen(holdings(toy, [item("p", "policy", "\ud800")]), 50)


def test_a_policy_brings_what_it_needs(qwen: Encoder) -> None:
    held = holdings(qwen, [item("d", "doc_snippet", "the appendix"), item("p", "policy", "see the appendix", "d")])
    assert ids(held, chosen(held, 1)) == ["d", "p"]


def test_facts_of_the_prefix_are_the_oldest_whatever_the_query(qwen: Encoder) -> None:
    facts = [item(f"f{n}", "memory_fact", f"fact {n}: " + "word " * 20) for n in range(20)]
    held = holdings(qwen, [*facts, *turns(5)])
    first, second = chosen(held, 1000), chosen(held, 1000, relevance=[0.0] * 19 + [1.0] + [0.0] * 5)
    assert first.standing == second.standing == {0, 1, 2}
    assert 3 * len(held.tokens.ids_of(held[0]).ids) < STANDING_SHARE * 1000
    assert second.reasons[19] == "relevant or recent"
    later = holdings(qwen, [*facts[:2], *turns(5)])
    assert chosen(later, 1000).standing == {0, 1}


def test_the_last_turns_are_taken_before_what_is_relevant(qwen: Encoder) -> None:
    talk = [
        each for n in range(6) for each in (item(f"u{n}", "user_turn", f"q{n}"), item(f"a{n}", "agent_msg", f"w{n}"))
    ]
    results = [item("c", "tool_call", "f()"), item("r", "tool_result", "word " * 250, "c")]
    held = holdings(qwen, [*results, *talk])
    selection = chosen(held, 300, relevance=[1.0, 1.0] + [0.0] * 12)
    reasons = {held[place].id: reason for place, reason in selection.reasons.items()}
    assert reasons["u5"] == "last turn"
    assert [reasons[f"{who}{n}"] for n in range(2, 5) for who in "ua"] == ["recent turn, verbatim"] * 6
    assert reasons["r"].startswith("does not fit: ")


def test_interpreting_starts_with_the_newest_result(qwen: Encoder) -> None:
    held = holdings(
        qwen, [item("c", "tool_call", "f()"), item("r", "tool_result", "word " * 60, "c"), *turns(4, words=40)]
    )
    assert ids(held, chosen(held, 80, Phase.interpret)) == ["c", "r"]
    assert "r" not in ids(held, chosen(held, 80, Phase.answer))


def exchange(name: str, words: int, parent: str | None = None) -> list[ContextItem]:
    call = item(f"c{name}", "tool_call", f"find({name})", parent)
    return [call, item(f"r{name}", "tool_result", f"{name} " * words, call.id)]


@pytest.mark.parametrize("phase", Phase)
def test_the_newest_result_is_in_whatever_the_query(qwen: Encoder, phase: Phase) -> None:
    older = [each for n in range(20) for each in exchange(str(n), 20)]
    held = holdings(qwen, [*older, item("u", "user_turn", "go on"), *exchange("last", 20, "u")])
    relevant = [1.0] * len(older) + [0.0] * 3
    selection = chosen(held, 400, phase, relevant)
    assert selection.reasons[len(held) - 1] == "newest result"
    assert {"u", "clast", "rlast"} <= set(ids(held, selection))


def test_the_newest_result_does_not_take_the_last_turns_place(qwen: Encoder) -> None:
    held = holdings(qwen, [*exchange("x", 60), item("u", "user_turn", "word " * 60)])
    assert ids(held, chosen(held, 80, Phase.answer)) == ["u"]


@pytest.mark.parametrize("phase", Phase)
def test_a_call_that_was_answered_comes_with_its_result_where_the_phase_is_about_results(
    qwen: Encoder, phase: Phase
) -> None:
    answered = [each for n in range(30) for each in exchange(str(n), 80)]
    held = holdings(qwen, [*answered, item("open", "tool_call", "wait()")])
    selection = chosen(held, 600, phase)
    taken = ids(held, selection)
    bare = [each for each in taken if each.startswith("c") and f"r{each[1:]}" not in taken]
    assert bool(bare) == RECIPES[phase].bare_calls
    assert "open" in taken
    if not bare:
        assert selection.reasons[0] == "its result was not taken"


def test_a_kind_has_its_share_and_then_what_nobody_wants(qwen: Encoder) -> None:
    results = [
        each
        for n in range(12)
        for each in (item(f"c{n}", "tool_call", f"f({n})"), item(f"r{n}", "tool_result", f"{n} " * 40, f"c{n}"))
    ]
    documents = [item(f"d{n}", "doc_snippet", f"{n} words " * 20) for n in range(12)]
    spent = spent_on_results(holdings(qwen, [*documents, *results]), 1000)
    spent_alone = spent_on_results(holdings(qwen, results), 1000)
    assert 0 < spent < spent_alone
    assert spent_alone > 0.5 * 1000


def test_what_needs_a_missing_call_is_left_and_says_so(qwen: Encoder) -> None:
    held = holdings(qwen, [item("r", "tool_result", "x", "gone"), item("c", "tool_call", "y", "lost")])
    selection = chosen(held, 500)
    assert selection.places == []
    assert selection.reasons == {
        0: "needs gone, which is not in the session",
        1: "needs lost, which is not in the session",
    }


def test_what_does_not_fit_is_named(qwen: Encoder) -> None:
    held = holdings(
        qwen,
        [
            item("u", "user_turn", "word " * 300),
            item("c", "tool_call", "f()", "u"),
            item("small", "user_turn", "yes"),
            item("huge", "doc_snippet", "x" * 1_000_000),
            item("odd", "doc_snippet", "\ud800"),
        ],
    )
    reasons = chosen(held, 100).reasons
    assert reasons[0] == "does not fit: more than the 96 tokens left"
    held.tokens.ids_of(held[0])
    assert chosen(held, 100).reasons == reasons  # whatever an earlier pack has counted
    assert chosen(held, 290).reasons[0] == "does not fit: more than the 286 tokens left"
    assert reasons[1].startswith("u, which it needs: does not fit")
    assert reasons[2] == "last turn"
    assert reasons[3].startswith("does not fit: ")
    assert held.tokens.count_if_tokenized(held[3]) is None  # a megabyte is not tokenized just to be left out
    assert reasons[4].startswith("cannot be tokenized")


def test_the_same_is_said_once(qwen: Encoder) -> None:
    held = holdings(qwen, [item("d1", "doc_snippet", "the same"), item("d2", "doc_snippet", "the same")])
    assert ids(held, chosen(held, 500)) == ["d2"]


def test_candidates_beyond_what_fits_are_not_tokenized(qwen: Encoder) -> None:
    held = holdings(qwen, [item(f"d{n}", "doc_snippet", f"{n} " + "word " * 50) for n in range(1000)])
    chosen(held, 300)
    assert sum(held.tokens.count_if_tokenized(held[place]) is not None for place in range(1000)) < 3 * MOST_MISSES


def test_groups_leave_in_the_reverse_order(qwen: Encoder) -> None:
    held = holdings(qwen, [item("p", "policy", "rule"), *turns(3)])
    selection: Selection | None = chosen(held, 500)
    seen = []
    while selection is not None:
        seen.append(ids(held, selection))
        selection = selection.cheaper_by(1, "too much")
    assert seen == [["p", "u0", "u1", "u2"], ["p", "u1", "u2"], ["p", "u2"], ["p"]]


def test_as_many_groups_leave_as_the_excess_takes(qwen: Encoder) -> None:
    held = holdings(qwen, [item("p", "policy", "rule"), *turns(5)])
    selection = chosen(held, 500)
    cost = selection.groups[-1].cost
    smaller = selection.cheaper_by(cost + 1, "too much")
    assert smaller is not None
    assert ids(held, smaller) == ["p", "u2", "u3", "u4"]
    assert {smaller.reasons[place] for place in (1, 2)} == {"too much"}
    everything = selection.cheaper_by(10_000, "too much")
    assert everything is not None
    assert ids(held, everything) == ["p"]


def test_a_long_turn_of_many_messages_is_not_tokenized_to_its_end(qwen: Encoder) -> None:
    held = holdings(
        qwen, [item("u", "user_turn", "go"), *(item(f"a{n}", "agent_msg", f"{n} " * 30) for n in range(1000))]
    )
    chosen(held, 200)
    assert sum(held.tokens.count_if_tokenized(each) is not None for each in held) < 3 * MOST_MISSES
