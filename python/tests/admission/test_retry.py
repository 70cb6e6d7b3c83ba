"""When a failed call is tried again, and after how long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.admission.retry import (
    Breaker,
    BreakerPolicy,
    End,
    RetryPolicy,
    admit_call,
    end_call,
)
from leafgate.model.errors import ErrorCode


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
    policy = RetryPolicy(2, retryable_codes=frozenset({"RATE_LIMITED"}))
    assert policy.delay_after(1, "RATE_LIMITED", 0.0) is not None
    assert policy.delay_after(1, "UPSTREAM_TIMEOUT", 0.0) is None


POLICY = BreakerPolicy(failures=3, open_seconds=10)


class Dialogue:
    def __init__(self) -> None:
        self.state = Breaker()
        self.now = 0.0
        self.retry_after = 0.0

    def ask(self) -> int | None:
        verdict = admit_call(self.state, POLICY, self.now)
        self.state, self.retry_after = verdict.state, verdict.retry_after
        return verdict.state.turn if verdict.may_run else None

    def tell(self, turn: int | None, end: End) -> None:
        assert turn is not None
        self.state = end_call(self.state, POLICY, self.now, turn, end)

    def fail(self, times: int) -> None:
        for _ in range(times):
            self.tell(self.ask(), "unreachable")


def test_it_opens_after_failures_in_a_row() -> None:
    talk = Dialogue()
    talk.fail(2)
    talk.tell(talk.ask(), "answered")
    talk.fail(2)
    assert talk.state.phase == "closed"
    talk.fail(1)
    assert talk.state.phase == "open"


def test_while_open_it_says_when_to_come_back() -> None:
    talk = Dialogue()
    talk.fail(3)
    talk.now = 4
    assert talk.ask() is None
    assert talk.retry_after == 6


def test_after_a_while_one_call_may_try_and_only_one() -> None:
    talk = Dialogue()
    talk.fail(3)
    talk.now = 10
    probe = talk.ask()
    assert probe is not None
    assert talk.ask() is None
    assert talk.retry_after > 0
    talk.tell(probe, "answered")
    assert talk.state == Breaker("closed", turn=talk.state.turn)
    assert talk.ask() is not None


def test_a_probe_that_fails_opens_it_again() -> None:
    talk = Dialogue()
    talk.fail(3)
    talk.now = 10
    talk.fail(1)
    assert talk.state.phase == "open"
    talk.now = 19
    assert talk.ask() is None
    talk.now = 20
    assert talk.ask() is not None


def test_a_probe_that_is_given_up_makes_room_for_the_next() -> None:
    talk = Dialogue()
    talk.fail(3)
    talk.now = 10
    talk.tell(talk.ask(), "abandoned")
    assert talk.ask() is not None


def test_late_ends_of_earlier_calls_change_nothing() -> None:
    talk = Dialogue()
    early = [talk.ask() for _ in range(3)]
    talk.fail(3)
    opened = talk.state
    talk.tell(early[0], "answered")
    assert talk.state == opened
    talk.now = 10
    probe = talk.ask()
    talk.tell(early[1], "answered")
    talk.tell(early[2], "unreachable")
    assert talk.state.phase == "half-open"
    talk.tell(probe, "answered")
    assert talk.state.phase == "closed"


def test_a_call_given_up_says_nothing_of_the_server() -> None:
    talk = Dialogue()
    talk.fail(2)
    talk.tell(talk.ask(), "abandoned")
    assert talk.state == Breaker("closed", failed=2)


STEPS = st.lists(st.sampled_from(["ask", "answered", "unreachable", "abandoned", "wait"]), max_size=60)


@given(STEPS)
def test_while_it_is_not_closed_at_most_one_call_of_its_turn_is_under_way(steps: list[Any]) -> None:
    talk = Dialogue()
    under_way: list[int] = []
    for step in steps:
        if step == "ask":
            turn = talk.ask()
            under_way += [] if turn is None else [turn]
        elif step == "wait":
            talk.now += 5
        elif under_way:
            talk.tell(under_way.pop(), step)
        if talk.state.phase != "closed":
            assert under_way.count(talk.state.turn) == (talk.state.phase == "half-open")
