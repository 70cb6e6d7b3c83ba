"""When a session ends for all gateways. Two real keepers of sessions over one real store; requests go in by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from starlette.types import Message
from stores import sqlite_stores

from leafgate.ports import KeptSession
from leafgate.server import shared_sessions
from leafgate.server.shared_sessions import SharedSessionManager
from leafgate.storage.sqlite_sessions import SqliteSessions

pytestmark = pytest.mark.anyio

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}}


class Crossed(SqliteSessions):
    """A store in which the session is ended right after somebody has found it."""

    async def find(self, id: str) -> KeptSession | None:
        found = await super().find(id)
        await self.end(id)
        return found


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[SqliteSessions]:
    async with sqlite_stores(tmp_path / "state.db") as stores:
        yield SqliteSessions(stores.file)


async def asked(manager: SharedSessionManager, method: str, session: str | None, body: Any = None) -> list[Message]:
    """What is sent for one request, with what the store knows of the session at the moment when the answer begins."""
    headers = [(b"accept", b"application/json, text/event-stream"), (b"content-type", b"application/json")]
    headers += [(b"mcp-session-id", session.encode())] if session else []
    scope = {"type": "http", "method": method, "path": "/mcp", "query_string": b"", "headers": headers}
    said: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    heard: list[Message] = []

    async def receive() -> Message:
        if not said:
            await anyio.sleep_forever()
        return said.pop()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["known"] = session is not None and await manager._sessions.find(session) is not None
        heard.append(message)

    await StreamableHTTPASGIApp(manager)(scope, receive, send)
    return heard


async def opened(manager: SharedSessionManager) -> str:
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    start = (await asked(manager, "POST", None, body))[0]
    return str(dict(start["headers"])[b"mcp-session-id"].decode())


async def pinged(manager: SharedSessionManager, session: str) -> int:
    answer = await asked(manager, "POST", session, {"jsonrpc": "2.0", "id": 2, "method": "ping"})
    return int(answer[0]["status"])


@pytest.fixture
async def pair(sessions: SqliteSessions) -> AsyncIterator[list[SharedSessionManager]]:
    async with AsyncExitStack() as stack:
        both = [SharedSessionManager(sessions, app=Server("small")) for _ in range(2)]
        for each in both:
            await stack.enter_async_context(each.run())
        yield both


async def test_it_is_over_everywhere_before_its_client_is_told(pair: list[SharedSessionManager]) -> None:
    one, two = pair
    session = await opened(one)
    start = (await asked(one, "DELETE", session))[0]
    assert (start["status"], start["known"]) == (200, False)
    assert [await pinged(each, session) for each in (two, one)] == [404, 404]


async def test_a_gateway_that_had_it_too_does_not_bring_it_back(
    pair: list[SharedSessionManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    session = await opened(one)
    assert await pinged(two, session) == 200
    await asked(one, "DELETE", session)
    monkeypatch.setattr(shared_sessions, "KEEP_SECONDS", -1.0)
    assert [await pinged(each, session) for each in (two, one, two)] == [404, 404, 404]


async def test_one_that_ends_while_it_is_taken_up_is_not_served(
    pair: list[SharedSessionManager], sessions: SqliteSessions
) -> None:
    session = await opened(pair[0])
    late = SharedSessionManager(Crossed(sessions._file), app=Server("small"))
    async with late.run():
        assert await pinged(late, session) == 404


async def test_a_refused_ending_ends_nothing(pair: list[SharedSessionManager], sessions: SqliteSessions) -> None:
    one, two = pair
    session = await opened(one)
    kept = await sessions.find(session)
    assert kept is not None
    await sessions.keep(session, KeptSession("somebody else", kept.hello))
    assert (await asked(two, "DELETE", session))[0]["status"] == 404
    assert await pinged(one, session) == 200
