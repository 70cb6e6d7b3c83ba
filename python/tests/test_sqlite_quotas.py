"""Counts in a file: bounded in number and age, and a clock that is set back locks nobody out."""

from __future__ import annotations

from pathlib import Path

import pytest
from stores import Time

from leafgate.admission.quota import Limit, RateLimits
from leafgate.storage.quotas import SESSION_SECONDS
from leafgate.storage.sqlite_file import SqliteFile
from leafgate.storage.sqlite_quotas import SqliteQuotas

pytestmark = pytest.mark.anyio

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
    time.now += SESSION_SECONDS - 1
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
