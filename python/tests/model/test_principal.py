"""What can name a principal."""

from __future__ import annotations

import pytest

from leafgate.model.rights import ANONYMOUS, EVERY_CAPABILITY, is_principal_name


@pytest.mark.parametrize("name", ["ann", "auth0|5f7c8ec7c33c6c004bbafe82", "Zoë", "a b", "x" * 256])
def test_a_name(name: str) -> None:
    assert is_principal_name(name)


@pytest.mark.parametrize(
    "name", ["", " ann", "ann ", "a\nb", "a\x00b", "a\u202eb", "a\u200bb", "x" * 257, 7, None, ["ann"]]
)
def test_not_a_name(name: object) -> None:
    assert not is_principal_name(name)


def test_who_has_no_name_does_not_operate() -> None:
    assert ANONYMOUS.name is None
    assert EVERY_CAPABILITY - ANONYMOUS.capabilities == {"operate"}
