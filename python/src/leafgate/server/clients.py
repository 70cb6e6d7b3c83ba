"""Who is connected, and what they hear unasked. In: request contexts, changes. Out: notifications to clients.

Touches the clients' connections. Clients with a session are told on it; clients of the stateless protocol listen on
streams of their own, which the SDK serves from a bus.
"""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

log = logging.getLogger("leafgate.server")

Context = ServerRequestContext[Any, Any]


class Clients:
    """The connections with a session, each with the resources it subscribed to and the log level it wants."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._sessions: WeakKeyDictionary[Any, ServerSession] = WeakKeyDictionary()
        self._subscribed: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
        self._levels: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self.listen = ListenHandler(self._bus)

    def meet(self, context: Context) -> None:
        """Remembers the connection behind a request."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._sessions[_connection(context)] = context.session

    def set_log_level(self, context: Context, level: str) -> None:
        self._levels[_connection(context)] = level

    def log_level(self, context: Context) -> str | None:
        return self._levels.get(_connection(context))

    def subscribe(self, context: Context, uri: str) -> None:
        self.meet(context)
        self._subscribed.setdefault(_connection(context), set()).add(uri)

    def unsubscribe(self, context: Context, uri: str) -> None:
        self._subscribed.get(_connection(context), set()).discard(uri)

    def anybody_watches(self, uri: str) -> bool:
        return any(uri in uris for uris in self._subscribed.values())

    async def tell_changed(self) -> None:
        """What the servers behind the gateway offer has changed."""
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await self._bus.publish(event)
        for session in list(self._sessions.values()):
            for tell in (
                session.send_tool_list_changed,
                session.send_prompt_list_changed,
                session.send_resource_list_changed,
            ):
                await _quietly(tell)

    async def tell_updated(self, uri: str) -> None:
        """A resource that somebody watches was updated."""
        event: ServerEvent = ResourceUpdated(uri)
        await self._bus.publish(event)
        for connection, uris in list(self._subscribed.items()):
            session = self._sessions.get(connection)
            if uri in uris and session is not None:
                await _quietly(session.send_resource_updated, uri)


def _connection(context: Context) -> Any:
    """What stays the same between requests of one client. The SDK keeps it private; test_clients.py watches it."""
    return context.session._connection


async def _quietly(tell: Any, *args: Any) -> None:
    """A client that has gone misses the news; nobody else does."""
    try:
        with anyio.move_on_after(5):
            await tell(*args)
    except Exception as error:
        log.debug("a client could not be told: %s", error)
