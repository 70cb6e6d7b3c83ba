"""Counts on a server: exact over replicas, by the server's clock."""

from __future__ import annotations

import anyio
import pytest
from redis_server import RedisServer
from stores import Time

from leafgate.admission.quota import Limit, RateLimits
from leafgate.storage.redis_link import RedisLink
from leafgate.storage.redis_quotas import RedisQuotas

pytestmark = pytest.mark.anyio

LIMITS = RateLimits({"tool_execute": Limit(max_calls_per_minute=17, max_calls_per_session=100)})


async def test_limits_hold_exactly_over_replicas(redis: RedisServer) -> None:
    links = [RedisLink(redis.url) for _ in range(2)]
    replicas = [RedisQuotas(link, LIMITS) for link in links]
    breaches = []

    async def take(n: int) -> None:
        breaches.append(await replicas[n % 2].take("ann", ["tool_execute"]))

    async with anyio.create_task_group() as group:
        for n in range(60):
            group.start_soon(take, n)
    assert breaches.count(None) == 17
    waits = [each.retry_after for each in breaches if each is not None]
    assert all(wait is not None and 0 < wait <= 60 for wait in waits)
    for link in links:
        await link.close()


async def test_spaces_are_counted_apart_and_a_clock_that_is_set_back_locks_nobody_out(redis: RedisServer) -> None:
    limits, time = RateLimits({"tool_execute": Limit(max_calls_per_minute=2)}), Time()
    link = RedisLink(redis.url)
    for space in ("", "principals.ann"):
        quotas = RedisQuotas(link, limits, space=space, clock=time)
        assert [await quotas.take("ann", ["tool_execute"]) is None for _ in range(3)] == [True, True, False]
    time.now -= 3_600
    assert await quotas.take("ann", ["tool_execute"]) is None
    await link.close()
