"""Server-sent events in chunks of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.codec.sse_events import Event, EventError, EventReader


def read(*chunks: bytes) -> list[Event]:
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
    assert read(stream) == events
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == events


def test_an_id_belongs_to_its_own_event() -> None:
    assert read(b"id: 1\ndata: a\n\ndata: b\n\n") == [Event(b"a", "1"), Event(b"b")]


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_garbage_is_cut_the_same_however_it_comes(chunks: list[bytes]) -> None:
    assert read(*chunks) == read(b"".join(chunks))


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
