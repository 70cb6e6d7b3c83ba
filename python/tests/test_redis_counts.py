"""Sums on a server: over replicas, and nothing twice where an answer was lost, nothing lost where the server forgot."""

from __future__ import annotations

import pytest
from redis_server import RedisServer
from stores import Time

from leafgate.model.errors import StoreError
from leafgate.storage.redis_counts import RedisSharedCounts
from leafgate.storage.redis_link import CALM_SECONDS, RedisLink

pytestmark = pytest.mark.anyio

NAME = ("blocks", "dä sk", "read\n", "sha256:0", "leaf")


async def test_replicas_are_summed(redis: RedisServer) -> None:
    links = [RedisLink(redis.url) for _ in range(2)]
    one, two = (RedisSharedCounts(link) for link in links)
    assert await one.sums() == ({}, "")
    await one.add({NAME: 2}, "early")
    await two.add({NAME: 0.5, ("other",): 1}, "late")
    await one.add({NAME: 3}, "early")
    assert await two.sums() == ({NAME: 5.5, ("other",): 1}, "early")
    for link in links:
        await link.close()


async def test_what_was_added_without_an_answer_is_not_added_twice(redis: RedisServer) -> None:
    time = Time()
    link = RedisLink(redis.url, answer_seconds=1, clock=time)
    counts = RedisSharedCounts(link)
    await counts.add({NAME: 1}, "now")
    with redis.paused(), pytest.raises(StoreError):  # the request is served when nobody listens any more
        await counts.add({NAME: 1}, "now")
    time.now += CALM_SECONDS
    await counts.add({NAME: 1}, "now")
    assert (await counts.sums())[0] == {NAME: 2}
    await link.close()


async def test_a_server_that_forgot_is_told_everything_of_this_process_again(redis: RedisServer) -> None:
    link = RedisLink(redis.url)
    counts = RedisSharedCounts(link)
    await counts.add({NAME: 1}, "now")
    redis.empty()
    await counts.add({NAME: 1}, "now")
    assert (await counts.sums())[0] == {NAME: 2}
    await link.close()
