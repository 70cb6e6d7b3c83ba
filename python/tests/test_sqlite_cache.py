"""Results in a file: found by a later process with the same catalog, and by no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from stores import Time

from leafgate.storage.result_cache import CacheBounds
from leafgate.storage.sqlite_cache import SqliteResultCache
from leafgate.storage.sqlite_file import SqliteFile

pytestmark = pytest.mark.anyio

RESULT = {"content": [{"type": "text", "text": "x" * 3_000}]}


async def test_a_later_process_with_the_same_catalog_finds_it(tmp_path: Path) -> None:
    found = []
    for catalog in ("one", "one", "two"):
        file = SqliteFile(tmp_path / "state.db")
        cache = SqliteResultCache(file, CacheBounds())
        cache.renew(catalog)
        found.append(await cache.get("k"))
        await cache.put("k", RESULT, cache.epoch())
        await file.close()
    assert found == [None, RESULT, None]


async def test_a_clock_that_is_set_back_ends_results(tmp_path: Path) -> None:
    time, file = Time(), SqliteFile(tmp_path / "state.db")
    cache = SqliteResultCache(file, CacheBounds(ttl=10), clock=time)
    await cache.put("k", RESULT, "")
    time.now += 9
    assert await cache.get("k") == RESULT
    time.now -= 1_000
    assert await cache.get("k") is None
    await file.close()
