"""Sessions that any gateway can go on with. In: HTTP requests of the handshake era. Out: their answers.

Awaits the Sessions port. A session is more than its id: the words that opened it are kept where all gateways find them,
and one that is asked for a session it does not know opens it for itself with these words, before it answers. Somebody
else's session is not found, as ever. What a session asked to be told of (subscriptions, a log level) is not carried.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, EventStore, StreamableHTTPServerTransport
from starlette.types import Message, Receive, Scope, Send

from leafgate.model.errors import StoreError
from leafgate.ports import KeptSession, Sessions
from leafgate.server.session_events import SessionManager
from leafgate.server.shared_events import SharedEvents

log = logging.getLogger("leafgate.server")

BEAT_SECONDS: Final = 5.0
KEEP_SECONDS: Final = 60.0  # a session that is used is said to be, so often; and is seen to have ended elsewhere
LARGEST_HELLO: Final = 65_536

_SESSION: Final = MCP_SESSION_ID_HEADER.lower().encode()
_COPIED: Final = (b"host", b"origin", b"user-agent")
_JSON: Final = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))
_INITIALIZED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


class SharedSessionManager(SessionManager):
    """Keeps sessions where other gateways find them, and takes up theirs."""

    def __init__(self, sessions: Sessions, **settings: Any) -> None:
        self._sessions = sessions
        self._name = secrets.token_hex(8)
        self._kept: dict[str, tuple[KeptSession, float]] = {}
        self._taking_up = anyio.Lock()
        super().__init__(**settings)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with super().run(), anyio.create_task_group() as group:
            group.start_soon(self._beat)
            yield
            group.cancel_scope.cancel()

    def events_of(self, id: str) -> EventStore:
        return SharedEvents(self._sessions, id, self._name)

    async def _handle_stateful_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        id = _session_of(scope)
        if id is not None:
            await self._stay_known(id)
            if id not in self._server_instances:
                await self._take_up(id, scope)
            if scope["method"] == "DELETE":
                send = self._ending(id, send)
        await super()._handle_stateful_request(scope, receive, send)

    async def _serve_opening_request(
        self, http_transport: StreamableHTTPServerTransport, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """The session is kept before its id is told: its next request may come to another gateway."""
        assert http_transport.mcp_session_id is not None
        id, heard = http_transport.mcp_session_id, bytearray()

        async def hear() -> Message:
            message = await receive()
            if len(heard) <= LARGEST_HELLO:
                heard.extend(message.get("body", b""))
            return message

        async def tell(message: Message) -> None:
            is_opened = message["type"] == "http.response.start" and message["status"] < 400
            if is_opened and len(heard) <= LARGEST_HELLO:
                await self._keep(id, KeptSession(_user_of(scope), bytes(heard)))
            await send(message)

        await super()._serve_opening_request(http_transport, scope, hear, tell)

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        """Gone here. Elsewhere, or here again, it can be taken up for as long as it is kept."""
        self._kept.pop(session_id, None)
        await super()._discard_session(session_id, transport)

    async def _stay_known(self, id: str) -> None:
        kept = self._kept.get(id)
        if kept is not None and anyio.current_time() - kept[1] > KEEP_SECONDS:
            await self._keep(id, kept[0])

    async def _keep(self, id: str, session: KeptSession) -> None:
        """One that was ended at another gateway meanwhile ends here too."""
        self._kept[id] = session, anyio.current_time()
        try:
            is_kept = await self._sessions.keep(id, session)
        except StoreError as error:
            log.warning("a session cannot be kept for other gateways: %s", error)
            return
        transport = self._server_instances.get(id)
        if not is_kept and transport is not None:
            await self._discard_session(id, transport)

    def _ending(self, id: str, send: Send) -> Send:
        """The session is ended for all gateways before its client is told so."""

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                await self._end(id)
            await send(message)

        return tell

    async def _end(self, id: str) -> None:
        self._kept.pop(id, None)
        try:
            await self._sessions.end(id)
        except StoreError as error:
            log.warning("a session cannot be ended for other gateways: %s", error)

    async def _take_up(self, id: str, scope: Scope) -> None:
        """Opens the session here, if it is one of this user's."""
        kept = await self._found(id)
        if kept is None or kept.user != _user_of(scope):
            return
        async with self._taking_up:
            is_full = self.max_sessions is not None and len(self._server_instances) >= self.max_sessions
            if id in self._server_instances or is_full:
                return
            session = self._server_instances[id] = self.new_session(id)
            user = scope.get("user")
            if isinstance(user, AuthenticatedUser):
                self._session_owners[id] = authorization_context(user)
            await super()._serve_opening_request(session, _asking(scope), _Saying(kept.hello), _nowhere)
            if id in self._server_instances:
                await self._keep(id, kept)  # it may have been ended while it was opened
            if id in self._server_instances:
                named = _asking(scope, (_SESSION, id.encode()))
                await session.handle_request(named, _Saying(_INITIALIZED), _nowhere)
                log.info("took up a session that another gateway had")

    async def _found(self, id: str) -> KeptSession | None:
        try:
            return await self._sessions.find(id)
        except StoreError as error:
            log.warning("a session of another gateway cannot be looked up: %s", error)
            return None

    async def _beat(self) -> None:
        while True:
            try:
                await self._sessions.beat(self._name)
            except StoreError as error:
                log.warning("other gateways cannot be told that this one is there: %s", error)
            await anyio.sleep(BEAT_SECONDS)


def _session_of(scope: Scope) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == _SESSION), None)


def _user_of(scope: Scope) -> str:
    """Who opens a session; empty where nobody is asked."""
    user = scope.get("user")
    return f"user {user.access_token.client_id}" if isinstance(user, AuthenticatedUser) else ""


def _asking(scope: Scope, *more: tuple[bytes, bytes]) -> Scope:
    """A request of our own, by the one who makes this request, under the same address."""
    copied = [(name, value) for name, value in scope["headers"] if name in _COPIED]
    return {**scope, "method": "POST", "query_string": b"", "headers": [*copied, *_JSON, *more]}


class _Saying:
    """The body of such a request; its client does not go away."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def __call__(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            await anyio.sleep_forever()
        return {"type": "http.request", "body": body, "more_body": False}


async def _nowhere(message: Message) -> None:
    """Nobody waits for the answer."""
