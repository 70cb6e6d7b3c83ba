"""The events of streams that a client may come back for, in memory. Streams of two sessions may bear the same id: so
a stream is replayed up to its response and no further."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Final

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCResponse

KEPT: Final = 1000


class RecentEvents(EventStore):
    """The last events of all streams."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._events: deque[tuple[EventId, StreamId, JSONRPCMessage | None]] = deque(maxlen=KEPT)

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        event_id = str(next(self._numbers))
        self._events.append((event_id, stream_id, message))
        return event_id

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        events = list(self._events)
        at = next((index for index, (event_id, _, _) in enumerate(events) if event_id == last_event_id), None)
        if at is None:
            return None
        stream = events[at][1]
        for event_id, stream_id, message in events[at + 1 :]:
            if stream_id != stream or message is None:
                continue
            await send_callback(EventMessage(message, event_id))
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                break
        return stream
