"""What was seen, in memory: bounded."""

from __future__ import annotations

import pytest

from leafgate.storage.browse_states import MemoryBrowseStates

pytestmark = pytest.mark.anyio


async def test_the_owner_longest_not_heard_of_is_forgotten() -> None:
    states = MemoryBrowseStates(max_owners=2)
    for owner in ("ann", "ben", "ann", "cid"):
        await states.keep(owner, {owner: None})
    assert [await states.seen(owner) for owner in ("ann", "ben", "cid")] == [{"ann": None}, {}, {"cid": None}]
