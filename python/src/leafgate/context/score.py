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

RELEVANCE: Final = 0.6
RECENCY: Final = 0.3
PRESENCE: Final = 0.1  # what being there at all is worth: kinds differ even where nothing is relevant and all is old
HALF_LIFE: Final = 40.0  # events after which recency counts half
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
    value = RELEVANCE * np.asarray(relevance, np.float64) + RECENCY * np.exp2(-age / HALF_LIFE) + PRESENCE
    return np.round(weights * value, DIGITS)


def best_first(scores: Floats) -> list[int]:
    """Places by falling score."""
    newest_first = -np.arange(len(scores))
    found: list[int] = np.lexsort((newest_first, -scores)).tolist()
    return found
