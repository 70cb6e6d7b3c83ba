"""Lets a client of the handshake era take up a broken stream again. In: messages as they are sent. Out: those missed.

Touches memory only, and little of it: the oldest events go first, by number and by size.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.types import JSONRPCMessage

MAX_EVENTS: Final = 2_000


class MemoryEventStore(EventStore):
    """The last events of all streams, in the order in which they were sent."""

    def __init__(self, capacity: int = MAX_EVENTS) -> None:
        self._events: deque[tuple[int, StreamId, JSONRPCMessage | None]] = deque(maxlen=capacity)
        self._last = 0

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        self._last += 1
        self._events.append((self._last, stream_id, message))
        return str(self._last)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Sends what its stream carried after that event; None where the event is no longer known."""
        known = {str(number): stream for number, stream, _ in self._events}
        stream = known.get(last_event_id)
        if stream is None:
            return None
        missed = [event for event in self._events if event[1] == stream and event[0] > int(last_event_id)]
        for number, _, message in missed:
            if message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
