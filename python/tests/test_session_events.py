"""What a session missed is told to that session, and to nobody else. The sessions are real, on a real socket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.server import Server
from mcp.server.streamable_http import EventMessage
from mcp.types import CallToolResult, JSONRPCNotification, ListToolsResult, TextContent

from leafgate.server.event_store import MemoryEventStore
from leafgate.server.http import Web, bind, web_app
from leafgate.server.session_events import SessionEvents, SessionManager

pytestmark = pytest.mark.anyio


def note(text: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method=text)


async def replayed(events: SessionEvents, after: str) -> tuple[list[str], str | None]:
    seen: list[str] = []

    async def see(event: EventMessage) -> None:
        seen.append(event.message.method)  # type: ignore[union-attr]

    return seen, await events.replay_events_after(after, see)


async def test_streams_of_one_name_are_kept_apart() -> None:
    shared = MemoryEventStore()
    mine, theirs = SessionEvents(shared), SessionEvents(shared)
    first = await mine.store_event("1", note("a"))
    stolen = await theirs.store_event("1", note("their secret"))
    await mine.store_event("1", note("b"))
    await theirs.store_event("1", note("another"))
    assert await replayed(mine, first) == (["b"], "1")
    assert await replayed(theirs, stolen) == (["another"], "1")


@pytest.mark.parametrize(
    "change", [lambda theirs: theirs, lambda theirs: theirs.partition(".")[2], lambda theirs: "", lambda theirs: "."]
)
async def test_an_event_of_another_session_is_unknown(change: Any) -> None:
    shared = MemoryEventStore()
    mine, theirs = SessionEvents(shared), SessionEvents(shared)
    before = await theirs.store_event("1", note("a"))
    await theirs.store_event("1", note("their secret"))
    assert await replayed(mine, change(before)) == ([], None)


async def test_replayed_events_have_the_ids_they_had() -> None:
    events = SessionEvents(MemoryEventStore())
    ids = [await events.store_event("1", note(text)) for text in "abc"]
    seen: list[str | None] = []

    async def see(event: EventMessage) -> None:
        seen.append(event.event_id)

    await events.replay_events_after(ids[0], see)
    assert seen == ids[1:]


def test_every_session_gets_its_own() -> None:
    manager = SessionManager(app=Server("small"))
    assert manager.events_of("a") is not manager.events_of("b")


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
