"""Exact counting for programs that use leafgate as a library. In: items, scores. Out: cards within exact budgets.

Touches the maps on disk, once. The pure room behind it takes any counter; here it is the exact one of cl100k_base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from leafgate.browse import cards
from leafgate.model.card import ChoiceCard
from leafgate.model.tool import SelectableItem
from leafgate.storage.map_files import CARD_MAP, MapFiles
from leafgate.tokens.encoder import Encoder


@cache
def shared_maps() -> MapFiles:
    """The maps of this process: each is loaded once, however many runtimes there are."""
    return MapFiles()


@cache
def _card_encoder() -> Encoder:
    return shared_maps().load(CARD_MAP)


def count_exactly(text: str) -> int:
    """The tokens of a text under the map that cards and budgets are counted in."""
    return len(_card_encoder().encode(text))


def make_choice_cards(
    items: Iterable[SelectableItem],
    *,
    scores: Mapping[str, float] | None = None,
    max_cards: int | None = None,
    count: Callable[[str], int] = count_exactly,
) -> list[ChoiceCard]:
    """Cards by falling score, equals by rising id; the same input gives the same bytes."""
    return cards.make_choice_cards(items, scores=scores, max_cards=max_cards, count=count)
