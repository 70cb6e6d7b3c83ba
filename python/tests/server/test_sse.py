"""The SSE transport, over a real socket: a stream out, messages in, no more streams than there is room for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.sse import sse_client
from mcp.server import Server
from mcp.types import ListToolsResult
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from leafgate.server import transports
from leafgate.server.http import Web, bind, web_app

pytestmark = pytest.mark.anyio


async def no_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[])


async def hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


@contextmanager
def serving() -> Iterator[str]:
    app = web_app(Server("small", on_list_tools=no_tools), Web(routes=[Route("/hello", hello)], transport="sse"))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


async def test_a_client_comes_and_goes_and_comes_again() -> None:
    with serving() as url:
        for _ in range(2):
            async with Client(sse_client(f"{url}/sse"), mode="legacy") as client:
                assert (await client.list_tools()).tools == []


def test_what_is_served_and_what_is_not() -> None:
    with serving() as url:
        assert httpx2.get(f"{url}/hello").text == "hello"
        assert httpx2.get(f"{url}/mcp").status_code == 404
        assert httpx2.post(f"{url}/sse").status_code == 405
        assert httpx2.get(f"{url}/messages").status_code == 405
        assert httpx2.post(f"{url}/messages", json={}).status_code == 400
        assert httpx2.post(f"{url}/messages?session_id=zzz", json={}).status_code == 400
        assert httpx2.post(f"{url}/messages?session_id={'0' * 32}", json={}).status_code == 404
        for path in ("/sse", "/hello"):
            assert httpx2.get(f"{url}{path}", headers={"host": "evil.example"}).status_code == 421
            assert httpx2.get(f"{url}{path}", headers={"origin": "http://evil.example"}).status_code == 403


def test_there_is_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "MAX_STREAMS", 1)
    with serving() as url, httpx2.stream("GET", f"{url}/sse") as first:
        assert first.status_code == 200
        assert httpx2.get(f"{url}/sse").status_code == 503
