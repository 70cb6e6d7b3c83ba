"""Artifacts on a server: a handle of one replica is good on all, and nothing is left of what has ended."""

from __future__ import annotations

import anyio
import pytest
from redis_server import RedisServer

from leafgate.model.envelope import Artifact
from leafgate.storage.redis_artifacts import RedisArtifactStore
from leafgate.storage.redis_link import PREFIX, RedisLink

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
    store = RedisArtifactStore(link, ttl=0.05)
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
