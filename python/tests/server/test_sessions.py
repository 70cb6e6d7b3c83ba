"""What a session missed is told to that session, and to nobody else. The sessions are real, on a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp.server import Server
from mcp.types import CallToolResult, ListToolsResult, TextContent
from starlette.types import Message
from stores import sqlite_stores

from leafgate.ports import SessionRecord
from leafgate.server.endpoint import McpEndpoint
from leafgate.server.front import Front, RequestLayer
from leafgate.server.http import Web, bind, web_app
from leafgate.server.session_events import MemoryEvents, SessionEvents
from leafgate.server.sessions import SessionTable
from leafgate.state.sqlite import SqliteSessions

pytestmark = pytest.mark.anyio


async def read(events: SessionEvents, after: str) -> list[tuple[str, bytes]]:
    return [(event.id, event.message) for event in await events.read(after)][1:]


async def test_the_events_of_sessions_are_kept_apart() -> None:
    store = MemoryEvents()
    mine, theirs = SessionEvents(store, "m", "g"), SessionEvents(store, "t", "g")
    first = str(await mine.add("1", b"a"))
    stolen = str(await theirs.add("1", b"their secret"))
    second, other = str(await mine.add("1", b"b")), str(await theirs.add("1", b"another"))
    assert await read(mine, first) == [(second, b"b")]
    assert await read(theirs, stolen) == [(other, b"another")]
    for unknown in (stolen, other, "", "."):
        assert not await mine.read(unknown)


async def test_events_are_bounded_in_bytes_and_one_session_leaves_half_to_others() -> None:
    store = MemoryEvents(capacity=100, max_bytes=1_000)
    theirs = str(await store.add_event("theirs", "1", "g", b"x" * 400))
    mine = [str(await store.add_event("mine", "1", "g", b"x" * 100)) for _ in range(50)]
    assert store.bytes == 900
    assert await store.events_from("theirs", theirs)
    assert [event.id for event in await store.events_from("mine", mine[-5])] == mine[-5:]
    assert not await store.events_from("mine", mine[-6])
    assert await store.add_event("mine", "1", "g", b"x" * 501) is None  # it cannot be sent again
    store.forget("mine")
    assert store.bytes == 400
    store.forget("theirs")
    store.forget("never known")
    assert store.bytes == 0


async def test_events_are_bounded_in_number() -> None:
    store = MemoryEvents(capacity=10)
    names = [str(await store.add_event(f"s{n % 4}", "1", "g", b"")) for n in range(40)]
    assert [bool(await store.events_from(f"s{n % 4}", names[n])) for n in range(40)] == [n >= 30 for n in range(40)]


async def test_a_session_that_ends_leaves_no_event() -> None:
    table = SessionTable(Server("small"), None, store := MemoryEvents())
    session = table._new_session("s", "ada")
    await session.standalone.push({"jsonrpc": "2.0", "method": "notifications/x"})
    assert store.bytes > 0
    await table.end(session)
    await session.standalone.push({"jsonrpc": "2.0", "method": "notifications/late"})
    assert store.bytes == 0


async def tell(ctx: Any, params: Any) -> CallToolResult:
    """Says something before its answer, which makes a stream of it."""
    await ctx.session.send_log_message("info", "wait", related_request_id=ctx.request_id)
    return CallToolResult(content=[TextContent(type="text", text=f"for {params.arguments['who']} only")])


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[])


@contextmanager
def serving() -> Iterator[str]:
    app = web_app(Server("small", on_list_tools=list_tools, on_call_tool=tell), Web())
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()


class Session:
    """A client by hand, that keeps the ids of the events it was sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        opened = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client})
        self.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message: dict[str, Any]) -> httpx2.Response:
        return httpx2.post(self.url, json=message, headers=self.headers)

    def call(self, who: str) -> list[str]:
        params = {"name": "tell", "arguments": {"who": who}}
        answer = self.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        return [line[4:] for line in answer.text.splitlines() if line.startswith("id: ")]

    def resume(self, event: str, until: str = "never said") -> str:
        """What comes when this client says that this was the last event it saw, until it is silent or says that."""
        read = ""
        patience = httpx2.Timeout(60, read=60 if until != "never said" else 1)
        headers = {**self.headers, "last-event-id": event}
        with suppress(httpx2.ReadTimeout), httpx2.stream("GET", self.url, headers=headers, timeout=patience) as stream:
            for line in stream.iter_lines():
                read += f"{line}\n"
                if until in line:
                    break
        return read


def test_nobody_takes_up_the_stream_of_another_client() -> None:
    with serving() as url:
        ann, ben = Session(url), Session(url)
        his, hers = ben.call("ben"), ann.call("ann")
        assert "for ann only" in ann.resume(hers[0], until="for ann only")
        assert "for ben only" in ben.resume(his[0], until="for ben only")
        for event in (his[0], *hers, *(event.partition(".")[2] for event in hers), "1", "2"):
            assert "for ann only" not in ben.resume(event)


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}}


class Crossed(SqliteSessions):
    """A store in which the session is ended right after somebody has found it."""

    async def find(self, id: str) -> SessionRecord | None:
        found = await super().find(id)
        await self.end(id)
        return found


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[SqliteSessions]:
    async with sqlite_stores(tmp_path / "state.db") as stores:
        yield SqliteSessions(stores.file)


async def asked(
    endpoint: McpEndpoint, method: str, session: str | None, body: Any = None, store: SqliteSessions | None = None
) -> list[Message]:
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
            message["known"] = session and store and await store.find(session) is not None
        heard.append(message)

    await RequestLayer(endpoint, Front())(scope, receive, send)
    return heard


async def opened(endpoint: McpEndpoint) -> str:
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    start = (await asked(endpoint, "POST", None, body))[0]
    return str(dict(start["headers"])[b"mcp-session-id"].decode())


async def pinged(endpoint: McpEndpoint, session: str) -> int:
    answer = await asked(endpoint, "POST", session, {"jsonrpc": "2.0", "id": 2, "method": "ping"})
    return int(answer[0]["status"])


@pytest.fixture
async def pair(sessions: SqliteSessions) -> AsyncIterator[list[McpEndpoint]]:
    async with AsyncExitStack() as stack:
        both = [McpEndpoint(Server("small"), sessions) for _ in range(2)]
        for each in both:
            await stack.enter_async_context(each.run())
        yield both


async def test_it_is_over_everywhere_before_its_client_is_told(
    pair: list[McpEndpoint], sessions: SqliteSessions
) -> None:
    one, two = pair
    session = await opened(one)
    start = (await asked(one, "DELETE", session, store=sessions))[0]
    assert (start["status"], start["known"]) == (200, False)
    assert [await pinged(each, session) for each in (two, one)] == [404, 404]


async def test_a_gateway_that_had_it_too_does_not_bring_it_back(
    pair: list[McpEndpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    session = await opened(one)
    assert await pinged(two, session) == 200
    await asked(one, "DELETE", session)
    monkeypatch.setattr("leafgate.server.sessions.KEEP_SECONDS", -1.0)
    assert [await pinged(each, session) for each in (two, one, two)] == [404, 404, 404]


async def test_one_that_ends_while_it_is_taken_up_is_not_served(
    pair: list[McpEndpoint], sessions: SqliteSessions
) -> None:
    session = await opened(pair[0])
    late = McpEndpoint(Server("small"), Crossed(sessions.file))
    async with late.run():
        assert await pinged(late, session) == 404


async def test_a_refused_ending_ends_nothing(pair: list[McpEndpoint], sessions: SqliteSessions) -> None:
    one, two = pair
    session = await opened(one)
    kept = await sessions.find(session)
    assert kept is not None
    await sessions.keep(session, SessionRecord("somebody else", kept.hello))
    assert (await asked(two, "DELETE", session))[0]["status"] == 404
    assert await pinged(one, session) == 200
