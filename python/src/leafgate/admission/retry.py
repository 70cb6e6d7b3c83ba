"""Retries of failed calls, and the circuit breaker of one upstream.

Retries depend on error codes only: a call that timed out may still have run, so an operator whose tools must not run
twice keeps UPSTREAM_TIMEOUT out of `retryable_codes`. The state of a breaker is a value. While it is not closed, only
one call, the probe, is running, and only its end changes the state. The caller passes time and chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from leafgate.model.errors import RETRYABLE, ConfigError, ErrorCode

TRANSIENT: Final[frozenset[ErrorCode]] = frozenset({"UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE"})
MOST_ATTEMPTS: Final = 10

Phase = Literal["closed", "open", "half-open"]
End = Literal["answered", "unreachable", "abandoned"]


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with a maximum. `jitter` is the part of a delay, 0 to 1, that chance may subtract."""

    max_attempts: int = 1
    base_delay: float = 0.5
    max_delay: float = 10.0
    jitter: float = 0.5
    retryable_codes: frozenset[ErrorCode] = TRANSIENT

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or not 1 <= self.max_attempts <= MOST_ATTEMPTS:
            raise ConfigError(f"retry.max_attempts: a whole number from 1 to {MOST_ATTEMPTS}")
        for name in ("base_delay", "max_delay", "jitter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 3600:
                raise ConfigError(f"retry.{name}: a number, 0 or more")
        if self.jitter > 1:
            raise ConfigError("retry.jitter: a number from 0 to 1")
        if not self.retryable_codes <= RETRYABLE:
            raise ConfigError(f"retry.retryable_codes: some of {', '.join(sorted(RETRYABLE))}")

    def delay_after(self, attempt: int, code: ErrorCode, chance: float) -> float | None:
        """Return the seconds to wait after this attempt (from 1) failed, or None after the last. `chance`: 0 to 1."""
        if attempt >= self.max_attempts or code not in self.retryable_codes:
            return None
        whole = min(self.max_delay, self.base_delay * 2.0 ** (attempt - 1))
        return whole * (1 - self.jitter * chance)


@dataclass(frozen=True)
class BreakerPolicy:
    """The breaker opens after `failures` transport failures in a row, and allows a probe after `open_seconds`."""

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
    """The state of one breaker. `turn` counts its phases, so that a call of an earlier phase is recognised."""

    phase: Phase = "closed"
    failed: int = 0
    until: float = 0.0
    turn: int = 0


@dataclass(frozen=True)
class BreakerDecision:
    """Whether a call may run; if not, after how many seconds to try again."""

    state: Breaker
    may_run: bool
    retry_after: float = 0.0


def admit_call(state: Breaker, policy: BreakerPolicy, now: float) -> BreakerDecision:
    """Decide on one call. After a call that may run, the caller reports its end with `end_call`."""
    if state.phase == "closed":
        return BreakerDecision(state, may_run=True)
    if state.phase == "open" and now >= state.until:
        return BreakerDecision(replace(state, phase="half-open", turn=state.turn + 1), may_run=True)
    # A probe of unknown duration is running: callers come back when the breaker would allow the next one.
    wait = state.until - now if state.phase == "open" else policy.open_seconds
    return BreakerDecision(state, may_run=False, retry_after=wait)


def end_call(state: Breaker, policy: BreakerPolicy, now: float, turn: int, end: End) -> Breaker:
    """Return the state after the end of a call that was admitted in this turn."""
    if turn != state.turn or state.phase == "open":
        return state
    if end == "answered":
        return Breaker("closed", turn=state.turn + (state.phase != "closed"))
    if end == "abandoned":
        # An abandoned probe has no result; the next call is a probe again, at once.
        return state if state.phase == "closed" else Breaker("open", until=now, turn=state.turn + 1)
    failed = state.failed + 1
    if state.phase == "half-open" or failed >= policy.failures:
        return Breaker("open", until=now + policy.open_seconds, turn=state.turn + 1)
    return replace(state, failed=failed)
