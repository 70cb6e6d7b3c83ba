"""Builds a pack. In: Holdings, relevance to a query, a phase, a budget. Out: a ContextPack (spec 9). Touches nothing.

The finished prompt is counted, not estimated: while it is larger than the budget, what came in last leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leafgate.context.holdings import Holdings
from leafgate.context.join import Part
from leafgate.context.phases import RECIPES
from leafgate.context.render import BETWEEN, ORDER, SECTIONS, STABLE, header
from leafgate.context.score import Floats, Relevance, score_items
from leafgate.context.select import Selection, select
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
from leafgate.tokens.token_map import TokenMap

UNTRIED: Final = "ranks below what fits"
TAKEN_BACK: Final = "does not fit: the whole prompt was counted"


@dataclass(frozen=True)
class _Prompt:
    """A prompt in parts, the section that each belongs to, and the ids of the whole."""

    parts: tuple[Part, ...]
    sections: tuple[Section, ...]
    ids: tuple[int, ...]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


def build_pack(
    holdings: Holdings,
    relevance: Relevance,
    *,
    phase: Phase,
    query: str,
    budget: int | None = None,
    with_ids: bool = True,
) -> ContextPack:
    """The pack for a query. BudgetError where the policies alone are larger than the budget."""
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
        chosen = chosen.cheaper_by(len(prompt.ids) - limit, TAKEN_BACK)
    assert prompt is not None
    if len(prompt.ids) > limit:
        raise BudgetError(len(prompt.ids), limit)
    stable = sum(len(p.text) for p, section in zip(prompt.parts, prompt.sections, strict=True) if section in STABLE)
    counts = _count_sections(tokens.encoder.map, prompt)
    return ContextPack(
        phase=phase,
        query=query,
        budget=limit,
        prompt=prompt.text,
        tokens=len(prompt.ids),
        map_id=tokens.encoder.map.digest,
        ids=prompt.ids if with_ids else None,
        sections=counts,
        cache_breakpoint=stable,
        stable_tokens=sum(counts.get(section, 0) for section in STABLE),
        items=_account(holdings, scores, selection),
        missing_parents=holdings.missing_parents,
        tokenized=Tokenized(tokens.work.new - before.new, tokens.work.checked - before.checked),
    )


def _prompt(holdings: Holdings, selection: Selection) -> _Prompt:
    """The items in the order of their sections, and of the session within each, under their headers."""
    placed = sorted(
        ((_section(holdings[place], place in selection.standing), place) for place in selection.places),
        key=lambda each: (ORDER.index(each[0]), each[1]),
    )
    tokens = holdings.tokens
    shown = [holdings[place] for _, place in placed]
    called = _called_from_afar(shown)
    answered = {item.parent_id for item in shown if item.kind is ItemKind.tool_result}
    parts: list[Part] = []
    sections: list[Section] = []
    for section, place in placed:
        item = holdings[place]
        apart = item.kind is ItemKind.tool_result and item.parent_id in called
        unanswered = item.kind is ItemKind.tool_call and holdings.is_answered(item) and item.id not in answered
        head = header(item, holdings.mark, named=item.id in called, apart=apart, unanswered=unanswered)
        if parts:  # what separates two items belongs to the first: so the stable prefix ends where a token does
            parts.append(Part(BETWEEN, tokens.glue(BETWEEN)))
            sections.append(sections[-1])
        parts += [Part(head, tokens.glue(head)), Part(item.text, tokens.known(item).ids)]
        sections += [section, section]
    return _Prompt(tuple(parts), tuple(sections), tuple(tokens.join(parts)))


def _section(item: ContextItem, standing: bool) -> Section:
    return "facts" if standing else SECTIONS[item.kind]


def _called_from_afar(items: Sequence[ContextItem]) -> set[str | None]:
    """Calls whose result does not follow them at once: they are named, and the result says whose it is."""
    calls = {item.id for item in items if item.kind is ItemKind.tool_call}
    return {
        item.parent_id
        for before, item in pairwise((None, *items))
        if item is not None
        and item.kind is ItemKind.tool_result
        and item.parent_id in calls
        and (before is None or item.parent_id != before.id)
    }


def _count_sections(token_map: TokenMap, prompt: _Prompt) -> dict[Section, int]:
    """A token belongs to the section in which it begins, so that the counts add up to the whole."""
    tokens = token_map.token_of_id
    counts: dict[Section, int] = {}
    at = -1 if token_map.kind == "metaspace" else 0  # the encoder's own blank before the text
    end, index = 0, 0
    for part, section in zip(prompt.parts, prompt.sections, strict=True):
        end += len(part.text.encode())
        while index < len(prompt.ids) and at < end:
            at += len(tokens[prompt.ids[index]])
            index += 1
            counts[section] = counts.get(section, 0) + 1
    return counts


def _account(holdings: Holdings, scores: Floats, selection: Selection) -> tuple[PackItem, ...]:
    taken = set(selection.places)
    given = scores.tolist()
    return tuple(
        PackItem(
            item,
            place in taken,
            selection.reasons.get(place) or _why_untried(holdings, place),
            given[place],
            holdings.tokens.counted(item),
            _section(item, place in selection.standing) if place in taken else None,
        )
        for place, item in enumerate(holdings)
    )


def _why_untried(holdings: Holdings, place: int) -> str:
    same = holdings.duplicate_of(place)
    return UNTRIED if same is None else f"says the same as {holdings[same].id}"
