"""Stable pages over a store: in order while it works, and still pages when it does not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from leafgate.browse.stable import BREAKPOINT_ID
from leafgate.gateway.stable_pages import remember_hydrated, stable_page
from leafgate.model.card import ChoiceCard
from leafgate.model.errors import StoreError
from leafgate.storage.browse_states import MemoryBrowseStates

pytestmark = pytest.mark.anyio

A, B, C = (ChoiceCard(name, name, "") for name in "abc")


class Down(MemoryBrowseStates):
    async def seen(self, owner: str) -> Mapping[str, ChoiceCard | None]:
        raise StoreError("gone")


async def test_what_was_seen_comes_first() -> None:
    states = MemoryBrowseStates()
    assert [*await stable_page(states, "ann", [C])] == [C]
    await remember_hydrated(states, "ann", "b")
    assert [card.id for card in await stable_page(states, "ann", [A, B, C])] == ["b", "c", BREAKPOINT_ID, "a"]
    assert [card.id for card in await stable_page(states, "ben", [C, A])] == ["a", "c"]


async def test_without_states_pages_are_as_they_are() -> None:
    assert await stable_page(None, "ann", [C, A]) == [C, A]
    await remember_hydrated(None, "ann", "a")


async def test_a_store_that_fails_costs_the_order_alone(caplog: pytest.LogCaptureFixture) -> None:
    assert await stable_page(Down(), "ann", [C, A]) == [C, A]
    await remember_hydrated(Down(), "ann", "a")
    assert caplog.text.count("gone") == 2
