"""The events of one session, where any gateway finds them. In: messages of this session. Out: those a client missed.

Awaits the Sessions port. A client may come back to another gateway than the one that works on its call: that one's
events are followed then, until its answer is there. If that gateway is gone, so is the answer, and the client is told.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import count
from typing import Final

import anyio
from mcp.server.streamable_http import GET_STREAM_KEY, EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter

from leafgate.model.errors import StoreError
from leafgate.ports import KeptEvent, Sessions

log = logging.getLogger("leafgate.server")

FOLLOW_SECONDS: Final = 0.25  # between two looks
_LONGEST_NUMBER: Final = 16
LOST: Final = "the gateway that worked on this request is gone; the request may have been carried out"


class SharedEvents(EventStore):
    """One session's part of them."""

    def __init__(self, sessions: Sessions, session: str, gateway: str) -> None:
        self._sessions = sessions
        self._session = session
        self._gateway = gateway
        self._unnamed = count()
        self._here: set[StreamId] = set()  # streams that are not over, of requests that are worked on here

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        if _is_answer(message):
            self._here.discard(stream_id)
        else:
            self._here.add(stream_id)
        raw = b"" if message is None else message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        try:
            return await self._sessions.note(self._session, stream_id, self._gateway, raw)
        except StoreError as error:
            log.warning("an event cannot be kept, and not be sent again: %s", error)
            return f"lost-{next(self._unnamed)}"

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Sends what its stream carried after that event. Returns the stream where it goes on here."""
        try:
            return await self._replay(last_event_id, send_callback)
        except StoreError as error:
            log.warning("events cannot be read: %s", error)
            return None

    async def _replay(self, since: EventId, send: EventCallback) -> StreamId | None:
        events = await self._sessions.noted(self._session, since)
        if not events:
            return None
        stream, gateway = events[0].stream, events[0].gateway
        while not await _send_on(stream, events[1:], send):
            if stream == GET_STREAM_KEY or stream in self._here:
                return stream
            lives = gateway == self._gateway or await self._sessions.is_alive(gateway)
            await anyio.sleep(FOLLOW_SECONDS)
            last = events[-1].id
            events = await self._sessions.noted(self._session, last)
            if not lives and len(events) <= 1:
                error = ErrorData(code=INTERNAL_ERROR, message=LOST)
                await send(EventMessage(JSONRPCError(jsonrpc="2.0", id=_request_id(stream), error=error), last))
                return None
        return None


async def _send_on(stream: StreamId, events: Sequence[KeptEvent], send: EventCallback) -> bool:
    """Sends those of this stream; says whether its answer was among them."""
    for event in events:
        if event.stream == stream and event.message:
            message = jsonrpc_message_adapter.validate_json(event.message, by_name=False)
            await send(EventMessage(message, event.id))
            if _is_answer(message):
                return True
    return False


def _is_answer(message: JSONRPCMessage | None) -> bool:
    return isinstance(message, JSONRPCResponse | JSONRPCError)


def _request_id(stream: StreamId) -> str | int:
    """The SDK names a stream by the id of its request, as a text; clients count."""
    return int(stream) if stream.isdecimal() and len(stream) < _LONGEST_NUMBER else stream
