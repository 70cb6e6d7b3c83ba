"""Builds a ContextPack from the items of a session (spec 9).

The finished prompt is counted, not estimated: while it is larger than the budget, the last selected items are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from leafgate.context.holdings import BETWEEN, ORDER, SECTIONS, STABLE, Holdings, header
from leafgate.context.item_tokens import Part
from leafgate.context.select import RECIPES, Floats, Relevance, Selection, score_items, select
from leafgate.model.context import (
    BudgetError,
    ContextError,
    ContextItem,
    ContextPack,
    ItemKind,
    PackItem,
    Phase,
    Section,
    Tokenized,
)
from leafgate.tokens.normalize import normalize
from leafgate.tokens.token_map import TokenMap

UNTRIED: Final = "ranks below what fits"
REMOVED: Final = "does not fit: the whole prompt was counted"


@dataclass(frozen=True)
class _Prompt:
    """A prompt in parts, the section that each belongs to, and the ids of the whole."""

    parts: tuple[Part, ...]
    sections: tuple[Section, ...]
    ids: tuple[int, ...]


def build_pack(
    holdings: Holdings, relevance: Relevance, phase: Phase, query: str, budget: int | None, *, with_ids: bool = True
) -> ContextPack:
    """Build the pack for a query. Raises BudgetError if the policies alone are larger than the budget."""
    recipe = RECIPES[phase]
    limit = recipe.budget if budget is None else budget
    if not isinstance(limit, int) or limit < 1:
        raise ContextError(f"the budget is {limit!r} tokens; it must be a whole number, 1 or more")
    tokens = holdings.tokens
    before = tokens.work
    scores = score_items(holdings, relevance, recipe)
    chosen: Selection | None = select(holdings, scores, recipe, limit)
    prompt = None
    while chosen is not None:
        selection, prompt = chosen, _prompt(holdings, chosen)
        if len(prompt.ids) <= limit:
            break
        chosen = chosen.cheaper_by(len(prompt.ids) - limit, REMOVED)
    assert prompt is not None
    if len(prompt.ids) > limit:
        raise BudgetError(len(prompt.ids), limit)
    stable = sum(len(p.text) for p, section in zip(prompt.parts, prompt.sections, strict=True) if section in STABLE)
    counts = _count_sections(tokens.encoder.map, prompt)
    return ContextPack(
        phase=phase,
        query=query,
        budget=limit,
        prompt="".join(part.text for part in prompt.parts),
        tokens=len(prompt.ids),
        map_id=tokens.encoder.map.digest,
        ids=prompt.ids if with_ids else None,
        sections=counts,
        cache_breakpoint=stable,
        stable_tokens=sum(counts.get(section, 0) for section in STABLE),
        items=tuple(_account(holdings, scores, selection)),
        missing_parents=holdings.missing_parents,
        tokenized=Tokenized(tokens.work.new - before.new, tokens.work.checked - before.checked),
    )


def _prompt(holdings: Holdings, selection: Selection) -> _Prompt:
    """The items under their headers, ordered by section, and by age within each section."""
    placed = sorted(
        ((_section(holdings[place], place in selection.standing), place) for place in selection.places),
        key=lambda each: (ORDER.index(each[0]), each[1]),
    )
    tokens = holdings.tokens
    items = [holdings[place] for _, place in placed]
    distant_calls = _distant_calls(items)
    calls_with_result = {item.parent_id for item in items if item.kind is ItemKind.tool_result}
    parts: list[Part] = []
    sections: list[Section] = []
    for section, place in placed:
        item = holdings[place]
        apart = item.kind is ItemKind.tool_result and item.parent_id in distant_calls
        unanswered = item.kind is ItemKind.tool_call and holdings.is_answered(item) and item.id not in calls_with_result
        head = header(item, holdings.mark, named=item.id in distant_calls, apart=apart, unanswered=unanswered)
        if parts:  # a separator belongs to the item before it, so that the stable prefix ends where a token ends
            parts.append(Part(BETWEEN, tokens.glue(BETWEEN)))
            sections.append(sections[-1])
        parts += [Part(head, tokens.glue(head)), Part(item.text, tokens.ids_of(item).ids)]
        sections += [section, section]
    return _Prompt(tuple(parts), tuple(sections), tuple(tokens.join(parts)))


def _section(item: ContextItem, standing: bool) -> Section:
    return "facts" if standing else SECTIONS[item.kind]


def _distant_calls(items: Sequence[ContextItem]) -> set[str | None]:
    """Calls whose result does not directly follow: both headers have the id of the call."""
    calls = {item.id for item in items if item.kind is ItemKind.tool_call}
    ids_before = ("", *(item.id for item in items))
    results = [pair for pair in zip(ids_before, items, strict=False) if pair[1].kind is ItemKind.tool_result]
    return {item.parent_id for before, item in results if item.parent_id in calls and item.parent_id != before}


def _count_sections(token_map: TokenMap, prompt: _Prompt) -> dict[Section, int]:
    """A token belongs to the section in which it begins, so that the counts add up to the total."""
    tokens = token_map.token_of_id
    counts: dict[Section, int] = {}
    at = -1 if token_map.has_prefix else 0  # the blank that the encoder puts before the text
    end, index = 0, 0
    for part, section in zip(prompt.parts, prompt.sections, strict=True):
        end += len(normalize(token_map, part.text).encode())
        while index < len(prompt.ids) and at < end:
            at += len(tokens[prompt.ids[index]])
            index += 1
            counts[section] = counts.get(section, 0) + 1
    return counts


def _account(holdings: Holdings, scores: Floats, selection: Selection) -> Iterator[PackItem]:
    """Each item, whether it is in the pack, and why."""
    places = set(selection.places)
    for place, (item, score) in enumerate(zip(holdings, scores.tolist(), strict=True)):
        reason = selection.reasons.get(place)
        if not reason:
            same = holdings.duplicate_of(place)
            reason = UNTRIED if same is None else f"says the same as {holdings[same].id}"
        section = _section(item, place in selection.standing) if place in places else None
        tokens = holdings.tokens.count_if_tokenized(item)
        yield PackItem(item, place in places, reason, score, tokens, section)
