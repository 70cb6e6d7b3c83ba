"""The gateway inside a program. Here: the maps that all runtimes of a process share, and counts by the card map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from leafgate.browse.cards import make_choice_cards as make_counted_cards
from leafgate.maps.files import CARD_MAP, MapFiles
from leafgate.model.tool import ChoiceCard, SelectableItem
from leafgate.tokens.encoder import Encoder


@cache
def shared_maps() -> MapFiles:
    """The maps of this process; each is loaded once for all runtimes."""
    return MapFiles()


@cache
def _card_encoder() -> Encoder:
    return shared_maps().load(CARD_MAP)


def count_exactly(text: str) -> int:
    """The number of tokens of a text under the map for cards and budgets."""
    return len(_card_encoder().encode(text))


def make_choice_cards(
    items: Iterable[SelectableItem],
    *,
    scores: Mapping[str, float] | None = None,
    max_cards: int | None = None,
    count: Callable[[str], int] = count_exactly,
) -> list[ChoiceCard]:
    """Cards by falling score, equals by rising id; the same input gives the same bytes."""
    return make_counted_cards(items, scores=scores, max_cards=max_cards, count=count)
