"""Scores: relevance, age and kind, each on its own."""

from __future__ import annotations

import pytest
from context_sessions import holdings, item

from leafgate.context.phases import RECIPES
from leafgate.context.score import HALF_LIFE, OF_ITS_CALL, PRESENCE, RECENCY, RELEVANCE, best_first, score_items
from leafgate.model.context import ItemKind, Phase
from leafgate.tokens.encoder import Encoder

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
