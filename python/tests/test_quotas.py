"""Counters per owner and scope: all of a call's scopes, or none of them."""

from __future__ import annotations

import anyio
import pytest

from leafgate.admission.quota import Limit, RateLimits
from leafgate.storage.quotas import RateLimiter

pytestmark = pytest.mark.anyio

TOOL = "disk:read#00000000"


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def limiter(time: Time | None = None, **more: int) -> RateLimiter:
    limits = RateLimits({"tool_execute": Limit(3, 5)}, {"disk:*": Limit(2)})
    return RateLimiter(limits, clock=time or Time(), **more)


async def test_owners_do_not_share() -> None:
    quotas = limiter()
    for owner in ("ann", "bob"):
        assert [await quotas.take(owner, ["tool_execute"]) is None for _ in range(4)] == [True, True, True, False]


async def test_a_refused_call_counts_nowhere() -> None:
    time = Time()
    quotas = limiter(time)
    assert [await quotas.take("ann", ["tool_execute", TOOL]) is None for _ in range(3)] == [True, True, False]
    found = await quotas.take("ann", ["tool_execute", TOOL])
    assert found is not None
    assert found.scope == TOOL
    # The meta-tool still has the one place that the refused calls did not take.
    assert await quotas.take("ann", ["tool_execute"]) is None
    assert await quotas.take("ann", ["tool_execute"]) is not None


async def test_the_minute_passes_and_the_session_does_not() -> None:
    time = Time()
    quotas = limiter(time)
    answers = []
    for minute in range(3):
        time.now = minute * 60.0
        answers += [await quotas.take("ann", ["tool_execute"]) for _ in range(3)]
    assert [answer is None for answer in answers] == [True] * 5 + [False] * 4
    assert answers[-1] is not None
    assert answers[-1].limit == "max_calls_per_session"


async def test_looking_takes_nothing() -> None:
    quotas = limiter()
    for _ in range(10):
        assert await quotas.peek("ann", ["tool_execute", TOOL]) is None
    assert await quotas.take("ann", ["tool_execute", TOOL]) is None


async def test_many_at_once_cannot_share_the_last_place() -> None:
    quotas = limiter()
    through: list[bool] = []

    async def call() -> None:
        through.append(await quotas.take("ann", ["tool_execute", TOOL]) is None)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(call)
    assert sum(through) == 2


async def test_scopes_without_a_limit_are_free_and_cost_no_memory() -> None:
    quotas = limiter()
    for n in range(100):
        assert await quotas.take(f"owner {n}", ["tool_browse", "mail:send#00000000"]) is None
    assert not quotas._used


async def test_counters_are_bounded() -> None:
    quotas = limiter(max_counters=10)
    for n in range(100):
        await quotas.take(f"owner {n}", ["tool_execute"])
    assert len(quotas._used) == 10
