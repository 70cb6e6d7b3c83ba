"""Which encoding is chosen, that bytes come back, and that a small body cannot grow beyond its budget."""

from __future__ import annotations

import gzip
import sys
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.codec.compression import (
    ENCODINGS,
    CompressionError,
    CompressionReason,
    Compressor,
    Decompressor,
    Encoding,
    choose_encoding,
    compress,
    decompress,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BUDGET = 1 << 20
BOTH = pytest.mark.parametrize("encoding", ENCODINGS)


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, zstd", "zstd"),
        ("gzip, deflate, br", "gzip"),
        ("GZIP;Q=0.5", "gzip"),
        ("zstd;q=0.5, gzip;q=0.8", "gzip"),
        ("*", "zstd"),
        ("zstd;q=0, *", "gzip"),
        ("gzip;q=0.5, *;q=0.1", "gzip"),
        ("identity;q=0.5, gzip", "gzip"),
        ("gzip;q=1.000", "gzip"),
        ("", None),
        ("identity", None),
        ("br, deflate", None),
        ("gzip;q=0", None),
        ("gzip;q=0, zstd;q=0.0", None),
        ("*;q=0", None),
        ("identity, gzip;q=0.9", None),
        ("gzip;q=nonsense", None),
        ("gzip;q=nan", None),
        ("gzip;q=-1", None),
        ("gzip;q=2", None),
        ("gzipped", None),
        ("x-gzip", None),
        (",;,=", None),
        ("gzip;q", None),
    ],
)
def test_choice(header: str, chosen: Encoding | None) -> None:
    assert choose_encoding(header) == chosen


@given(st.text())
def test_any_header_gets_a_choice(header: str) -> None:
    assert choose_encoding(header) in (*ENCODINGS, None)


@BOTH
@given(data=st.binary(max_size=5000))
def test_what_is_packed_comes_back(encoding: Encoding, data: bytes) -> None:
    assert decompress(compress(data, encoding), encoding, BUDGET) == data


def test_others_can_read_it() -> None:
    data = b"the cat sat on the mat " * 100
    assert gzip.decompress(compress(data, "gzip")) == data
    assert zstd.decompress(compress(data, "zstd")) == data
    assert len(compress(data, "gzip")) < 100
    assert len(compress(data, "zstd")) < 100


@BOTH
@given(messages=st.lists(st.binary(min_size=1, max_size=300), max_size=6))
def test_each_message_can_be_read_as_soon_as_it_is_sent(encoding: Encoding, messages: list[bytes]) -> None:
    writer, reader = Compressor(encoding), Decompressor(encoding, BUDGET)
    for message in messages:
        assert b"".join(reader.feed(writer.add(message))) == message
    assert b"".join(reader.feed(writer.end())) == b""
    reader.end()


@BOTH
def test_a_body_byte_by_byte(encoding: Encoding) -> None:
    data = bytes(range(256)) * 40
    packed = compress(data, encoding)
    reader = Decompressor(encoding, len(data))
    steps = [step for at in range(len(packed)) for step in reader.feed(packed[at : at + 1])]
    assert b"".join(steps) == data
    reader.end()


@BOTH
@pytest.mark.parametrize("size", [BUDGET - 1, BUDGET, 3 * BUDGET, 5 * BUDGET + 1])
def test_the_budget_itself_is_allowed(encoding: Encoding, size: int) -> None:
    assert decompress(compress(bytes(size), encoding), encoding, size) == bytes(size)
    with pytest.raises(CompressionError) as caught:
        decompress(compress(bytes(size), encoding), encoding, size - 1)
    assert caught.value.reason == "too-large"


@BOTH
def test_a_bomb_is_refused_while_it_grows(encoding: Encoding) -> None:
    bomb = compress(bytes(1 << 30), encoding) if encoding == "zstd" else compress(bytes(1 << 28), encoding)
    assert len(bomb) < 1 << 20
    reader = Decompressor(encoding, BUDGET)
    with pytest.raises(CompressionError) as caught:
        list(reader.feed(bomb))
    assert caught.value.reason == "too-large"


def test_a_window_that_is_larger_than_the_web_allows_is_refused() -> None:
    wide = zstd.compress(bytes(1 << 25), options={zstd.CompressionParameter.window_log: 25})
    with pytest.raises(CompressionError) as caught:
        decompress(wide, "zstd", 1 << 30)
    assert caught.value.reason == "bad-data"


@BOTH
def test_wrong_bodies(encoding: Encoding) -> None:
    good = compress(b"the cat" * 50, encoding)
    middle = len(good) // 2
    refused: list[tuple[bytes, CompressionReason]] = [
        (b"", "truncated"),
        (good[:3], "truncated"),
        (good[:-1], "truncated"),
        (good + b"x", "trailing-bytes"),
        (good + good, "trailing-bytes"),
        (b"the cat", "bad-data"),
        (zlib.compress(b"the cat"), "bad-data"),
        (compress(b"the cat", "zstd" if encoding == "gzip" else "gzip"), "bad-data"),
    ]
    for body, reason in refused:
        with pytest.raises(CompressionError) as caught:
            decompress(body, encoding, BUDGET)
        assert caught.value.reason == reason, body
    with pytest.raises(CompressionError):
        decompress(good[:middle] + bytes(8) + good[middle:], encoding, BUDGET)


@BOTH
def test_bytes_in_a_chunk_of_their_own_behind_the_end(encoding: Encoding) -> None:
    reader = Decompressor(encoding, BUDGET)
    assert list(reader.feed(compress(b"the cat", encoding))) == [b"the cat"]
    with pytest.raises(CompressionError) as caught:
        list(reader.feed(b"x"))
    assert caught.value.reason == "trailing-bytes"


@BOTH
@given(garbage=st.binary(max_size=300))
def test_garbage_is_refused_or_unpacked(encoding: Encoding, garbage: bytes) -> None:
    with suppress(CompressionError):
        assert len(decompress(garbage, encoding, BUDGET)) <= BUDGET


@BOTH
@given(data=st.binary(min_size=1, max_size=300), place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_one_wrong_byte_never_crashes(encoding: Encoding, data: bytes, place: int, byte: int) -> None:
    packed = bytearray(compress(data, encoding))
    packed[place % len(packed)] = byte
    with suppress(CompressionError):
        decompress(bytes(packed), encoding, BUDGET)
