"""What each phase wants in its pack. In: a Phase. Out: its Recipe. Touches nothing.

Weights say how much a kind helps at equal relevance and age; shares say how much of the budget a kind may take before
the others have had their turn. Both are judgements, kept here to be seen and argued with (spec 9.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from leafgate.model.context import ItemKind, Phase


@dataclass(frozen=True)
class Recipe:
    """A phase's default budget in tokens, its mix of kinds, and how many of the last turns it wants verbatim.

    `about_result`: it is about the newest result, which goes before everything but policies and facts.
    `bare_calls`: what was called tells something even without what came of it.
    """

    budget: int
    turns: int
    weights: Mapping[ItemKind, float]
    shares: Mapping[ItemKind, float] = field(default_factory=dict)
    about_result: bool = False
    bare_calls: bool = False


_K = ItemKind

RECIPES: Final[Mapping[Phase, Recipe]] = {
    # Which tool? What is wanted and planned counts; what tools answered hardly does.
    Phase.route: Recipe(
        budget=2_000,
        turns=2,
        weights={
            _K.user_turn: 1.0, _K.plan_state: 0.9, _K.memory_fact: 0.6, _K.agent_msg: 0.6, _K.tool_call: 0.5,
            _K.doc_snippet: 0.3, _K.tool_result: 0.2,
        },
        shares={_K.tool_result: 0.2, _K.doc_snippet: 0.2, _K.agent_msg: 0.4},
        bare_calls=True,
    ),
    # With which arguments? Earlier calls and values in results count.
    Phase.call: Recipe(
        budget=3_000,
        turns=2,
        weights={
            _K.user_turn: 1.0, _K.plan_state: 0.9, _K.tool_call: 0.8, _K.tool_result: 0.7, _K.memory_fact: 0.7,
            _K.doc_snippet: 0.5, _K.agent_msg: 0.5,
        },
        shares={_K.tool_result: 0.5, _K.doc_snippet: 0.3, _K.agent_msg: 0.3},
        bare_calls=True,
    ),
    # What does this result mean? The newest result first, then results like it.
    Phase.interpret: Recipe(
        budget=4_000,
        turns=2,
        weights={
            _K.tool_result: 1.0, _K.user_turn: 0.9, _K.tool_call: 0.8, _K.plan_state: 0.7, _K.doc_snippet: 0.6,
            _K.memory_fact: 0.5, _K.agent_msg: 0.5,
        },
        shares={_K.tool_result: 0.7, _K.doc_snippet: 0.3, _K.agent_msg: 0.3},
        about_result=True,
    ),
    # What is said to the person? Everything that bears on the question.
    Phase.answer: Recipe(
        budget=6_000,
        turns=4,
        weights={
            _K.user_turn: 1.0, _K.tool_result: 0.9, _K.doc_snippet: 0.8, _K.memory_fact: 0.7, _K.agent_msg: 0.7,
            _K.plan_state: 0.6, _K.tool_call: 0.5,
        },
        shares={_K.tool_result: 0.5, _K.doc_snippet: 0.4, _K.agent_msg: 0.4},
    ),
}  # fmt: skip
