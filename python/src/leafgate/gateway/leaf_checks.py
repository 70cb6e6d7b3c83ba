"""How far the leaves of servers are checked (spec 6.2): at one level, or at `decode` with a canonical sample.

A check at level `decode` finds every id that is not of the map, every control id, and ids of another text. Only an
unusual split of the right text passes it. `canonical` finds that too, and tokenizes the text for it. With `sampled`,
the first leaf of a server is checked so, then a share of its leaves that nobody outside can predict, and every leaf
from the first rejection on. A server that splits n texts unusually is found with the probability 1 - (1 - share)^n.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from leafgate.model.leaf import CheckMode, Level, Reason

# Of 90 texts with unusual splits, one is found with a probability of 0.99.
DEFAULT_SHARE: Final = 0.05
# Of texts that are tokenized here: for so many it is measured what a leaf would have cost.
MEASURED_SHARE: Final = 0.05
# These say nothing about a server's honesty: it has another map, or the text has no ids.
_NO_LIES: Final[tuple[Reason | None, ...]] = (None, "foreign-map", "empty-text", "bad-text")

_CHANCE: Final = random.SystemRandom().random


@dataclass(frozen=True)
class LeafChecks:
    """The check of each server, and what is known about the servers since the gateway started."""

    mode: CheckMode = "sampled"
    mode_for: Mapping[str, CheckMode] = field(default_factory=dict)
    share: float = DEFAULT_SHARE
    chance: Callable[[], float] = field(default=_CHANCE, compare=False)
    _plans: dict[str, ServerPlan] = field(default_factory=dict, init=False, repr=False, compare=False)

    def plan_for(self, server: str) -> ServerPlan:
        """The plan for the leaves of this server. The gateway's own texts are under the name ""."""
        plan = self._plans.get(server)
        if plan is None:
            mode = self.mode_for.get(server, self.mode)
            plan = self._plans[server] = ServerPlan(mode, self.share, self.chance)
        return plan

    def remember(self, earlier: LeafChecks) -> None:
        """Take over from the checks before a change of the configuration which servers have sent wrong ids."""
        for server, plan in earlier._plans.items():
            self.plan_for(server).has_lied = plan.has_lied


class ServerPlan:
    """Implements CheckPlan for one server."""

    def __init__(self, mode: CheckMode, share: float, chance: Callable[[], float]) -> None:
        self._mode = mode
        self._share = share
        self._chance = chance
        self._is_new = True
        self._has_measured = False
        self.has_lied = False

    @property
    def canonical_share(self) -> float:
        return {"canonical": 1.0, "sampled": self._share}.get(self._mode, 0.0)

    def next_level(self) -> Level:
        if self._mode != "sampled":
            return self._mode
        is_canonical = self._is_new or self.has_lied or self._chance() < self._share
        self._is_new = False
        return "canonical" if is_canonical else "decode"

    def note_verdict(self, reason: Reason | None) -> None:
        self.has_lied = self.has_lied or reason not in _NO_LIES

    def measures_next(self) -> bool:
        is_first, self._has_measured = not self._has_measured, True
        return is_first or self._chance() < MEASURED_SHARE
