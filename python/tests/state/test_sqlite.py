"""Artifacts in a file: they outlive the process, are small on disk, and no jump of a clock keeps them forever."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from stores import Time

from leafgate.admission.policy import Limit, RateLimits
from leafgate.model.envelope import Artifact
from leafgate.model.tool import ChoiceCard
from leafgate.state.records import CALL_COUNT_SECONDS, MAX_NAMES, ArtifactLimits, CacheBounds
from leafgate.state.sqlite import (
    SqliteArtifactStore,
    SqliteBrowseStates,
    SqliteQuotas,
    SqliteResultCache,
    SqliteSharedCounts,
)
from leafgate.state.sqlite_file import SqliteFile

pytestmark = pytest.mark.anyio


async def test_a_handle_outlives_the_process(tmp_path: Path) -> None:
    kept = Artifact(b"a line of a log\n" * 50_000, "text/plain", "log")
    first = SqliteFile(tmp_path / "state.db")
    handle = str(await SqliteArtifactStore(first).put("me", kept))
    await first.close()
    assert (tmp_path / "state.db").stat().st_size < len(kept.content) // 5
    second = SqliteFile(tmp_path / "state.db")
    store = SqliteArtifactStore(second)
    assert await store.get("me", handle) == kept
    assert await store.put("me", kept) == handle
    await second.close()


async def test_two_processes_at_one_file_share_handles(tmp_path: Path) -> None:
    files = [SqliteFile(tmp_path / "state.db") for _ in range(2)]
    one, two = (SqliteArtifactStore(file) for file in files)
    kept = Artifact(b"data", "text/plain", "")
    handle = str(await one.put("me", kept))
    assert await two.get("me", handle) == kept
    assert await two.put("me", kept) == handle
    for file in files:
        await file.close()


async def test_times_end_also_when_the_clock_is_set_back(tmp_path: Path) -> None:
    time, file = Time(), SqliteFile(tmp_path / "state.db")
    store = SqliteArtifactStore(file, ArtifactLimits(ttl=60), clock=time)
    first = str(await store.put("me", Artifact(b"one", "", "")))
    time.now += 59
    assert await store.get("me", first) is not None
    time.now += 1
    assert await store.get("me", first) is None
    second = str(await store.put("me", Artifact(b"two", "", "")))
    time.now -= 100_000
    assert await store.get("me", second) is None
    await file.close()


async def test_nothing_is_left_of_what_has_ended(tmp_path: Path) -> None:
    time, file = Time(), SqliteFile(tmp_path / "state.db")
    store = SqliteArtifactStore(file, ArtifactLimits(ttl=60), clock=time)
    for n in range(10):
        await store.put(f"owner {n}", Artifact(b"x" * 10_000, "", ""))
    time.now += 61
    assert await store.get("me", "0" * 24) is None
    assert await store.used() == 0
    await file.close()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        for table in ("artifacts", "contents", "artifact_owners"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    connection.close()


SEEN = {"a": ChoiceCard("a", "a", "first"), "b": None}


async def test_a_later_process_knows_it(tmp_path: Path) -> None:
    for expected in ({}, SEEN):
        file = SqliteFile(tmp_path / "state.db")
        states = SqliteBrowseStates(file)
        states.renew("catalog")
        assert await states.load("ann") == expected
        await states.save("ann", SEEN)
        await file.close()


async def test_the_owner_longest_not_heard_of_is_forgotten(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "state.db")
    states = SqliteBrowseStates(file, max_owners=2)
    for owner in ("ann", "ben", "ann", "cid"):
        await states.save(owner, SEEN)
    assert [await states.load(owner) == SEEN for owner in ("ann", "ben", "cid")] == [True, False, True]
    await file.close()


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


NAME = ("blocks", "dä sk", "read\n", "sha256:0", "leaf")


async def test_sums_outlive_processes(tmp_path: Path) -> None:
    for run in range(3):
        file = SqliteFile(tmp_path / "state.db")
        counts = SqliteSharedCounts(file)
        assert await counts.sums() == (({NAME: 2.5 * run}, "run 0") if run else ({}, ""))
        await counts.add({NAME: 2.5}, f"run {run}")
        await file.close()


async def test_names_are_bounded(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "state.db")
    counts = SqliteSharedCounts(file)
    await counts.add({(str(n),): 1 for n in range(MAX_NAMES + 5)}, "now")
    await counts.add({("0",): 1, ("new",): 1}, "now")
    sums, _ = await counts.sums()
    assert len(sums) == MAX_NAMES
    assert sums["0",] == 2
    await file.close()


LIMITS = RateLimits({"tool_execute": Limit(max_calls_per_minute=2, max_calls_per_session=100)})


async def test_spaces_are_counted_apart(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "state.db")
    for space in ("", "principals.ann"):
        quotas = SqliteQuotas(file, LIMITS, space=space, clock=Time())
        assert [await quotas.take("ann", ["tool_execute"]) is None for _ in range(3)] == [True, True, False]
    await file.close()


async def test_a_clock_that_is_set_back_locks_nobody_out(tmp_path: Path) -> None:
    time, file = Time(), SqliteFile(tmp_path / "state.db")
    quotas = SqliteQuotas(file, LIMITS, clock=time)
    assert [await quotas.take("ann", ["tool_execute"]) is None for _ in range(3)] == [True, True, False]
    time.now -= 3_600
    assert await quotas.take("ann", ["tool_execute"]) is None
    await file.close()


async def test_a_session_is_over_after_a_day_without_a_call(tmp_path: Path) -> None:
    time, file = Time(), SqliteFile(tmp_path / "state.db")
    quotas = SqliteQuotas(file, RateLimits({"tool_view": Limit(max_calls_per_session=1)}), clock=time)
    assert await quotas.take("ann", ["tool_view"]) is None
    time.now += CALL_COUNT_SECONDS - 1
    assert await quotas.take("ann", ["tool_view"]) is not None
    time.now += 1
    assert await quotas.take("ann", ["tool_view"]) is None
    await file.close()


async def test_counters_are_bounded(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "state.db")
    quotas = SqliteQuotas(file, LIMITS, clock=Time(), max_counters=10)
    for n in range(50):
        await quotas.take(f"owner {n}", ["tool_execute"])
    assert await file.run(lambda connection: connection.execute("SELECT count(*) FROM usage").fetchone()) == (10,)
    await file.close()
