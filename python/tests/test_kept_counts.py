"""Counters beyond a process: they survive it, sum over replicas, and a store that fails loses nothing."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from redis_server import RedisServer

from leafgate.model.call import Origin
from leafgate.model.errors import StoreError
from leafgate.ports import Counts, LeafReport
from leafgate.storage.redis_counts import RedisSharedCounts
from leafgate.storage.redis_link import RedisLink
from leafgate.storage.sqlite_counts import SqliteSharedCounts
from leafgate.storage.sqlite_file import SqliteFile
from leafgate.telemetry.kept_counts import KeptCounts
from leafgate.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio

MAP = "sha256:" + "0" * 64


def count(metrics: Metrics, times: int = 1) -> None:
    for _ in range(times):
        metrics.leaf(Origin("disk", "read"), MAP, LeafReport("leaf", 10))
        metrics.detokenized(MAP, 5, 0.1)


def told(metrics: Metrics) -> tuple[int, int, int]:
    codec = metrics.as_json()["codec"]
    return codec["leafBypasses"], codec["detokenizeCalls"], codec["byVocab"].get(MAP, {}).get("leafBypasses", 0)


async def test_a_later_process_goes_on_counting(tmp_path: Path) -> None:
    for run in range(3):
        file = SqliteFile(tmp_path / "state.db")
        metrics = Metrics(lambda run=run: f"day {run}")  # type: ignore[misc]
        kept = KeptCounts(metrics, SqliteSharedCounts(file))
        await kept.settle()
        assert told(metrics) == (2 * run,) * 3
        count(metrics, 2)
        assert told(metrics) == (2 * run + 2,) * 3
        for _ in range(2):
            await kept.settle()
        assert told(metrics) == (2 * run + 2,) * 3
        assert metrics.as_json()["codec"]["since"] == "day 0"
        assert metrics.leaves.by_map()[MAP].blocks["leaf"] == 2  # its own, for Prometheus
        await file.close()


async def test_replicas_know_of_each_other(redis: RedisServer) -> None:
    links = [RedisLink(redis.url) for _ in range(2)]
    replicas = [Metrics(lambda: "today") for _ in links]
    keeping = [
        KeptCounts(metrics, RedisSharedCounts(link), pause_seconds=0.02)
        for metrics, link in zip(replicas, links, strict=True)
    ]
    async with anyio.create_task_group() as group:
        for each in keeping:
            group.start_soon(each.run)
        count(replicas[0], 3)
        count(replicas[1], 4)
        with anyio.fail_after(60):
            while [told(metrics) for metrics in replicas] != [(7, 7, 7)] * 2:
                await keeping[0].settle()
        group.cancel_scope.cancel()
    for link in links:
        await link.close()


async def test_a_store_that_fails_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Moody(SqliteSharedCounts):
        fails = True

        async def add(self, counts: Counts, since: str) -> None:
            if self.fails:
                raise StoreError("not today")
            await super().add(counts, since)

    file = SqliteFile(tmp_path / "state.db")
    store, metrics = Moody(file), Metrics(lambda: "today")
    kept = KeptCounts(metrics, store)
    for _ in range(3):
        count(metrics)
        await kept.settle()
    assert told(metrics) == (3, 3, 3)
    assert caplog.text.count("not today") == 1
    store.fails = False
    await kept.settle()
    sums, _ = await store.sums()
    assert sums["detokenized", MAP] == 3
    await file.close()
