"""How much each item helps. In: relevance to the query, a Recipe, the items. Out: one score per item. Touches nothing.

The same numbers in every process: scores are rounded before they are compared, and equals go by age, newest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from leafgate.context.holdings import Holdings
from leafgate.context.phases import Recipe
from leafgate.model.context import ItemKind

Floats = NDArray[np.float64]
Relevance = Sequence[float] | NDArray[np.floating[Any]]

RELEVANCE: Final = 0.75
RECENCY: Final = 0.15
PRESENCE: Final = 0.1  # what being there at all is worth: kinds differ even where nothing is relevant and all is old
HALF_LIFE: Final = 40.0  # events after which recency counts half
OF_ITS_CALL: Final = 0.5  # of a call's relevance, its result has as well: what was asked for says what came of it
SUPERSEDED: Final = 0.25  # of a plan that a later one replaces
DIGITS: Final = 6


def score_items(holdings: Holdings, relevance: Relevance, recipe: Recipe) -> Floats:
    """Scores from 0 to 1, in the order of the items."""
    size = len(holdings)
    age = np.arange(size - 1, -1, -1, dtype=np.float64)
    weights = np.ones(size)
    for kind, weight in recipe.weights.items():
        weights[holdings.of_kind(kind)] = weight
    weights[holdings.of_kind(ItemKind.plan_state)[:-1]] *= SUPERSEDED
    value = RELEVANCE * _with_calls(holdings, relevance) + RECENCY * np.exp2(-age / HALF_LIFE) + PRESENCE
    return np.round(weights * value, DIGITS)


def _with_calls(holdings: Holdings, relevance: Relevance) -> Floats:
    """Relevance, of results together with that of their calls."""
    own = np.asarray(relevance, np.float64)
    results = holdings.of_kind(ItemKind.tool_result)
    calls = [holdings.place_of(holdings[place].parent_id or "") for place in results]
    places, askers = np.array(results, np.intp), np.array([-1 if call is None else call for call in calls], np.intp)
    found = np.append(own, 0.0)  # at -1 there is nothing
    found[places] = np.minimum(found[places] + OF_ITS_CALL * found[askers], 1.0)
    return found[:-1]


def best_first(scores: Floats) -> list[int]:
    """Places by falling score."""
    newest_first = -np.arange(len(scores))
    found: list[int] = np.lexsort((newest_first, -scores)).tolist()
    return found
