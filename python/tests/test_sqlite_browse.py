"""What was seen, in a file: known to a later process, bounded in owners."""

from __future__ import annotations

from pathlib import Path

import pytest

from leafgate.model.card import ChoiceCard
from leafgate.storage.sqlite_browse import SqliteBrowseStates
from leafgate.storage.sqlite_file import SqliteFile

pytestmark = pytest.mark.anyio

SEEN = {"a": ChoiceCard("a", "a", "first"), "b": None}


async def test_a_later_process_knows_it(tmp_path: Path) -> None:
    for expected in ({}, SEEN):
        file = SqliteFile(tmp_path / "state.db")
        states = SqliteBrowseStates(file)
        states.renew("catalog")
        assert await states.seen("ann") == expected
        await states.keep("ann", SEEN)
        await file.close()


async def test_the_owner_longest_not_heard_of_is_forgotten(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "state.db")
    states = SqliteBrowseStates(file, max_owners=2)
    for owner in ("ann", "ben", "ann", "cid"):
        await states.keep(owner, SEEN)
    assert [await states.seen(owner) == SEEN for owner in ("ann", "ben", "cid")] == [True, False, True]
    await file.close()
