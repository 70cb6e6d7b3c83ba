"""Cards: what a model reads about an item before it asks for more (spec 2.3 to 2.6).

In: catalog items, scores, a token counter. Out: ChoiceCards in a fixed order, each within its budget, and their text.
Touches nothing. Owns the rule that a card never carries a schema, an example, free metadata or an address.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Final

from leafgate.browse.budget import (
    CARD_HARD_CAP,
    CARD_TARGET,
    MIN_DESCRIPTION,
    Count,
    cut_with_ellipsis,
    fit_description,
    one_line,
    token_upper_bound,
)
from leafgate.model.card import ChoiceCard, Safety
from leafgate.model.errors import CatalogError
from leafgate.model.tool import SelectableItem

MAX_NAME: Final = 64
MAX_TAGS: Final = 5
MAX_TAG_LENGTH: Final = 24
TAG_TOKENS: Final = 6  # what the tags of one card may cost together, safety tags aside
NAME_TOKENS: Final = 8  # what a name costs that the id could not spell

DESTRUCTIVE: Final = "destructive"
READ_ONLY: Final = "read-only"

# Letters, digits and a few joining signs: no braces, quotes, slashes or colons, so no schema and no address fits in.
_TAG: Final = re.compile(r"\w[\w .+#-]*")


# Cards without a score, by the id of their item and by the counter that they fit by. Ids are those of one catalog.
MadeCards = MutableMapping[tuple[str, Count], ChoiceCard]


def make_choice_cards(
    items: Iterable[SelectableItem],
    *,
    scores: Mapping[str, float] | None = None,
    max_cards: int | None = None,
    count: Count = token_upper_bound,
    made: MadeCards | None = None,
) -> list[ChoiceCard]:
    """Cards by falling score, equals by rising id; the same input gives the same bytes. `made` keeps what is made."""
    given = scores or {}
    ordered = sorted(items, key=lambda item: (-_finite(given.get(item.id)), item.id))
    chosen = ordered if max_cards is None else ordered[: max(0, max_cards)]
    known = {} if made is None else made
    return [replace(_known_card(item, count, known), score=given.get(item.id)) for item in chosen]


def _known_card(item: SelectableItem, count: Count, made: MadeCards) -> ChoiceCard:
    card = made.get((item.id, count))
    if card is None:
        card = made[item.id, count] = make_card(item, count=count)
    return card


def make_card(item: SelectableItem, *, score: float | None = None, count: Count = token_upper_bound) -> ChoiceCard:
    """One item's card; CatalogError if even the shortest description leaves it above the hard cap."""
    bare = ChoiceCard(
        id=item.id,
        name=_short_name(item.name, count),
        description="",
        tags=_kept_tags(item.tags, count),
        kind=item.kind,
        namespace=item.namespace,
        has_schema=bool(item.args_schema),
        score=score,
        cost_hint=item.cost_hint,
        side_effects=item.side_effects,
        safety=_safety(item.tags),
    )
    return _described(bare, item.description, count)


def make_node_card(path: str, label: str, description: str, *, count: Count = token_upper_bound) -> ChoiceCard:
    """The card of an inner node of the tree: its id is its path."""
    namespace = path.split("/")[1] if "/" in path else ""
    bare = ChoiceCard(id=path, name=label[:MAX_NAME], description="", kind="internal", namespace=namespace)
    return _described(bare, description, count)


def _described(bare: ChoiceCard, description: str, count: Count) -> ChoiceCard:
    # A bound from above overstates by half: kept under the cap, it is still under the target nearly always.
    target = CARD_HARD_CAP if count is token_upper_bound else CARD_TARGET
    room = max(target - count(render_card(bare)) - 2, MIN_DESCRIPTION)  # a dash before it, the line's end behind it
    while True:
        card = replace(bare, description=fit_description(description, room, count))
        # Token counts do not quite add up at the seams, so the whole is what is measured.
        weight = count(render_card(card))
        if not card.description or weight < (target if room > MIN_DESCRIPTION else CARD_HARD_CAP + 1):
            break
        room -= 1
    if (count(bare.id) if count is token_upper_bound else weight) > CARD_HARD_CAP:
        raise CatalogError(f"the card of {bare.id} does not fit into {CARD_HARD_CAP} tokens")
    return card


def render_card(card: ChoiceCard) -> str:
    """The line that a model reads. The id already says namespace and name; marks appear only where they say something.

    `github:create_issue#3a91c7d2 — Create a new issue in a repository. [effects]`
    """
    line = card.id
    shown = [part for part in (_unspelled_name(card), card.description) if part]
    if shown:
        line += f" — {': '.join(shown)}"
    marks = _marks(card)
    return f"{line} [{', '.join(marks)}]" if marks else line


def render_page(cards: Sequence[ChoiceCard], *, note: str = "") -> str:
    """What tool_browse sends: an optional note, then one line a card."""
    lines = [render_card(card) for card in cards]
    return "\n".join([one_line(note), *lines] if note else lines)


def _marks(card: ChoiceCard) -> list[str]:
    marks: list[str] = [card.kind] if card.kind in ("agent", "skill") else []
    if card.safety == "destructive":
        marks.append(DESTRUCTIVE)
    elif card.safety == "read_only":
        marks.append(READ_ONLY)
    if card.side_effects:
        marks.append("effects")
    if card.cost_hint > 0:
        marks.append(f"cost {_short_cost(card.cost_hint)}")
    return marks + [tag for tag in card.tags if tag not in (DESTRUCTIVE, READ_ONLY)]


def _short_cost(cost: float) -> str:
    if cost < 0.01:
        return "<0.01"
    if cost >= 100:
        return str(round(cost)) if cost < 99_999.5 else ">99999"
    return f"{cost:.2f}".rstrip("0").rstrip(".")


def _unspelled_name(card: ChoiceCard) -> str:
    """The display name, where the id does not spell it."""
    return "" if card.name.isascii() or card.kind == "internal" else card.name


def _short_name(name: str, count: Count) -> str:
    line = one_line(name, 4 * MAX_NAME)
    if len(line) > MAX_NAME:
        line = cut_with_ellipsis(line[: MAX_NAME - 1], 4 * MAX_NAME, count)
    # Only a name that the line shows needs to be light.
    return line if line.isascii() or count(line) <= NAME_TOKENS else cut_with_ellipsis(line, NAME_TOKENS, count)


def _safety(tags: Sequence[str]) -> Safety:
    if DESTRUCTIVE in tags:
        return "destructive"
    return "read_only" if READ_ONLY in tags else ""


def _kept_tags(tags: Sequence[str], count: Count) -> tuple[str, ...]:
    """Safety tags first, whatever else there is; then others in order, at most five in all, within their tokens."""
    safety = {tag for tag in tags if tag in (DESTRUCTIVE, READ_ONLY)}
    kept = set(safety)
    room = TAG_TOKENS
    for tag in sorted({one_line(tag, MAX_TAG_LENGTH)[:MAX_TAG_LENGTH].strip() for tag in tags} - safety):
        cost = count(f", {tag}")
        if len(kept) < MAX_TAGS and cost <= room and _TAG.fullmatch(tag):
            kept.add(tag)
            room -= cost
    return tuple(sorted(kept))


def _finite(score: float | None) -> float:
    return -math.inf if score is None or math.isnan(score) else score
