"""Recipes: every phase has one, with every kind in it."""

from __future__ import annotations

import pytest

from leafgate.context.phases import RECIPES
from leafgate.model.context import ItemKind, Phase


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
