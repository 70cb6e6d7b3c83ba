"""Cards as bytes: the same again, not too many, and damage is told."""

from __future__ import annotations

import pytest

from leafgate.model.card import ChoiceCard
from leafgate.model.errors import StoreError
from leafgate.storage.packed import pack
from leafgate.storage.stored_cards import MOST_BYTES, read_cards, write_cards


def test_the_same_cards_again_in_their_order() -> None:
    seen = {"b": ChoiceCard("b", "b", "\ud800 odd", ("x",)), "a": None}
    written = write_cards(seen)
    assert written is not None
    assert [*read_cards(written).items()] == [*seen.items()]


def test_too_many_are_not_kept() -> None:
    assert write_cards({"a": ChoiceCard("a", "a", "x" * MOST_BYTES)}) is None


@pytest.mark.parametrize(
    "told", [b"", b"[]", b"5", b'{"a": 5}', b'{"a": {}}', b'{"a": {"tags": 5}}', b'{"a": {"x": 1, "tags": []}}']
)
def test_damage_is_told(told: bytes) -> None:
    with pytest.raises(StoreError):
        read_cards(pack(told))
