"""Cuts an answer into messages, whatever its media type. In: its bytes in parts. Out: messages. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from leafgate.codec.frames import CONTENT_TYPE, FrameError, FrameReader, Message
from leafgate.codec.message_json import message_from_json
from leafgate.codec.sse_events import EventReader

JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"
KINDS: Final = (CONTENT_TYPE, JSON_TYPE, SSE_TYPE)


class AnswerReader(Protocol):
    """Each message is given as soon as it is whole. FrameError and EventError for what is none."""

    def feed(self, part: bytes) -> Iterator[Message]: ...

    def end(self) -> Iterator[Message]: ...


def choose_reader(media_type: str, max_message_bytes: int) -> AnswerReader:
    """A page of HTML, or a plain status, holds no messages."""
    if media_type == CONTENT_TYPE:
        return _Frames(max_message_bytes)
    if media_type == SSE_TYPE:
        return _Events(max_message_bytes)
    if media_type == JSON_TYPE:
        return _Json(max_message_bytes)
    return _Nothing()


class _Frames:
    def __init__(self, limit: int) -> None:
        self._frames = FrameReader(limit)

    def feed(self, part: bytes) -> Iterator[Message]:
        return self._frames.feed(part)

    def end(self) -> Iterator[Message]:
        self._frames.end()
        return iter(())


class _Events:
    def __init__(self, limit: int) -> None:
        self._events = EventReader(limit)

    def feed(self, part: bytes) -> Iterator[Message]:
        return (message_from_json(event.data) for event in self._events.feed(part) if event.data)

    def end(self) -> Iterator[Message]:
        return iter(())


class _Json:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()

    def feed(self, part: bytes) -> Iterator[Message]:
        self._held += part
        if len(self._held) > self._limit:
            raise FrameError("too-large", f"an answer is larger than {self._limit} bytes")
        return iter(())

    def end(self) -> Iterator[Message]:
        return iter([message_from_json(bytes(self._held))] if self._held else [])


class _Nothing:
    def feed(self, part: bytes) -> Iterator[Message]:
        return iter(())

    def end(self) -> Iterator[Message]:
        return iter(())
