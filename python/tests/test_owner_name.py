"""Names of owners: of one length, and different for different owners."""

from __future__ import annotations

from leafgate.storage.owner_name import name_of


def test_names_are_of_one_length_whatever_an_owner_is_called() -> None:
    assert {len(name_of(owner)) for owner in ("", "ann", "\ud800", "x" * 10_000)} == {40}
    assert name_of("ann") != name_of("Ann")
