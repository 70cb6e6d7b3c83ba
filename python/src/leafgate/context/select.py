"""Scores the items of a session for a phase (spec 9.4), and selects those of a pack.

In this order: policies; facts for the stable prefix; the newest result where the phase is about it; the last turn; the
newest result in any phase; the turns before; then everything by score, with a share for each kind, and once more
without shares. Every item is selected with all that it needs, or left out with a reason. Counts here are sums over
items; context/pack counts the finished prompt, and removes whole groups if the sum was too low.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from leafgate.context.holdings import BETWEEN, TABLE, Holdings, closure_of, header
from leafgate.model.context import ContextError, ItemKind, Phase


@dataclass(frozen=True)
class Recipe:
    """A phase's default budget in tokens, its mix of kinds, and how many of the last turns it includes verbatim.

    `weights`: how much a kind helps at equal relevance and age. `shares`: how much of the budget a kind may take before
    the other kinds are tried. Both are judgements.
    `about_result`: the newest result comes before everything except policies and facts.
    `bare_calls`: a call is useful even without its result.
    """

    budget: int
    turns: int
    weights: Mapping[ItemKind, float]
    shares: Mapping[ItemKind, float]
    about_result: bool = False
    bare_calls: bool = False


def _by_kind(weights: Mapping[str, float]) -> dict[ItemKind, float]:
    return {ItemKind(kind): weight for kind, weight in weights.items()}


RECIPES: Final[Mapping[Phase, Recipe]] = {
    phase: Recipe(**{**row, "weights": _by_kind(row["weights"]), "shares": _by_kind(row["shares"])})
    for phase, row in ((phase, TABLE["phases"][phase.value]) for phase in Phase)
}


Floats = NDArray[np.float64]
Relevance = Sequence[float] | NDArray[np.floating[Any]]

RELEVANCE: Final = 0.75
RECENCY: Final = 0.15
PRESENCE: Final = 0.1  # a constant, so that kinds differ even if nothing is relevant and everything is old
HALF_LIFE: Final = 40.0  # events after which recency counts half
OF_ITS_CALL: Final = 0.5  # the share of a call's relevance that its result gets as well
SUPERSEDED: Final = 0.25  # the factor for a plan that a later one replaces
DIGITS: Final = 6


def score_items(holdings: Holdings, relevance: Relevance, recipe: Recipe) -> Floats:
    """Scores from 0 to 1, in the order of the items. They are rounded, to be the same in every process."""
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
    values = np.append(own, 0.0)  # index -1 means that there is no call
    values[places] = np.minimum(values[places] + OF_ITS_CALL * values[askers], 1.0)
    return values[:-1]


def best_first(scores: NDArray[np.floating[Any]]) -> list[int]:
    """Places by falling score, the newest of equals first."""
    order: list[int] = np.lexsort((-np.arange(len(scores)), -scores)).tolist()
    return order


STANDING_SHARE: Final = 0.1  # of the budget, for facts in the stable prefix
TURNS_SHARE: Final = 0.5  # of the budget, for the last turns; the very last one may use all that is left
MOST_MISSES: Final = 64  # candidates of a kind in a row that do not fit, before the search for this kind stops
LEAST_ROOM: Final = 6  # tokens; below it the search stops
LEAST_COST: Final = 2  # tokens that every item costs at least, with its header


@dataclass(frozen=True)
class Group:
    """Items that are selected, and removed, together."""

    places: tuple[int, ...]
    cost: int
    needed: bool = False  # never removed


@dataclass(frozen=True)
class Selection:
    """The selected groups in order, and why each item is selected or left out."""

    groups: tuple[Group, ...]
    reasons: Mapping[int, str]
    standing: frozenset[int]

    @property
    def places(self) -> list[int]:
        return sorted(place for group in self.groups for place in group.places)

    def cheaper_by(self, excess: int, reason: str) -> Selection | None:
        """The selection without its last groups, smaller by about `excess` tokens; None if the last group is needed."""
        keep = len(self.groups)
        while keep and excess > 0 and not self.groups[keep - 1].needed:
            keep -= 1
            excess -= self.groups[keep].cost
        if keep == len(self.groups):
            return None
        dropped = {place: reason for group in self.groups[keep:] for place in group.places}
        return Selection(self.groups[:keep], {**self.reasons, **dropped}, self.standing)


def select(holdings: Holdings, scores: Floats, recipe: Recipe, budget: int) -> Selection:
    """Select the items of a pack. Raises ContextError if a policy cannot be tokenized."""
    choosing = _Choosing(holdings, budget)
    choosing.policies()
    choosing.standing_facts()
    if recipe.about_result:
        choosing.newest_result(1)
    choosing.last_turn()
    choosing.newest_result(recipe.shares.get(ItemKind.tool_result, 1))
    choosing.turns_before(recipe.turns)
    candidates = best_first(scores)
    if not recipe.bare_calls:
        candidates = choosing.without_answered_calls(candidates)
    choosing.by_score(choosing.by_score(candidates, recipe.shares), {})
    return choosing.selection()


class _Choosing:
    """The state of one selection."""

    def __init__(self, holdings: Holdings, budget: int) -> None:
        self._holdings = holdings
        self._tokens = holdings.tokens
        self._budget = budget
        # Each item is counted with the separator after it, and the last item has none.
        self._room = budget + len(self._tokens.glue(BETWEEN))
        self._groups: list[Group] = []
        self._selected: set[int] = set()
        self._reasons: dict[int, str] = {}
        self._standing: set[int] = set()
        self._spent: dict[ItemKind, int] = {}

    def selection(self) -> Selection:
        return Selection(tuple(self._groups), self._reasons, frozenset(self._standing))

    def policies(self) -> None:
        """All policies, with what they need. Whether they fit is decided by the finished prompt."""
        for place in self._holdings.of_kind(ItemKind.policy):
            if place in self._selected:
                continue
            closure = closure_of(self._holdings, place, self._selected, len(self._holdings))
            group = closure.places if closure.lacks is None else (place,)
            for each in group:
                failure = self._tokens.ids_of(self._holdings[each]).failure
                if failure:
                    raise ContextError(f"{self._holdings[each].id!r} must be in and cannot be tokenized: {failure}")
            self._take(group, "policy: always in", sum(map(self._cost, group)), needed=True)

    def standing_facts(self) -> None:
        """The oldest facts, whatever the query, so that the prefix grows only at its end."""
        room = min(int(self._budget * STANDING_SHARE), self._room)
        for place in self._holdings.of_kind(ItemKind.memory_fact):
            if self._holdings.duplicate_of(place) is not None or self._holdings[place].parent_id is not None:
                continue
            cost = self._cost_within(place, room)
            if cost is None:
                break
            room -= cost
            self._standing.add(place)
            self._take((place,), "fact of the stable prefix", cost)

    def newest_result(self, share: float) -> None:
        """The newest result, up to a share of the budget: the next step follows from it."""
        results = self._holdings.of_kind(ItemKind.tool_result)
        if results:
            self._try(results[-1], "newest result", int(self._budget * share))

    def last_turn(self) -> None:
        users = self._holdings.of_kind(ItemKind.user_turn)
        if users:
            self._try(users[-1], "last turn", self._room)

    def turns_before(self, turns: int) -> None:
        """The messages of the last turns, newest first."""
        users = self._holdings.of_kind(ItemKind.user_turn)
        if not users:
            return
        since = users[-turns:][0]
        messages = [*users[-turns:-1], *(p for p in self._holdings.of_kind(ItemKind.agent_msg) if p > since)]
        room, misses = min(int(self._budget * TURNS_SHARE), self._room), 0
        for place in sorted(messages, reverse=True):
            before = self._room
            misses = 0 if self._try(place, "recent turn, verbatim", room) else misses + 1
            room -= before - self._room
            if misses == MOST_MISSES:
                break

    def without_answered_calls(self, order: Sequence[int]) -> list[int]:
        """The candidates without calls that have a result: these are selected with their result or not at all."""
        calls = self._holdings.of_kind(ItemKind.tool_call)
        with_result = {place for place in calls if self._holdings.is_answered(self._holdings[place])}
        for place in with_result - self._selected:
            if self._holdings.duplicate_of(place) is None:
                self._reasons[place] = "its result was not taken"
        return [place for place in order if place not in with_result]

    def by_score(self, order: Sequence[int], shares: Mapping[ItemKind, float]) -> list[int]:
        """Select candidates while they fit. Returns those that may fit without the share of their kind."""
        waiting: list[int] = []
        misses = dict.fromkeys(ItemKind, 0)
        for at, place in enumerate(order):
            if self._room < LEAST_ROOM:
                return [*waiting, *order[at:]]
            kind = self._holdings[place].kind
            if misses[kind] < MOST_MISSES:
                if place in self._selected or self._holdings.duplicate_of(place) is not None:
                    continue
                share = int(shares.get(kind, 1) * self._budget) - self._spent.get(kind, 0)
                fits = self._try(place, "relevant or recent", share)
                misses[kind] = 0 if fits else misses[kind] + 1
                if fits or share >= self._room:
                    continue
            waiting.append(place)
        return waiting

    def _try(self, place: int, reason: str, room: int) -> bool:
        """Select a place with all that it needs, if they fit into `room` tokens."""
        if place in self._selected:
            return True
        room = max(min(room, self._room), 0)
        closure = closure_of(self._holdings, place, self._selected, room // LEAST_COST)
        if closure.lacks is not None:
            self._reasons[place] = f"needs {closure.lacks}, which is not in the session"
            return False
        cost = 0
        for before, each in pairwise((None, *closure.places)):
            assert each is not None
            item = self._holdings[each]
            with_result = before is not None and self._holdings[before].kind is ItemKind.tool_result
            bare = item.kind is ItemKind.tool_call and self._holdings.is_answered(item) and not with_result
            price = self._cost_within(each, room - cost, unanswered=bare)
            if price is None:
                self._reasons[place] = self._why_not(place, each, room - cost)
                return False
            cost += price
        self._take(closure.places, reason, cost)
        self._reasons |= dict.fromkeys(closure.places[1:], f"needed by {self._holdings[place].id}")
        return True

    def _take(self, group: tuple[int, ...], reason: str, cost: int, *, needed: bool = False) -> None:
        self._groups.append(Group(group, cost, needed))
        self._selected.update(group)
        self._room -= cost
        self._reasons |= dict.fromkeys(group, reason)
        for place in group:
            kind = self._holdings[place].kind
            self._spent[kind] = self._spent.get(kind, 0) + self._cost(place)

    def _cost(self, place: int, *, unanswered: bool = False) -> int:
        """The tokens of an item, of its header and of what separates it from the next."""
        item = self._holdings[place]
        head = header(item, self._holdings.mark, unanswered=unanswered)
        return len(self._tokens.ids_of(item).ids) + len(self._tokens.glue(BETWEEN)) + len(self._tokens.glue(head))

    def _cost_within(self, place: int, room: int, *, unanswered: bool = False) -> int | None:
        """The cost, or None if there is no room or the text cannot be tokenized."""
        item = self._holdings[place]
        if room <= 0 or self._tokens.surely_exceeds(item, room) or self._tokens.ids_of(item).failure:
            return None
        cost = self._cost(place, unanswered=unanswered)
        return cost if cost <= room else None

    def _why_not(self, place: int, each: int, room: int) -> str:
        item = self._holdings[each]
        who = "" if each == place else f"{item.id}, which it needs: "
        if room > 0 and not self._tokens.surely_exceeds(item, room):
            failure = self._tokens.ids_of(item).failure
            if failure:
                return f"{who}cannot be tokenized: {failure}"
        # Without the exact number: it depends on what earlier packs tokenized, and the same request has one answer.
        return f"{who}does not fit: more than the {max(room, 0)} tokens left"
