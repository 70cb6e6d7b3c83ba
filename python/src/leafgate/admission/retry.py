"""Whether and when a failed call is tried again. In: a policy, a code, an attempt, a chance. Out: seconds, or no more.

Touches nothing: the chance is handed in. Only codes are looked at: a call that timed out may have run all the same, so
an operator whose tools must not run twice keeps UPSTREAM_TIMEOUT out of `retryable_codes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from leafgate.model.errors import RETRYABLE, ConfigError, ErrorCode

TRANSIENT: Final[frozenset[ErrorCode]] = frozenset({"UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE"})
MOST_ATTEMPTS: Final = 10


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff, bounded. `jitter` is the part of a delay, 0 to 1, that chance may take away."""

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
        """Seconds to wait after this attempt (the first is 1) failed; None: it was the last. `chance` is 0 to 1."""
        if attempt >= self.max_attempts or code not in self.retryable_codes:
            return None
        whole = min(self.max_delay, self.base_delay * 2.0 ** (attempt - 1))
        return whole * (1 - self.jitter * chance)


def retry_policy_of(document: object) -> RetryPolicy:
    """The policy in a configuration: the fields by their names, `retryable_codes` as a list."""
    known = tuple(RetryPolicy.__dataclass_fields__)
    if not isinstance(document, Mapping) or not set(document) <= set(known):
        raise ConfigError(f"retry: an object with some of {', '.join(known)}")
    fields: dict[str, Any] = dict(document)
    if "retryable_codes" in fields:
        codes = fields["retryable_codes"]
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            raise ConfigError("retry.retryable_codes: a list of codes")
        fields["retryable_codes"] = frozenset(codes)
    return RetryPolicy(**fields)
