"""Bytes as stores keep them: compressed where that is worth it. In: bytes. Out: packed bytes; or the bytes again.

Touches nothing. The first byte says how the others are written.
"""

from __future__ import annotations

from typing import Final

from leafgate.codec.compression import CompressionError, compress, decompress
from leafgate.model.errors import StoreError

COMPRESS_FROM: Final = 1024
_PLAIN: Final = b"\x00"
_ZSTD: Final = b"\x01"


def pack(data: bytes) -> bytes:
    """Compressed from COMPRESS_FROM bytes on, and only where it saves anything."""
    if len(data) >= COMPRESS_FROM:
        smaller = compress(data, "zstd")
        if len(smaller) < len(data):
            return _ZSTD + smaller
    return _PLAIN + data


def unpack(packed: bytes, most: int) -> bytes:
    """The bytes; StoreError where they are damaged, or more than `most`."""
    kind, data = packed[:1], packed[1:]
    if kind == _PLAIN and len(data) <= most:
        return data
    if kind != _ZSTD:
        raise StoreError("something in the store is damaged: its kind or its size is wrong")
    try:
        return decompress(data, "zstd", most)
    except CompressionError as error:
        raise StoreError(f"something in the store is damaged: {error}") from None
