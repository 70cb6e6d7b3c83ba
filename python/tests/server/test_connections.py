"""Connections on which a client does not do its part, with both parsers, on real sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import uvicorn
from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leafgate.server import http as served_http
from leafgate.server.http import BoundedH11, BoundedHead, bind

pytestmark = pytest.mark.anyio

ANSWER = b"x" * 40_000_000  # more than the kernel takes for a client that reads nothing
GET = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
    await Response(ANSWER)(scope, receive, send)


class Served:
    def __init__(self, http: uvicorn.Server, port: int) -> None:
        self.http = http
        self.port = port

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    async def until_nobody_is_connected(self) -> None:
        state = self.http.server_state
        with anyio.fail_after(30):
            for awaited in (lambda: state.total_requests or state.connections, lambda: not state.connections):
                while not awaited():  # noqa: ASYNC110  nobody tells
                    await anyio.sleep(0.01)


@asynccontextmanager
async def served(protocol: Any) -> AsyncIterator[Served]:
    with bind("127.0.0.1", 0) as listener:
        config = uvicorn.Config(app, http=protocol, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        http = uvicorn.Server(config)
        async with anyio.create_task_group() as group:
            group.start_soon(http.serve, [listener])
            yield Served(http, listener.getsockname()[1])
            http.should_exit = True


@pytest.fixture(params=[BoundedHead, BoundedH11])
async def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(served_http, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(served_http, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(served_http, "TAKE_SECONDS", 1.0)
    async with served(request.param) as running:
        yield running


@pytest.mark.parametrize(
    "said", [b"", b"GET / HT", GET[:-2], b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nhalf"]
)
async def test_a_request_that_does_not_come_is_not_waited_for(server: Served, said: bytes) -> None:
    with server.connected() as client:
        client.sendall(said)
        await server.until_nobody_is_connected()


async def test_an_answer_that_nobody_reads_is_not_kept(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    with server.connected() as client:
        client.sendall(GET * 3)
        await server.until_nobody_is_connected()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_an_answer_that_is_read_slowly_comes_whole(server: Served) -> None:
    heard = 0

    def take(client: socket.socket) -> int:
        return len(client.recv(1_000_000, socket.MSG_WAITALL))

    with server.connected() as client:
        client.sendall(GET)
        while heard < len(ANSWER):
            taken = await to_thread.run_sync(take, client)
            assert taken, f"the connection ended after {heard} bytes"
            heard += taken
            await anyio.sleep(0.05)


POST = b"POST / HTTP/1.1\r\nhost: here\r\n"
SECOND = b"GET /second HTTP/1.1\r\nhost: here\r\n\r\n"
NO_CHUNKS = b"\r\n0\r\n\r\n"
AMBIGUOUS = [
    POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n" + NO_CHUNKS,
    POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n" + NO_CHUNKS,
    POST + b"Transfer-Encoding:\tCHUNKED\r\nContent-Length: 5\r\n" + NO_CHUNKS,
    POST + b"transfer-encoding:\r\n chunked\r\ncontent-length: 5\r\n" + NO_CHUNKS,
    POST + b"x: y\r\n transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\nhello",
    POST + b"x: y\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\nhello",
    POST + b"x: y\rtransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\nhello",
    POST.replace(b"\r\n", b"\n") + b"content-length: 5\n\nhello",
    POST + b"content-length: 5\r\ncontent-length: 0\r\n\r\nhello",
    POST + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
    POST + b"content-length: 5, 5\r\n\r\nhello",
    POST + b"content-length: +5\r\n\r\nhello",
    POST + b"content-length: 0x5\r\n\r\nhello",
    POST + b"content-length : 5\r\n\r\nhello",
    POST + b"transfer-encoding: xchunked\r\n" + NO_CHUNKS,
    POST + b"transfer-encoding: gzip, chunked\r\n" + NO_CHUNKS,
    POST + b"transfer-encoding: chunked, identity\r\n" + NO_CHUNKS,
    POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n" + NO_CHUNKS,
    POST + b"transfer-encoding : chunked\r\n" + NO_CHUNKS,
    POST + b"transfer-encoding: \x0bchunked\r\n" + NO_CHUNKS,
    POST.replace(b"1.1", b"1.0") + b"connection: keep-alive\r\ntransfer-encoding: chunked\r\n" + NO_CHUNKS,
    POST.replace(b"1.1", b"1.2") + b"content-length: 0\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: here\r\nhost: there\r\ncontent-length: 0\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
]


@pytest.mark.parametrize("protocol", [BoundedHead, BoundedH11])
async def test_after_a_request_of_doubtful_length_nothing_more_is_served(
    protocol: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[str] = []

    async def note_path(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        paths.append(scope["path"])
        await Response("done")(scope, receive, send)

    def exchange(port: int, said: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(said)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while more := client.recv(65_536):
                answer += more
            return answer

    monkeypatch.setitem(globals(), "app", note_path)
    async with served(protocol) as running:
        for raw in AMBIGUOUS:
            paths.clear()
            answer = await to_thread.run_sync(exchange, running.port, raw + SECOND)
            assert answer.startswith(b"HTTP/1.1 400 "), raw
            assert "/second" not in paths, raw
        for length in (b"content-length: 5\r\n\r\nhello", b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"):
            paths.clear()
            await to_thread.run_sync(exchange, running.port, POST + length + SECOND)
            assert paths == ["/", "/second"]
