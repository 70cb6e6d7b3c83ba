"""The events of one session, in a store that all sessions share. In: messages of this session. Out: those it missed.

Touches the store. The SDK names streams by request ids, which every client counts from one, and asks for events by ids
that a client sends: both are made this session's own here, so that nobody can take up a stream of somebody else's.
"""

from __future__ import annotations

import secrets
from typing import Any

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import JSONRPCMessage

from leafgate.server.event_store import MemoryEventStore


class SessionEvents(EventStore):
    """One session's part. Its key is in its event ids and known to its client alone."""

    def __init__(self, shared: EventStore) -> None:
        self._shared = shared
        self._key = secrets.token_hex(8)

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        return self._own(await self._shared.store_event(self._own(stream_id), message))

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        async def send(event: EventMessage) -> None:
            shown = None if event.event_id is None else self._own(event.event_id)
            await send_callback(EventMessage(event.message, shown))

        shared_id = self._shared_name(last_event_id)
        stream = None if shared_id is None else await self._shared.replay_events_after(shared_id, send)
        return None if stream is None else self._shared_name(stream)

    def _own(self, name: str) -> str:
        return f"{self._key}.{name}"

    def _shared_name(self, name: str) -> str | None:
        key, _, rest = name.partition(".")
        return rest if secrets.compare_digest(key.encode(), self._key.encode()) else None


class SessionManager(StreamableHTTPSessionManager):
    """The SDK's keeper of sessions; it gives each new session its `event_store`, which here is one of its own."""

    def __init__(self, **settings: Any) -> None:
        self._shared_events = MemoryEventStore()
        super().__init__(**settings)

    @property
    def event_store(self) -> EventStore | None:
        return SessionEvents(self._shared_events)

    @event_store.setter
    def event_store(self, given: EventStore | None) -> None:
        """The SDK sets what it was given, which is nothing."""
