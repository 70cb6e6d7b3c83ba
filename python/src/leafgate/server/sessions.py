"""The sessions of the handshake era: records in a table, without a task or a stream between two requests.

A `Session` has its client's connection, the requests that it works on, and the questions that its client has not
answered yet. The `SessionTable` holds the sessions of this gateway. Where the Sessions port is shared, the message
that opened a session is stored there: a gateway that does not have a session makes it from that message. A session of
another user is reported as missing. Subscriptions and the log level of a session are not shared.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from mcp import types
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, modern_error_data
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, is_version_at_least
from starlette.requests import Request as HttpRequest

from leafgate.model.errors import StoreError
from leafgate.ports import SessionRecord, Sessions
from leafgate.server.clients import Client
from leafgate.server.exchange import EventStream, Exchange, Outlet, Questions, dump, notification, write_event
from leafgate.server.session_events import STANDALONE, MemoryEvents, SessionEvents

log = logging.getLogger("leafgate.server")

MAX_SESSIONS: Final = 10_000
IDLE_SECONDS: Final = 30 * 60.0
SWEEP_SECONDS: Final = 60.0
BEAT_SECONDS: Final = 5.0
KEEP_SECONDS: Final = 60.0  # how often the store learns that a session is used, and we that it was ended elsewhere
LARGEST_HELLO: Final = 65_536

_CANCELLED: Final = types.ErrorData(code=-32800, message="Request cancelled")  # as the SDK answers it
_ENDED: Final = types.ErrorData(code=types.INTERNAL_ERROR, message="Session terminated before the request completed")


class Session:
    """One session. It is the SDK's Outbound for messages that belong to no request."""

    def __init__(self, server: Server[Any], id: str, user: str, events: SessionEvents) -> None:
        self.id = id
        self.user = user
        self.events = events
        self.is_ended = False
        self.last_use = self.last_keep = anyio.current_time()
        self.record: SessionRecord | None = None  # as it is stored for other gateways
        self.standalone = EventStream(STANDALONE, events)
        self.calls: dict[str, Exchange] = {}
        self.questions = Questions()
        self._connection = Connection.for_loop(self, session_id=id)
        self.runner = ServerRunner(server, self._connection, Client(self._connection))

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"mcp-session-id", self.id.encode()),)

    @property
    def is_idle(self) -> bool:
        return not self.calls and not self.standalone.has_client

    def restore(self, hello: Any) -> None:
        """Continue after the handshake that began with this message. ValueError if it is not one."""
        params = types.JSONRPCRequest.model_validate(hello, by_name=False).params or {}
        client = types.InitializeRequestParams.model_validate(params, by_name=False)
        if client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            self._connection.protocol_version = client.protocol_version
        self._connection.client_params = client
        self._connection.initialized.set()

    async def answer(self, request: HttpRequest, rpc: types.JSONRPCRequest, outlet: Outlet, group: TaskGroup) -> None:
        """Work on a request, also after its client has disconnected."""
        exchange = Exchange(request, rpc, outlet, self.events, self.questions)
        exchange.starts_with_id = is_version_at_least(self._connection.protocol_version, "2025-11-25")
        self.calls[exchange.name] = exchange
        try:
            await exchange.run(self.runner.on_request, group)
        finally:
            del self.calls[exchange.name]
            self.last_use = anyio.current_time()

    async def take(self, request: HttpRequest, message: types.JSONRPCMessage) -> None:
        """Take a message that is not answered: a notification, or the answer to a question."""
        if isinstance(message, types.JSONRPCNotification):
            if message.method == "notifications/cancelled":
                call = self.calls.get(str(cancelled_request_id_from_params(message.params)))
                if call is not None:
                    call.cancel_requested.set()
                    call.cancel(_CANCELLED)
            await self.runner.on_notify(Exchange(request, message), message.method, message.params)
        elif not isinstance(message, types.JSONRPCRequest):
            self.questions.take(message)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        return await self.questions.ask(self.standalone, method, params)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self.standalone.push(notification(method, params))

    async def listen(self, outlet: Outlet, since: str | None) -> None:
        """Serve a GET: the messages that belong to no request, or the rest of the stream that has the event `since`."""
        events = [] if since is None else await self.events.read(since)
        name = STANDALONE if since is None else events[0].stream if events else ""
        stream = self.standalone if name == STANDALONE else self.calls.get(name)
        if stream is not None:
            await stream.attach(outlet, since)
            await stream.hold(outlet)
        else:
            await self._copy(EventStream(name), outlet, since or "")
        await outlet.send_event(b"", is_last=True)

    async def _copy(self, stream: EventStream, outlet: Outlet, since: str) -> None:
        """Send the rest of a stream that is over, or that another gateway works on."""

        async def send_all() -> None:
            async for id, message in self.events.follow(since):
                await outlet.send_event(write_event(message, id))
            stream.close()

        await stream.attach(outlet)
        async with anyio.create_task_group() as group:
            group.start_soon(send_all)
            await stream.hold(outlet)
            group.cancel_scope.cancel()

    def end(self) -> None:
        self.is_ended = self.events.is_over = True
        for call in self.calls.values():
            call.cancel(_ENDED)
        self.questions.close()
        self.standalone.close()


class SessionTable:
    """The sessions of this gateway. With a store, other gateways find them there, and this one finds theirs."""

    def __init__(self, server: Server[Any], store: Sessions | None, events: MemoryEvents | None = None) -> None:
        """`events` is where events are stored without a store."""
        self._server = server
        self._store = store
        self._events = store or events or MemoryEvents()
        self._gateway = secrets.token_hex(8)
        self._sessions: dict[str, Session] = {}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[TaskGroup]:
        """Drops idle sessions, and tells other gateways that this one is alive. The group is for long calls."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._sweep)
            if self._store is not None:
                group.start_soon(self._beat, self._store)
            yield group
            group.cancel_scope.cancel()

    @property
    def is_full(self) -> bool:
        return len(self._sessions) >= MAX_SESSIONS

    async def open(self, user: str, request: HttpRequest, rpc: types.JSONRPCRequest, outlet: Outlet) -> None:
        """Answer an initialize request with a new session.

        It is stored before its client learns its id: the next request may come to another gateway.
        """
        session = self._new_session(secrets.token_hex(16), user)
        exchange = Exchange(request, rpc, outlet)
        try:
            result = await session.runner.on_request(exchange, rpc.method, rpc.params)
        except Exception as failure:
            await exchange.answer({}, modern_error_data(failure))
            return
        hello = b"" if self._store is None else dump(rpc.model_dump())
        session.record = SessionRecord(user, hello) if 0 < len(hello) <= LARGEST_HELLO else None
        self._sessions[session.id] = session
        await self._keep(session)
        outlet.headers = session.headers
        await exchange.answer(result)

    async def find(self, id: str, user: str) -> Session | None:
        """The session with this id, if it is one of this user's."""
        session = self._sessions.get(id) or await self._open_stored(id, user)
        if session is None or session.user != user:
            return None
        session.last_use = anyio.current_time()
        if session.last_use - session.last_keep > KEEP_SECONDS:
            await self._keep(session)
        return None if session.is_ended else session

    async def end(self, session: Session) -> None:
        """End a session here and at all gateways."""
        self._drop(session)
        if self._store is not None:
            with _warn_about("a session cannot be ended for other gateways"):
                await self._store.end(session.id)

    def _new_session(self, id: str, user: str) -> Session:
        return Session(self._server, id, user, SessionEvents(self._events, id, self._gateway))

    def _drop(self, session: Session) -> None:
        """Drop a session here. As long as it is stored, any gateway can open it again."""
        self._sessions.pop(session.id, None)
        session.end()
        if isinstance(self._events, MemoryEvents):
            self._events.forget(session.id)

    async def _keep(self, session: Session) -> None:
        """Store a session for a while. One that was ended at another gateway meanwhile ends here too."""
        session.last_keep = anyio.current_time()
        if self._store is not None and session.record is not None:
            with _warn_about("a session cannot be kept for other gateways"):
                if not await self._store.keep(session.id, session.record):
                    self._drop(session)

    async def _open_stored(self, id: str, user: str) -> Session | None:
        """Open a session of another gateway here. It may be ended, or opened by another request, meanwhile."""
        record = None
        if self._store is not None:
            with _warn_about("a session of another gateway cannot be looked up"):
                record = await self._store.find(id)
        if record is None or record.user != user or self.is_full:
            return self._sessions.get(id)
        session = self._new_session(id, user)
        try:
            session.restore(json.loads(record.hello))
        except ValueError:
            log.warning("a session of another gateway cannot be read")
            return None
        session.record = record
        await self._keep(session)
        if session.is_ended or id in self._sessions:
            return self._sessions.get(id)
        self._sessions[id] = session
        log.info("opened a session of another gateway")
        return session

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(SWEEP_SECONDS)
            oldest = anyio.current_time() - IDLE_SECONDS
            for session in [each for each in self._sessions.values() if each.is_idle and each.last_use < oldest]:
                self._drop(session)

    async def _beat(self, store: Sessions) -> None:
        while True:
            with _warn_about("this gateway cannot be announced to the others"):
                await store.beat(self._gateway)
            await anyio.sleep(BEAT_SECONDS)


@contextmanager
def _warn_about(problem: str) -> Iterator[None]:
    """A store that fails is logged; the session goes on at this gateway."""
    try:
        yield
    except StoreError as error:
        log.warning("%s: %s", problem, error)
