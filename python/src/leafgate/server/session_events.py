"""The events of sessions of the handshake era, so that a client can resume a broken stream.

They are stored in the Sessions port, or, where no other gateway shares them, in `MemoryEvents`. A client may come back
to another gateway than the one that works on its call: `SessionEvents.follow` reads that gateway's events until the
answer is there. If that gateway is gone, the client gets an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Final

import anyio
from mcp import types

from leafgate.model.errors import StoreError
from leafgate.ports import SessionEvent, Sessions

log = logging.getLogger("leafgate.server")

MAX_EVENTS: Final = 2_000
MAX_EVENT_BYTES: Final = 64 * 1024 * 1024  # of all sessions of a process
FOLLOW_SECONDS: Final = 0.25  # between two looks
STANDALONE: Final = "_GET_stream"  # the stream of messages that belong to no request
LOST: Final = "the gateway that worked on this request is gone; the request may have been carried out"
_LONGEST_NUMBER: Final = 16


@dataclass
class _SessionBytes:
    """The events of one session by their numbers, in order, and their bytes."""

    numbers: dict[int, None] = field(default_factory=dict)
    bytes: int = 0


class MemoryEvents:
    """The last events of all sessions of this process, bounded in number and in bytes.

    A session has half of both at most, so that one with large answers does not push out the events of others.
    """

    def __init__(self, capacity: int = MAX_EVENTS, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self.bytes = 0
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._events: dict[int, tuple[str, SessionEvent]] = {}  # by number, in the order in which they were sent
        self._sessions: dict[str, _SessionBytes] = {}
        self._last = 0

    async def add_event(self, id: str, stream: str, gateway: str, message: bytes) -> str | None:
        """Store an event; None for one that is too large to be stored."""
        self._last += 1
        if len(message) > self._max_bytes // 2:
            return None
        session = self._sessions.setdefault(id, _SessionBytes())
        self._events[self._last] = id, SessionEvent(str(self._last), stream, gateway, message)
        session.numbers[self._last] = None
        session.bytes += len(message)
        self.bytes += len(message)
        while session.bytes > self._max_bytes // 2 or len(session.numbers) > self._capacity // 2:
            self._drop(next(iter(session.numbers)))
        while self.bytes > self._max_bytes or len(self._events) > self._capacity:
            self._drop(next(iter(self._events)))
        return str(self._last)

    async def events_from(self, id: str, first: str) -> Sequence[SessionEvent]:
        session = self._sessions.get(id)
        own = [] if session is None else [self._events[number][1] for number in session.numbers]
        return [*dropwhile(lambda event: event.id != first, own)]

    def forget(self, id: str) -> None:
        """Drop the events of a session that has ended."""
        session = self._sessions.get(id)
        for number in [] if session is None else [*session.numbers]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        id, event = self._events.pop(number)
        session = self._sessions[id]
        del session.numbers[number]
        session.bytes -= len(event.message)
        self.bytes -= len(event.message)
        if not session.numbers:
            del self._sessions[id]

    async def is_alive(self, gateway: str) -> bool:
        return True


@dataclass
class SessionEvents:
    """The events of one session. `gateway` is the name of this one."""

    store: Sessions | MemoryEvents
    session: str
    gateway: str
    is_over: bool = False

    async def add(self, stream: str, message: bytes) -> str | None:
        """Store an event and return its id; None if it cannot be sent again."""
        try:
            return None if self.is_over else await self.store.add_event(self.session, stream, self.gateway, message)
        except StoreError as error:
            log.warning("an event cannot be stored, and cannot be sent again: %s", error)
            return None

    async def read(self, since: str) -> Sequence[SessionEvent]:
        """The event with this id and those after it; empty if it is not stored."""
        try:
            return await self.store.events_from(self.session, since)
        except StoreError as error:
            log.warning("events cannot be read: %s", error)
            return []

    async def follow(self, since: str) -> AsyncIterator[tuple[str, bytes]]:
        """Ids and messages of a stream that goes on at another gateway, or is over, up to its answer."""
        events, last = await self.read(since), since
        if not events:
            return
        stream, gateway = events[0].stream, events[0].gateway
        while True:
            for event in events[1:]:
                last = event.id
                if event.stream == stream and event.message:
                    yield event.id, event.message
                    if "method" not in json.loads(event.message):
                        return
            is_alive = gateway != self.gateway and await self._is_alive(gateway)
            await anyio.sleep(FOLLOW_SECONDS)
            events = await self.read(last)
            if not is_alive and len(events) <= 1:
                yield last, _lost(stream)
                return

    async def _is_alive(self, gateway: str) -> bool:
        try:
            return await self.store.is_alive(gateway)
        except StoreError as error:
            log.warning("other gateways cannot be looked up: %s", error)
            return True


def _lost(stream: str) -> bytes:
    """The answer to a request that is lost. A stream has the id of its request as a text; clients count."""
    request_id = int(stream) if stream.isdecimal() and len(stream) < _LONGEST_NUMBER else stream
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=LOST)
    answer = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
    return answer.model_dump_json(by_alias=True, exclude_unset=True).encode()
