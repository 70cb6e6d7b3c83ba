"""Chooses what goes into a pack. In: Holdings, scores, a Recipe, a budget. Out: a Selection. Touches nothing.

In this order: policies; facts for the stable prefix; the newest result where the phase is about it; the last turn; the
newest result in any phase; the turns before; then everything by score, with a share for each kind, and once more
without shares. Every item is taken with all that it needs, or left with a reason. Counts here are sums over items;
context/pack counts the finished prompt, and takes whole groups back if the sum was too low.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leafgate.context.closure import closure_of
from leafgate.context.holdings import Holdings
from leafgate.context.phases import Recipe
from leafgate.context.render import BETWEEN, header
from leafgate.context.score import Floats, best_first
from leafgate.model.context import ContextError, ItemKind

STANDING_SHARE: Final = 0.1  # of the budget, for facts in the stable prefix
TURNS_SHARE: Final = 0.5  # of the budget, for the last turns; the very last may take all that is left
MOST_MISSES: Final = 64  # candidates of a kind in a row that do not fit, before the rest is not tried any more
LEAST_ROOM: Final = 6  # tokens below which nothing more is looked for
LEAST_COST: Final = 2  # tokens that any item takes, with its header


@dataclass(frozen=True)
class Group:
    """Items that came into the pack together, and may leave it together."""

    places: tuple[int, ...]
    cost: int
    needed: bool = False  # it stays, whatever the budget


@dataclass(frozen=True)
class Selection:
    """What is taken, in the order of taking, and why each item is taken or left."""

    groups: tuple[Group, ...]
    reasons: Mapping[int, str]
    standing: frozenset[int]

    @property
    def places(self) -> list[int]:
        return sorted(place for group in self.groups for place in group.places)

    def cheaper_by(self, excess: int, reason: str) -> Selection | None:
        """The same without what came last, about so many tokens of it; None where only what is needed is left."""
        keep = len(self.groups)
        while keep and excess > 0 and not self.groups[keep - 1].needed:
            keep -= 1
            excess -= self.groups[keep].cost
        if keep == len(self.groups):
            return None
        dropped = {place: reason for group in self.groups[keep:] for place in group.places}
        return Selection(self.groups[:keep], {**self.reasons, **dropped}, self.standing)


def select(holdings: Holdings, scores: Floats, recipe: Recipe, budget: int) -> Selection:
    """The items of a pack. ContextError where a policy has no tokenization."""
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
    """One selection under way."""

    def __init__(self, holdings: Holdings, budget: int) -> None:
        self._holdings = holdings
        self._tokens = holdings.tokens
        self._budget = budget
        # Each item is counted with what separates it from the next, and the last has no next.
        self._room = budget + len(self._tokens.glue(BETWEEN))
        self._groups: list[Group] = []
        self._taken: set[int] = set()
        self._reasons: dict[int, str] = {}
        self._standing: set[int] = set()
        self._spent: dict[ItemKind, int] = {}

    def selection(self) -> Selection:
        return Selection(tuple(self._groups), self._reasons, frozenset(self._standing))

    def policies(self) -> None:
        """All of them, with what they need: whether they fit is for the finished prompt to say."""
        for place in self._holdings.of_kind(ItemKind.policy):
            if place in self._taken:
                continue
            closure = closure_of(self._holdings, place, self._taken, len(self._holdings))
            group = closure.places if closure.lacks is None else (place,)
            for each in group:
                failure = self._tokens.known(self._holdings[each]).failure
                if failure:
                    raise ContextError(f"{self._holdings[each].id!r} must be in and cannot be tokenized: {failure}")
            self._take(group, "policy: always in", sum(map(self._cost, group)), needed=True)

    def standing_facts(self) -> None:
        """The oldest facts, whatever the query: so the prefix grows only at its end."""
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
        """What happened last, up to a share of the budget: whatever is done next, it is done after that."""
        results = self._holdings.of_kind(ItemKind.tool_result)
        if results:
            self._try(results[-1], "newest result", int(self._budget * share))

    def last_turn(self) -> None:
        users = self._holdings.of_kind(ItemKind.user_turn)
        if users:
            self._try(users[-1], "last turn", self._room)

    def turns_before(self, turns: int) -> None:
        """What was said in the last turns, newest first."""
        users = self._holdings.of_kind(ItemKind.user_turn)
        if not users:
            return
        since = users[-turns:][0]
        said = [*users[-turns:-1], *(p for p in self._holdings.of_kind(ItemKind.agent_msg) if p > since)]
        room, misses = min(int(self._budget * TURNS_SHARE), self._room), 0
        for place in sorted(said, reverse=True):
            before = self._room
            misses = 0 if self._try(place, "recent turn, verbatim", room) else misses + 1
            room -= before - self._room
            if misses == MOST_MISSES:
                break

    def without_answered_calls(self, order: Sequence[int]) -> list[int]:
        """Candidates that tell something alone: a call that was answered comes with its result or not at all."""
        calls = self._holdings.of_kind(ItemKind.tool_call)
        answered = {place for place in calls if self._holdings.is_answered(self._holdings[place])}
        for place in answered - self._taken:
            if self._holdings.duplicate_of(place) is None:
                self._reasons[place] = "its result was not taken"
        return [place for place in order if place not in answered]

    def by_score(self, order: Sequence[int], shares: Mapping[ItemKind, float]) -> list[int]:
        """Takes candidates while they fit; gives back those that only their kind's share may have kept out."""
        waiting: list[int] = []
        misses = dict.fromkeys(ItemKind, 0)
        for at, place in enumerate(order):
            if self._room < LEAST_ROOM:
                return [*waiting, *order[at:]]
            kind = self._holdings[place].kind
            if misses[kind] < MOST_MISSES:
                if place in self._taken or self._holdings.duplicate_of(place) is not None:
                    continue
                share = int(shares.get(kind, 1) * self._budget) - self._spent.get(kind, 0)
                taken = self._try(place, "relevant or recent", share)
                misses[kind] = 0 if taken else misses[kind] + 1
                if taken or share >= self._room:
                    continue
            waiting.append(place)
        return waiting

    def _try(self, place: int, reason: str, room: int) -> bool:
        """Takes a place with all that it needs, if that fits into so many tokens."""
        if place in self._taken:
            return True
        room = max(min(room, self._room), 0)
        closure = closure_of(self._holdings, place, self._taken, room // LEAST_COST)
        if closure.lacks is not None:
            self._reasons[place] = f"needs {closure.lacks}, which is not in the session"
            return False
        cost = 0
        for before, each in pairwise((None, *closure.places)):
            assert each is not None
            bare = self._is_answered_call(each) and not self._is_result(before)
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
        self._taken.update(group)
        self._room -= cost
        self._reasons |= dict.fromkeys(group, reason)
        for place in group:
            kind = self._holdings[place].kind
            self._spent[kind] = self._spent.get(kind, 0) + self._cost(place)

    def _cost(self, place: int, *, unanswered: bool = False) -> int:
        """The tokens of an item, of its header and of what separates it from the next."""
        item = self._holdings[place]
        head = header(item, self._holdings.mark, unanswered=unanswered)
        return len(self._tokens.known(item).ids) + len(self._tokens.glue(BETWEEN)) + len(self._tokens.glue(head))

    def _cost_within(self, place: int, room: int, *, unanswered: bool = False) -> int | None:
        """The cost, or None where there is no room or no tokenization."""
        item = self._holdings[place]
        if room <= 0 or self._tokens.surely_exceeds(item, room) or self._tokens.known(item).failure:
            return None
        cost = self._cost(place, unanswered=unanswered)
        return cost if cost <= room else None

    def _is_answered_call(self, place: int) -> bool:
        item = self._holdings[place]
        return item.kind is ItemKind.tool_call and self._holdings.is_answered(item)

    def _is_result(self, place: int | None) -> bool:
        return place is not None and self._holdings[place].kind is ItemKind.tool_result

    def _why_not(self, place: int, each: int, room: int) -> str:
        item = self._holdings[each]
        who = "" if each == place else f"{item.id}, which it needs: "
        if room > 0 and not self._tokens.surely_exceeds(item, room):
            failure = self._tokens.known(item).failure
            if failure:
                return f"{who}cannot be tokenized: {failure}"
        # How many more is not told: earlier packs may have found out or not, and the same question has one answer.
        return f"{who}does not fit: more than the {max(room, 0)} tokens left"
