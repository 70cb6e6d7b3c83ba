"""When a failed call is tried again, and after how long."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.admission.retry import RetryPolicy, retry_policy_of
from leafgate.model.errors import ConfigError, ErrorCode


def delays(policy: RetryPolicy, chance: float = 0.0) -> list[float | None]:
    return [policy.delay_after(attempt, "UPSTREAM_TIMEOUT", chance) for attempt in range(1, policy.max_attempts + 1)]


def test_by_default_nothing_is_tried_again() -> None:
    assert delays(RetryPolicy()) == [None]


def test_delays_double_up_to_the_longest() -> None:
    assert delays(RetryPolicy(6, base_delay=1, max_delay=5)) == [1, 2, 4, 5, 5, None]


def test_chance_only_ever_shortens() -> None:
    policy = RetryPolicy(3, base_delay=2, max_delay=10, jitter=0.25)
    assert delays(policy, 1.0) == [1.5, 3.0, None]
    assert delays(policy, 0.5) == [1.75, 3.5, None]


@pytest.mark.parametrize(
    ("code", "again"),
    [
        ("UPSTREAM_TIMEOUT", True),
        ("UPSTREAM_UNAVAILABLE", True),
        ("RATE_LIMITED", False),
        ("UPSTREAM_ERROR", False),
        ("AUTH_FAILED", False),
        ("PERMISSION_DENIED", False),
    ],
)
def test_only_transport_failures_are_tried_again(code: ErrorCode, again: bool) -> None:
    assert (RetryPolicy(3).delay_after(1, code, 0.0) is not None) is again


def test_the_codes_can_be_chosen() -> None:
    policy = retry_policy_of({"max_attempts": 2, "retryable_codes": ["RATE_LIMITED"]})
    assert policy.delay_after(1, "RATE_LIMITED", 0.0) is not None
    assert policy.delay_after(1, "UPSTREAM_TIMEOUT", 0.0) is None


@pytest.mark.parametrize(
    "document",
    [
        None,
        {"attempts": 3},
        {"max_attempts": 0},
        {"max_attempts": 1000},
        {"max_attempts": "3"},
        {"max_attempts": True},
        {"base_delay": -1},
        {"max_delay": "1s"},
        {"jitter": 2},
        {"retryable_codes": "UPSTREAM_TIMEOUT"},
        {"retryable_codes": ["ARGS_INVALID"]},
        {"retryable_codes": [["x"]]},
    ],
)
def test_a_policy_that_means_nothing_is_refused(document: Any) -> None:
    with pytest.raises(ConfigError, match="retry"):
        retry_policy_of(document)
