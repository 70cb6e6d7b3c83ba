"""The events of one session, in a store that all sessions share. In: messages of this session. Out: those it missed.

Touches the store. The SDK names streams by request ids, which every client counts from one, and asks for events by ids
that a client sends: both are made this session's own here, so that nobody can take up a stream of somebody else's.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from mcp.server.streamable_http import (
    EventCallback,
    EventId,
    EventMessage,
    EventStore,
    StreamableHTTPServerTransport,
    StreamId,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import JSONRPCMessage
from starlette.types import Receive, Scope, Send

from leafgate.server.event_store import MemoryEventStore
from leafgate.server.quick_exchange import Exchanges, is_quick, let_speak
from leafgate.server.quick_session import QuickTransport


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
    """The SDK's keeper of sessions; each new one is a session of ours, with events of its own."""

    def __init__(self, **settings: Any) -> None:
        self._shared_events = MemoryEventStore()
        super().__init__(**settings)
        self.app.middleware.insert(0, let_speak)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Sessions are ended one by one: cancelled all together, ten thousand of them take half a minute."""
        async with super().run():
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    for session in [*self._server_instances.values()]:
                        await session.terminate()
                        await anyio.lowlevel.checkpoint()

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        group = cast("TaskGroup | None", self._task_group)  # the SDK declares it by what it is before it runs
        if group is None or not is_quick(scope):
            await super()._handle_request(scope, receive, send)
            return
        exchange = Exchanges(self.app, self.security_settings, self._lifespan_state, group)
        await exchange(scope, receive, send)

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        """A session of ours in the place of the one that the SDK made."""
        made = super()._admit_session(requestor)
        if made is None or made.mcp_session_id is None:
            return made
        quick = self._server_instances[made.mcp_session_id] = self.new_session(made.mcp_session_id)
        return quick

    def new_session(self, id: str) -> QuickTransport:
        return QuickTransport(
            id,
            event_store=self.events_of(id),
            security_settings=self.security_settings,
            retry_interval=self.retry_interval,
            idle_timeout=self.session_idle_timeout,
        )

    def events_of(self, id: str) -> EventStore:
        return SessionEvents(self._shared_events)
