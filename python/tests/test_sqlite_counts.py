"""Sums in a file: of all processes, and bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from leafgate.storage.sqlite_counts import SqliteSharedCounts
from leafgate.storage.sqlite_file import SqliteFile
from leafgate.storage.state import MAX_NAMES

pytestmark = pytest.mark.anyio

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
