import pytest

from leafgate.model.envelope import Artifact
from leafgate.storage.memory import MemoryArtifactStore

pytestmark = pytest.mark.anyio


def artifact(size: int, mark: bytes = b"x") -> Artifact:
    return Artifact(mark * size, "text/plain", "")


async def test_only_the_owner_gets_it_back() -> None:
    store = MemoryArtifactStore()
    handle = await store.put("me", artifact(3))
    assert (await store.get("me", handle)) == artifact(3)
    assert await store.get("you", handle) is None
    assert await store.get("me", handle + "0") is None


async def test_handles_are_never_shared() -> None:
    store = MemoryArtifactStore()
    handles = {await store.put("me", artifact(1)) for _ in range(200)}
    assert len(handles) == 200


async def test_when_full_the_least_recently_used_goes_first() -> None:
    store = MemoryArtifactStore(capacity=100)
    first, second = await store.put("me", artifact(40, b"1")), await store.put("me", artifact(40, b"2"))
    assert await store.get("me", first)
    third = await store.put("me", artifact(40, b"3"))
    assert await store.get("me", second) is None
    assert await store.get("me", first)
    assert await store.get("me", third)


async def test_one_that_is_larger_than_the_store_is_kept_alone() -> None:
    store = MemoryArtifactStore(capacity=100)
    small, large = await store.put("me", artifact(10)), await store.put("me", artifact(500))
    assert await store.get("me", small) is None
    assert await store.get("me", large)
