"""Artifacts on a server: a handle of one replica is good on all, and nothing is left of what has ended."""

from __future__ import annotations

import anyio
import pytest
from redis_server import RedisServer
from stores import Time

from leafgate.admission.policy import Limit, RateLimits
from leafgate.model.envelope import Artifact
from leafgate.model.errors import StoreError
from leafgate.model.tool import ChoiceCard
from leafgate.state.records import ArtifactLimits, CacheBounds
from leafgate.state.redis import (
    CALM_SECONDS,
    PREFIX,
    RedisArtifactStore,
    RedisBrowseStates,
    RedisLink,
    RedisQuotas,
    RedisResultCache,
    RedisSharedCounts,
)

pytestmark = pytest.mark.anyio


async def test_replicas_share_handles(redis: RedisServer) -> None:
    links = [RedisLink(redis.url) for _ in range(2)]
    one, two = (RedisArtifactStore(link) for link in links)
    kept = Artifact(b"a line of a log\n" * 50_000, "text/plain", "log")
    handle = str(await one.put("me", kept))
    assert await two.get("me", handle) == kept
    assert await two.put("me", kept) == handle
    assert await two.get("you", handle) is None
    for link in links:
        await link.close()


async def test_nothing_is_left_of_what_has_ended(redis: RedisServer) -> None:
    link = RedisLink(redis.url)
    store = RedisArtifactStore(link, ArtifactLimits(ttl=0.05))
    for n in range(10):
        await store.put(f"owner {n}", Artifact(b"x" * 10_000, "", ""))
    await anyio.sleep(0.1)
    assert await store.get("me", "0" * 24) is None
    assert redis.all_keys() == {f"{PREFIX}:a:bytes", f"{PREFIX}:a:tick"}
    assert await store.used() == 0
    await link.close()


async def test_content_that_the_server_evicted_is_unknown_and_can_be_put_again(redis: RedisServer) -> None:
    link = RedisLink(redis.url)
    store = RedisArtifactStore(link)
    kept = Artifact(b"data", "", "")
    handle = str(await store.put("me", kept))
    content = redis.key_with(":c:")
    await link.script("return redis.call('DEL', KEYS[1])")([content], [])
    assert await store.get("me", handle) is None
    again = str(await store.put("me", kept))
    assert again != handle
    assert await store.get("me", again) == kept
    await link.close()


SEEN = {"a": ChoiceCard("a", "a", "first"), "b": None}


async def test_another_replica_knows_it(redis: RedisServer) -> None:
    links = [RedisLink(redis.url) for _ in range(2)]
    one, two = (RedisBrowseStates(link) for link in links)
    for states in (one, two):
        states.renew("catalog")
    await one.save("ann", SEEN)
    assert await two.load("ann") == SEEN
    assert await two.load("ben") == {}
    for link in links:
        await link.close()


RESULT = {"content": [{"type": "text", "text": "x" * 3_000}]}


async def test_replicas_with_equal_catalogs_share(redis: RedisServer) -> None:
    links = [RedisLink(redis.url) for _ in range(3)]
    one, two, other = (RedisResultCache(link, CacheBounds()) for link in links)
    for cache, catalog in ((one, "same"), (two, "same"), (other, "newer")):
        cache.renew(catalog)
    await one.put("k", RESULT, one.epoch())
    assert [await cache.get("k") for cache in (one, two, other)] == [RESULT, RESULT, None]
    for link in links:
        await link.close()


async def test_what_somebody_else_wrote_there_is_damage(redis: RedisServer) -> None:
    link = RedisLink(redis.url)
    cache = RedisResultCache(link, CacheBounds())
    await cache.put("k", RESULT, "")
    key = redis.key_with(":k:")
    await link.script("return redis.call('SET', KEYS[1], ARGV[1])")([key], [b"\x00[]"])
    with pytest.raises(StoreError, match="damaged"):
        await cache.get("k")
    await link.close()


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
