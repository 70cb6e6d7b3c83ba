"""JSON text to msgpack and back: what comes through exactly, what is written differently, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_frames import MESSAGES

from leafgate.codec.frames import FrameError, FrameReason, pack_message, unpack_message
from leafgate.codec.message_json import json_from_packed, packed_from_json


@given(MESSAGES)
def test_a_message_comes_through_both_ways_escaped_or_not(message: dict[str, Any]) -> None:
    escaped, plain = json.dumps(message).encode(), json.dumps(message, ensure_ascii=False).encode()
    packed = packed_from_json(escaped)
    assert packed == packed_from_json(plain)
    assert unpack_message(packed) == message
    assert json.loads(json_from_packed(pack_message(message))) == message


def test_members_keep_their_order() -> None:
    raw = b'{"z":1,"a":{"y":2,"b":3}}'
    assert json_from_packed(packed_from_json(raw)) == raw


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551616", 18446744073709551616.0),
        ("-9223372036854775809", -9223372036854775809.0),
        ("1" + "0" * 300, 1e300),
    ],
)
def test_integers_beyond_64_bits_become_floats(written: str, read: float) -> None:
    found = unpack_message(packed_from_json(f'{{"n":[{written}]}}'.encode()))["n"][0]
    assert found == read
    assert type(found) is type(read)


def test_lone_surrogates_become_the_replacement_character() -> None:
    raw = b'{"a\\udc00":["x\\ud800y", "\\ud83d\\ude00", {"b":"\\udfff"}]}'
    assert unpack_message(packed_from_json(raw)) == {"a\ufffd": ["x\ufffdy", "\U0001f600", {"b": "\ufffd"}]}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "bad-text"),
        (b"{", "bad-text"),
        (b"{}{}", "bad-text"),
        (b"\xff", "bad-text"),
        (b'{"a":\xff}', "bad-text"),
        (b"[]", "not-object"),
        (b'"a"', "not-object"),
        (b"null", "not-object"),
        (b'{"a":NaN}', "not-finite"),
        (b'{"a":-Infinity}', "not-finite"),
        (b'{"a":1' + b"0" * 400 + b"}", "not-finite"),
        (b'{"a":' * 129 + b"1" + b"}" * 129, "too-deep"),
        (b'{"a":' * 250 + b"1" + b"}" * 250, "too-deep"),
        (b"[" * 100_000 + b"]" * 100_000, "too-deep"),
        (b'{"a":"\\ud800", "b":' + b"[" * 150 + b"]" * 150 + b"}", "too-deep"),
    ],
)
def test_what_is_no_message(raw: bytes, reason: FrameReason) -> None:
    with pytest.raises(FrameError) as caught:
        packed_from_json(raw)
    assert caught.value.reason == reason


def test_128_levels_are_allowed() -> None:
    raw = b'{"a":' * 128 + b"1" + b"}" * 128
    assert json_from_packed(packed_from_json(raw)) == raw


@given(st.binary(max_size=200))
def test_garbage_never_crashes(garbage: bytes) -> None:
    for translate in (packed_from_json, json_from_packed):
        try:
            translate(garbage)
        except FrameError:
            continue
