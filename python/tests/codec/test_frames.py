"""Frames: the shared cases with the stream cut at every place, what comes back, and what garbage does."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.codec.frames import (
    MAX_MESSAGE_BYTES,
    Event,
    EventError,
    EventReader,
    FrameError,
    FrameReader,
    FrameReason,
    json_from_packed,
    pack_frame,
    pack_message,
    packed_from_json,
    unpack_message,
)

FIXTURES = Path(__file__).resolve().parents[3] / "shared-fixtures" / "frames"
CASES = [case for path in sorted(FIXTURES.rglob("*.json")) for case in json.loads(path.read_bytes())["cases"]]

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
MESSAGES = st.dictionaries(st.text(), JSON_VALUES)


def expand(value: Any) -> Any:
    """The compact forms of shared-fixtures/README.md."""
    if isinstance(value, list):
        return [expand(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"repeat", "times"}:
        return expand(value["repeat"]) * value["times"]
    if value.keys() == {"concat"}:
        return "".join(expand(value["concat"]))
    return {key: expand(item) for key, item in value.items()}


def read(chunks: Iterable[bytes], max_bytes: int = MAX_MESSAGE_BYTES) -> dict[str, Any]:
    reader = FrameReader(max_bytes)
    messages: list[Any] = []
    try:
        for chunk in chunks:
            messages += reader.feed(chunk)
        reader.end()
    except FrameError as error:
        return {"error": error.reason}
    return {"messages": messages}


def cuts(stream: bytes) -> list[list[bytes]]:
    """The stream whole, in two pieces at up to 400 places, and byte by byte where it is short."""
    step = max(1, len(stream) // 400)
    halves = [[stream[:at], stream[at:]] for at in range(0, len(stream) + 1, step)]
    single = [[stream[at : at + 1] for at in range(len(stream))]] if len(stream) < 1000 else []
    return [[stream], *(halves if len(stream) < 100_000 else halves[:5]), *single]


def cases(command: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [c for c in CASES if c["command"] == command], ids=lambda c: c["name"])


@cases("frame")
def test_shared_writing(case: dict[str, Any]) -> None:
    assert pack_frame(expand(case["input"]["message"])).hex() == expand(case["expect"]["frame"])


@cases("frame")
def test_what_is_written_is_read(case: dict[str, Any]) -> None:
    frame = bytes.fromhex(expand(case["expect"]["frame"]))
    assert read([frame]) == {"messages": [expand(case["input"]["message"])]}


@cases("unframe")
def test_shared_streams(case: dict[str, Any]) -> None:
    stream = bytes.fromhex(expand(case["input"]["frames"]))
    for chunks in cuts(stream):
        assert read(chunks, case["input"].get("max_bytes", MAX_MESSAGE_BYTES)) == case["expect"]


@cases("unpack")
def test_shared_request_bodies(case: dict[str, Any]) -> None:
    body = bytes.fromhex(case["input"]["body"])
    if "error" in case["expect"]:
        with pytest.raises(FrameError) as caught:
            unpack_message(body)
        assert caught.value.reason == case["expect"]["error"]
    else:
        assert unpack_message(body) == case["expect"]["message"]


def test_twice_as_many_refusals() -> None:
    refused = sum("error" in case["expect"] for case in CASES)
    assert refused >= 2 * (len(CASES) - refused) > 0


def test_a_message_is_given_as_soon_as_its_last_byte_is_there() -> None:
    first, second = pack_frame({"a": 1}), pack_frame({"b": 2})
    reader = FrameReader()
    assert list(reader.feed(first + second[:-1])) == [{"a": 1}]
    assert list(reader.feed(second[-1:])) == [{"b": 2}]
    reader.end()


def test_a_good_message_before_a_bad_frame_is_given() -> None:
    messages = FrameReader().feed(pack_frame({"a": 1}) + bytes(4))
    assert next(messages) == {"a": 1}
    with pytest.raises(FrameError):
        next(messages)


def test_lengths_that_lie_cost_no_memory() -> None:
    """Each of a thousand nested arrays announces four million elements: room for them all would be 32 GB."""
    tower = b"\x81\xa1a" + b"\xdd\x00\x3f\xff\xff" * 1000
    with pytest.raises(FrameError) as caught:
        unpack_message(tower + bytes((4 << 20) - len(tower)))
    assert caught.value.reason == "bad-msgpack"


@given(st.lists(MESSAGES, max_size=5), st.lists(st.integers(0, 2000), max_size=8))
def test_any_messages_come_back_however_the_stream_is_cut(messages: list[dict[str, Any]], places: list[int]) -> None:
    stream = b"".join(map(pack_frame, messages))
    at = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    chunks = [stream[start:end] for start, end in pairwise(at)]
    found = read(chunks)["messages"]
    assert found == messages
    assert list(map(pack_frame, found)) == list(map(pack_frame, messages))


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_read_never_more(garbage: bytes) -> None:
    try:
        message = unpack_message(garbage)
    except FrameError:
        return
    json.dumps(message, allow_nan=False).encode()
    assert unpack_message(pack_message(message)) == message


@given(MESSAGES, st.integers(0, 10_000), st.integers(0, 255))
def test_one_wrong_byte_never_gives_what_json_cannot_say(message: dict[str, Any], place: int, byte: int) -> None:
    packed = bytearray(pack_message(message))
    packed[place % len(packed)] = byte
    answer = read([len(packed).to_bytes(4) + packed])
    json.dumps(answer, allow_nan=False).encode()


@given(st.binary(max_size=200))
def test_a_stream_of_garbage_ends(garbage: bytes) -> None:
    assert read([garbage], 1000) == read([garbage[at : at + 1] for at in range(len(garbage))], 1000)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_has_not(value: float) -> None:
    with pytest.raises(FrameError, match="JSON"):
        unpack_message(pack_message({"deep": [{"in": [1, 2.5, value]}]}))


def test_a_long_list_of_ids_comes_back() -> None:
    ids = list(range(300_000))
    assert unpack_message(pack_message({"ids": ids})) == {"ids": ids}


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


def read_events(*chunks: bytes) -> list[Event]:
    reader = EventReader()
    return [event for chunk in chunks for event in reader.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b'event: message\r\ndata: {"a":1}\r\n\r\n', [Event(b'{"a":1}')]),
        (b"data:x\n\n", [Event(b"x")]),
        (b"data:  x\n\n", [Event(b" x")]),
        (b"id: 7\ndata: x\n\n", [Event(b"x", "7")]),
        (b"id: 7\r\ndata: \r\nretry: 1000\r\n\r\n", [Event(b"", "7")]),
        (b"data: one\ndata: two\n\n", [Event(b"one\ntwo")]),
        (b"data: 1\n\ndata: 2\n\n", [Event(b"1"), Event(b"2")]),
        (b"data: a:b: c\n\n", [Event(b"a:b: c")]),
        (": ping\n\ndata: \u2028é\n\n".encode(), [Event("\u2028é".encode())]),
        (b": ping\r\n\r\n", []),
        (b"\n\n\n", []),
        (b"retry: 5\n\n", []),
        (b"data\n\n", [Event(b"")]),
        (b"data: a\rb\r\n\n", [Event(b"a\rb")]),
        (b"data:\r\n\r\n", [Event(b"")]),
        (b"data: x\n", []),
        (b"data: x", []),
        (b"date: x\n\n", []),
        (b"id: a\0b\n\n", []),
        (b"", []),
    ],
)
def test_events(stream: bytes, events: list[Event]) -> None:
    assert read_events(stream) == events
    assert read_events(*(stream[at : at + 1] for at in range(len(stream)))) == events


def test_an_id_belongs_to_its_own_event() -> None:
    assert read_events(b"id: 1\ndata: a\n\ndata: b\n\n") == [Event(b"a", "1"), Event(b"b")]


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_garbage_is_cut_the_same_however_it_comes(chunks: list[bytes]) -> None:
    assert read_events(*chunks) == read_events(b"".join(chunks))


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 200, b"data: xxxxxxxxxx\n" * 20, b":" * 101])
def test_an_event_without_end_is_not_collected(stream: bytes) -> None:
    reader = EventReader(max_bytes=100)
    with pytest.raises(EventError):
        list(reader.feed(stream))


def test_an_event_within_the_limit() -> None:
    reader = EventReader(max_bytes=100)
    assert list(reader.feed(b"data: " + b"x" * 90 + b"\n\n" + b"data: " + b"y" * 90 + b"\n\n")) == [
        Event(b"x" * 90),
        Event(b"y" * 90),
    ]
