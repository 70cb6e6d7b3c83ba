"""Cuts a stream of server-sent events into events. In: bytes in chunks of any size. Out: events. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from leafgate.model.errors import LeafgateError

_CR: Final = 0x0D


class EventError(LeafgateError):
    """An event is larger than the reader takes."""


@dataclass(frozen=True)
class Event:
    """One event: its data, empty in an event that only names the stream's place, and its id."""

    data: bytes
    id: str | None = None


class EventReader:
    """Lines end with LF or CRLF, as MCP servers write them. Comments (keep-alives) and other fields are dropped."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._searched = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete; to be iterated to its end before the next chunk."""
        self._held += chunk
        while (line := self._next_line()) is not None:
            event = self._take(line)
            if event is not None:
                yield event

    def _next_line(self) -> bytes | None:
        end = self._held.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._held)
            self._check_size(self._data_bytes + self._searched)
            return None
        stop = end - 1 if end and self._held[end - 1] == _CR else end
        line = bytes(memoryview(self._held)[:stop])
        del self._held[: end + 1]
        self._searched = 0
        return line

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._finish()
        colon = line.find(b":")
        name = line if colon < 0 else line[:colon]
        value = b"" if colon < 0 else line[colon + (2 if line[colon + 1 : colon + 2] == b" " else 1) :]
        if name == b"data":
            self._data_bytes += len(value)
            self._check_size(self._data_bytes)
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        return None

    def _finish(self) -> Event | None:
        event = Event(b"\n".join(self._data), self._id) if self._data or self._id is not None else None
        self._data, self._data_bytes, self._id = [], 0, None
        return event

    def _check_size(self, size: int) -> None:
        if self._max_bytes is not None and size > self._max_bytes:
            raise EventError(f"an event is larger than {self._max_bytes} bytes")
