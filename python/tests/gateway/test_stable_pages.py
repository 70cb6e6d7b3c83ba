"""Stable pages over a store: in order while it works, and still pages when it does not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from leafgate.browse.cards import BREAKPOINT_ID
from leafgate.gateway.browse import remember_hydration, stable_order
from leafgate.model.errors import StoreError
from leafgate.model.request import Request
from leafgate.model.tool import ChoiceCard
from leafgate.state.memory import MemoryBrowseStates

pytestmark = pytest.mark.anyio

A, B, C = (ChoiceCard(name, name, "") for name in "abc")
ANN, BEN = (Request(principal=name) for name in ("ann", "ben"))


class Down(MemoryBrowseStates):
    async def load(self, owner: str) -> Mapping[str, ChoiceCard | None]:
        raise StoreError("gone")


async def test_what_was_seen_comes_first() -> None:
    states = MemoryBrowseStates()
    assert [*await stable_order(states, ANN, [C])] == [C]
    await remember_hydration(states, ANN, "b")
    assert [card.id for card in await stable_order(states, ANN, [A, B, C])] == ["b", "c", BREAKPOINT_ID, "a"]
    assert [card.id for card in await stable_order(states, BEN, [C, A])] == ["a", "c"]


async def test_without_states_pages_are_as_they_are() -> None:
    assert await stable_order(None, ANN, [C, A]) == [C, A]
    await remember_hydration(None, ANN, "a")


async def test_a_store_that_fails_costs_the_order_alone(caplog: pytest.LogCaptureFixture) -> None:
    assert await stable_order(Down(), ANN, [C, A]) == [C, A]
    await remember_hydration(Down(), ANN, "a")
    assert caplog.text.count("gone") == 2
