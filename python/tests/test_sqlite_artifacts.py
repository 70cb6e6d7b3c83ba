"""Artifacts in a file: they outlive the process, are small on disk, and no jump of a clock keeps them forever."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from stores import Time

from leafgate.model.envelope import Artifact
from leafgate.storage.sqlite_artifacts import SqliteArtifactStore
from leafgate.storage.sqlite_file import SqliteFile

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
    store = SqliteArtifactStore(file, ttl=60, now=time)
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
    store = SqliteArtifactStore(file, ttl=60, now=time)
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
