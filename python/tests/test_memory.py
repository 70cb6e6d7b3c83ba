"""The store in memory: whose an artifact is, how long it lives, and that memory stays bounded."""

from __future__ import annotations

import secrets

import pytest

from leafgate.model.call import Origin
from leafgate.model.envelope import HANDLE_CHARS, Artifact
from leafgate.storage.memory import ENTRY_COST, MemoryArtifactStore

pytestmark = pytest.mark.anyio

KB = 10 * ENTRY_COST


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def artifact(size: int, mark: bytes = b"x") -> Artifact:
    return Artifact(mark * size, "text/plain", "")


async def test_only_the_owner_gets_it_back() -> None:
    store = MemoryArtifactStore()
    kept = Artifact(b"\x89PNG", "image/png", "shot", Origin("web", "screenshot"), is_text=False)
    handle = await store.put("me", kept)
    assert handle is not None
    assert await store.get("me", handle) == kept
    assert await store.get("you", handle) is None
    assert await store.get("me", handle + "0") is None


async def test_two_owners_never_share_a_handle_but_content_is_held_once() -> None:
    store = MemoryArtifactStore()
    handles = [await store.put(f"owner {n}", artifact(100 * KB)) for n in range(50)]
    assert len(set(handles)) == 50
    assert store.used == 100 * KB + 50 * ENTRY_COST


async def test_the_same_owner_gets_the_same_handle_for_the_same_content_of_the_same_tool() -> None:
    store = MemoryArtifactStore()
    one, again, other = Origin("a", "x"), Origin("a", "x"), Origin("b", "x")
    handles = [await store.put("me", Artifact(b"data", "text/plain", "", origin)) for origin in (one, again, other)]
    assert handles[0] == handles[1] != handles[2]


async def test_handles_are_long_and_random() -> None:
    store = MemoryArtifactStore()
    handles = {await store.put("me", artifact(1, secrets.token_bytes(8))) for _ in range(200)}
    assert len(handles) == 200
    assert all(handle is not None and len(handle) == HANDLE_CHARS for handle in handles)


async def test_when_full_the_least_recently_used_goes_first() -> None:
    store = MemoryArtifactStore(capacity=10 * KB)
    first, second = await store.put("me", artifact(4 * KB, b"1")), await store.put("me", artifact(4 * KB, b"2"))
    assert await store.get("me", first or "")
    third = await store.put("me", artifact(4 * KB, b"3"))
    assert await store.get("me", second or "") is None
    assert await store.get("me", first or "")
    assert await store.get("me", third or "")


async def test_an_owner_over_its_quota_loses_its_own_only() -> None:
    store = MemoryArtifactStore(capacity=100 * KB, quota=10 * KB)
    theirs = await store.put("you", artifact(5 * KB, b"y"))
    mine = [await store.put("me", artifact(5 * KB, bytes([n]))) for n in range(5)]
    assert await store.get("you", theirs or "")
    assert [await store.get("me", handle or "") is not None for handle in mine] == [False, False, False, False, True]


async def test_one_larger_than_the_quota_is_kept_alone_and_one_larger_than_the_store_is_not() -> None:
    store = MemoryArtifactStore(capacity=100 * KB, quota=10 * KB)
    small, large = await store.put("me", artifact(KB)), await store.put("me", artifact(50 * KB))
    assert await store.get("me", small or "") is None
    assert await store.get("me", large or "")
    assert await store.put("me", artifact(101 * KB)) is None
    assert await store.get("me", large or "")


async def test_artifacts_expire_and_a_new_put_renews() -> None:
    clock = Clock()
    store = MemoryArtifactStore(ttl=60, now=clock)
    first, second = await store.put("me", artifact(10, b"1")), await store.put("me", artifact(10, b"2"))
    clock.now = 50
    assert await store.put("me", artifact(10, b"1")) == first
    clock.now = 61
    assert await store.get("me", second or "") is None
    assert await store.get("me", first or "")
    clock.now = 111
    assert await store.get("me", first or "") is None
    assert store.used == 0


async def test_many_small_ones_are_bounded_too() -> None:
    store = MemoryArtifactStore(capacity=100 * ENTRY_COST)
    for n in range(1000):
        await store.put(f"owner {n}", artifact(1, str(n).encode()))
    assert store.used <= 100 * ENTRY_COST
