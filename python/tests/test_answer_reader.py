"""The same messages from frames, events and JSON; and nothing from other media types."""

from __future__ import annotations

import pytest

from leafgate.client.answer_reader import choose_reader
from leafgate.codec.frames import CONTENT_TYPE, FrameError, Message, pack_frame
from leafgate.codec.sse_events import EventError


def read(kind: str, body: bytes, limit: int = 1000) -> list[Message]:
    reader = choose_reader(kind, limit)
    found = [message for at in range(len(body)) for message in reader.feed(body[at : at + 1])]
    return [*found, *reader.end()]


@pytest.mark.parametrize(
    ("kind", "body", "messages"),
    [
        (CONTENT_TYPE, pack_frame({"a": 1}) + pack_frame({"b": 2}), [{"a": 1}, {"b": 2}]),
        ("text/event-stream", b'id: 1\ndata:\n\n: ping\n\ndata: {"a":1}\n\ndata: {"b":2}\n\n', [{"a": 1}, {"b": 2}]),
        ("application/json", b'{"a": 1}', [{"a": 1}]),
        ("application/json", b"", []),
        ("text/html", b"<p>", []),
        ("", b"x", []),
    ],
)
def test_messages(kind: str, body: bytes, messages: list[Message]) -> None:
    assert read(kind, body) == messages


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (CONTENT_TYPE, b"\x00"),
        (CONTENT_TYPE, b"\x00\x00\x10\x00"),
        (CONTENT_TYPE, b'{"a":1}'),
        ("text/event-stream", b"data: [1]\n\n"),
        ("text/event-stream", b"data: {\n\n"),
        ("text/event-stream", b"data: " + b"x" * 1001),
        ("application/json", b"{"),
        ("application/json", b"[]"),
        ("application/json", b'{"a": NaN}'),
        ("application/json", b" " * 1001),
    ],
)
def test_what_is_no_message(kind: str, body: bytes) -> None:
    with pytest.raises((FrameError, EventError)):
        read(kind, body)
