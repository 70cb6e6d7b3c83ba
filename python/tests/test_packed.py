"""Bytes in stores: small where it pays, the same again, and damage is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.model.errors import StoreError
from leafgate.storage.packed import COMPRESS_FROM, pack, unpack


@given(st.binary(max_size=3_000) | st.binary(max_size=20).map(lambda part: part * 500))
def test_the_same_bytes_again(data: bytes) -> None:
    assert unpack(pack(data), len(data)) == data


def test_only_what_is_large_and_shrinks_is_compressed() -> None:
    assert len(pack(b"x" * COMPRESS_FROM)) < 100
    assert len(pack(b"x" * (COMPRESS_FROM - 1))) == COMPRESS_FROM


@pytest.mark.parametrize(
    ("packed", "most"),
    [
        (b"", 10),
        (b"\x02abc", 10),
        (b"\x00abc", 2),
        (b"\x01abc", 10),
        (pack(b"x" * 5_000)[:-3], 5_000),
        (pack(b"x" * 5_000), 4_999),
        (pack(b"x" * 5_000) + b"more", 5_000),
    ],
)
def test_damage_is_told(packed: bytes, most: int) -> None:
    with pytest.raises(StoreError):
        unpack(packed, most)
