"""A cache that forgets: by age, by number, by bytes, and all at once."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.model.errors import ConfigError
from leafgate.storage.result_cache import ENTRY_OVERHEAD, ToolResultCache

pytestmark = pytest.mark.anyio


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


async def test_what_is_kept_comes_back_equal_and_separate() -> None:
    cache = ToolResultCache()
    given = result("hello")
    await cache.put("k", given, cache.epoch())
    given["content"][0]["text"] = "changed"
    first = await cache.get("k")
    assert first == result("hello")
    first["content"].clear()  # type: ignore[union-attr,index]
    assert await cache.get("k") == result("hello")
    assert await cache.get("other") is None


async def test_an_entry_ages() -> None:
    time = Time()
    cache = ToolResultCache(ttl=10, clock=time)
    await cache.put("k", result("x"), cache.epoch())
    time.now = 9.9
    assert await cache.get("k") is not None
    time.now = 10
    assert await cache.get("k") is None


async def test_the_least_recently_used_goes_first() -> None:
    cache = ToolResultCache(max_entries=2)
    for key in "ab":
        await cache.put(key, result(key), cache.epoch())
    await cache.get("a")
    await cache.put("c", result("c"), cache.epoch())
    assert [await cache.get(key) is not None for key in "abc"] == [True, False, True]


async def test_bytes_are_bounded() -> None:
    cache = ToolResultCache(max_bytes=3 * (ENTRY_OVERHEAD + 150))
    for key in "abcd":
        await cache.put(key, result(key * 100), cache.epoch())
    assert [await cache.get(key) is not None for key in "abcd"] == [False, True, True, True]
    await cache.put("big", result("x" * 10_000), cache.epoch())
    assert await cache.get("big") is None
    assert await cache.get("d") is not None


async def test_the_same_key_twice_is_one_entry() -> None:
    cache = ToolResultCache(max_bytes=2 * (ENTRY_OVERHEAD + 150))
    for _ in range(10):
        await cache.put("a", result("a" * 100), cache.epoch())
    await cache.put("b", result("b" * 100), cache.epoch())
    assert await cache.get("a") is not None


async def test_clearing_also_refuses_what_was_asked_for_before() -> None:
    cache = ToolResultCache()
    epoch = cache.epoch()
    await cache.put("old", result("x"), epoch)
    cache.renew("another")
    await cache.put("late", result("x"), epoch)
    assert await cache.get("old") is None
    assert await cache.get("late") is None
    await cache.put("new", result("x"), cache.epoch())
    assert await cache.get("new") is not None


@pytest.mark.parametrize("odd", [{"a": {1, 2}}, {"a": float("nan")}, {"a": b"x"}])
async def test_what_is_no_json_is_not_kept(odd: Any) -> None:
    cache = ToolResultCache()
    await cache.put("k", odd, cache.epoch())
    assert await cache.get("k") is None


@pytest.mark.parametrize("bad", [{"ttl": 0}, {"max_entries": -1}, {"max_bytes": "1M"}, {"ttl": True}])
def test_bounds_that_mean_nothing_are_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match="cache"):
        ToolResultCache(**bad)
