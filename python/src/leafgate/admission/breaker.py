"""A circuit breaker for one upstream. In: its state, the time, how a call ended. Out: may a call go, and the new state.

Touches nothing: the time is handed in, and the state is a value. Owns one invariant: while the breaker is not closed,
at most one call, the probe, is under way, and only that call's end changes the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from leafgate.model.errors import ConfigError

Phase = Literal["closed", "open", "half-open"]
End = Literal["answered", "unreachable", "abandoned"]


@dataclass(frozen=True)
class BreakerPolicy:
    """Opens after so many transport failures in a row; lets a probe through after so many seconds."""

    failures: int = 5
    open_seconds: float = 30.0

    def __post_init__(self) -> None:
        if type(self.failures) is not int or self.failures < 1:
            raise ConfigError("breaker.failures: a whole number, 1 or more")
        seconds = self.open_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 86_400:
            raise ConfigError("breaker.open_seconds: a number of seconds, above 0 and at most a day")


@dataclass(frozen=True)
class Breaker:
    """The state of one breaker. `turn` counts its phases, so that the late end of a call of an earlier one is known."""

    phase: Phase = "closed"
    failed: int = 0
    until: float = 0.0
    turn: int = 0


@dataclass(frozen=True)
class Verdict:
    """Whether a call may go; if not, in how many seconds one may be tried."""

    state: Breaker
    may_go: bool
    retry_after: float = 0.0


def ask_breaker(state: Breaker, policy: BreakerPolicy, now: float) -> Verdict:
    """Judges one call that wants to go. Whoever is let through tells `tell_breaker` how it ended."""
    if state.phase == "closed":
        return Verdict(state, may_go=True)
    if state.phase == "open" and now >= state.until:
        return Verdict(replace(state, phase="half-open", turn=state.turn + 1), may_go=True)
    # A probe is under way: nobody knows how long it takes, so callers come back when a failed one would have ended.
    wait = state.until - now if state.phase == "open" else policy.open_seconds
    return Verdict(state, may_go=False, retry_after=wait)


def tell_breaker(state: Breaker, policy: BreakerPolicy, now: float, turn: int, end: End) -> Breaker:
    """The state after a call ended that was let through in this turn."""
    if turn != state.turn or state.phase == "open":
        return state
    if end == "answered":
        return Breaker("closed", turn=state.turn + (state.phase != "closed"))
    if end == "abandoned":
        # A probe that its caller gave up tells nothing; the next call probes again, at once.
        return state if state.phase == "closed" else Breaker("open", until=now, turn=state.turn + 1)
    failed = state.failed + 1
    if state.phase == "half-open" or failed >= policy.failures:
        return Breaker("open", until=now + policy.open_seconds, turn=state.turn + 1)
    return replace(state, failed=failed)


def breaker_policy_of(document: object) -> BreakerPolicy:
    """The policy in a configuration: `failures` and `open_seconds`."""
    known = tuple(BreakerPolicy.__dataclass_fields__)
    if not isinstance(document, Mapping) or not set(document) <= set(known):
        raise ConfigError(f"breaker: an object with some of {', '.join(known)}")
    return BreakerPolicy(**document)
