"""The sliding minute and the session's sum, on a clock that is handed in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leafgate.admission.policy import WINDOW, Limit, RateLimits, Usage, breach


def calls(limit: Limit, times: list[float]) -> list[bool]:
    """Which of the calls at these times get through."""
    usage, through = Usage(), []
    for now in times:
        may = breach("tool_execute", limit, usage, now) is None
        usage = usage.add_call(limit, now) if may else usage
        through.append(may)
    return through


def test_a_minute_slides() -> None:
    assert calls(Limit(2), [0, 1, 2, 59.9, 60, 60.5, 61]) == [True, True, False, False, True, False, True]


def test_a_session_only_ever_adds_up() -> None:
    assert calls(Limit(None, 2), [0, 1000, 2000, 3000]) == [True, True, False, False]


def test_the_answer_says_when_to_come_back() -> None:
    usage = Usage().add_call(Limit(2), 10.0).add_call(Limit(2), 20.0)
    found = breach("tool_execute", Limit(2), usage, 25.0)
    assert found is not None
    assert (found.scope, found.limit, found.retry_after) == ("tool_execute", "max_calls_per_minute", 45.0)
    full = breach("tool_execute", Limit(None, 1), Usage((), 1), 25.0)
    assert full is not None
    assert full.retry_after is None


def test_nothing_at_all_may_be_allowed() -> None:
    assert calls(Limit(0), [0, 100]) == [False, False]
    assert calls(Limit(None, 0), [0]) == [False]


TIMES = st.lists(st.floats(0, 300), max_size=40).map(sorted)


@given(st.integers(1, 5), TIMES)
def test_no_window_of_a_minute_ever_holds_more_than_the_limit(most: int, times: list[float]) -> None:
    through = [now for now, may in zip(times, calls(Limit(most), times), strict=True) if may]
    for start in through:
        assert sum(start <= now < start + WINDOW for now in through) <= most + _rounding(through, start)


def _rounding(through: list[float], start: float) -> int:
    """Calls that are a minute apart by subtraction, and a hair less by addition."""
    return sum(start <= now < start + WINDOW and now - start >= WINDOW for now in through)


@given(st.integers(1, 5), TIMES, st.floats(0, 100))
def test_whoever_waits_as_told_gets_through(most: int, times: list[float], later: float) -> None:
    limit, usage = Limit(most), Usage()
    for now in times:
        if breach("x", limit, usage, now) is None:
            usage = usage.add_call(limit, now)
    now = (times[-1] if times else 0.0) + later
    found = breach("x", limit, usage, now)
    if found is not None:
        assert found.retry_after is not None
        assert 0 < found.retry_after <= WINDOW + 0.001
        # One more millisecond pays for the rounding of sums of floats.
        assert breach("x", limit, usage, now + found.retry_after + 0.001) is None


@given(TIMES)
def test_what_is_remembered_does_not_grow(times: list[float]) -> None:
    usage = Usage()
    for now in times:
        if breach("x", Limit(3), usage, now) is None:
            usage = usage.add_call(Limit(3), now)
        assert len(usage.recent) <= 3


def test_limits_are_found_by_meta_tool_and_by_glob() -> None:
    limits = RateLimits({"tool_browse": Limit(9)}, {"disk:write": Limit(1), "disk:*": Limit(5)})
    assert limits.limit_of("tool_browse") == Limit(9)
    assert limits.limit_of("tool_view") is None
    assert limits.limit_of("disk:write#00000000") == Limit(1)
    assert limits.limit_of("disk:read#00000000") == Limit(5)
    assert limits.limit_of("mail:send#00000000") is None
