"""When keys are read again, and what becomes of the known ones when that fails. The HTTP server here is real."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from jwt.algorithms import OKPAlgorithm

from leafgate.model.errors import ConfigError
from leafgate.server.auth import jwks_source
from leafgate.server.auth.jwks_source import (
    ASK_AGAIN_SECONDS,
    FRESH_SECONDS,
    STALE_SECONDS,
    KeySource,
    keys_of_file,
    keys_of_url,
)
from leafgate.server.auth.signing_keys import MAX_DOCUMENT

pytestmark = pytest.mark.anyio


def document(*kids: str) -> bytes:
    public = json.loads(OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key()))
    return json.dumps({"keys": [{**public, "kid": kid} for kid in kids]}).encode()


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Server:
    """What it answers with next, and how often it was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.asked, self.headers = 200, document("one"), 0, {}
        self.url = ""


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked += 1
            self.send_response(server.status)
            for name, value in server.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(server.body)))
            self.end_headers()
            self.wfile.write(server.body)

        def log_message(self, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}/jwks"
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


async def kids(source: KeySource, *, again: bool = False) -> list[str | None]:
    return [key.kid for key in (await source.keys(again=again)).keys]


async def test_a_url_is_asked_once_while_its_keys_are_fresh() -> None:
    time = Time()
    with serving() as server:
        source = keys_of_url(server.url, clock=time)
        for _ in range(3):
            assert await kids(source) == ["one"]
        assert server.asked == 1
        server.body = document("two")
        time.now += FRESH_SECONDS
        assert await kids(source) == ["two"]
        assert server.asked == 2


async def test_an_unknown_key_makes_it_ask_again_but_not_often() -> None:
    time = Time()
    with serving() as server:
        source = keys_of_url(server.url, clock=time)
        await source.keys()
        server.body = document("one", "two")
        for _ in range(20):
            assert await kids(source, again=True) == ["one"]
        assert server.asked == 1
        time.now += ASK_AGAIN_SECONDS
        for _ in range(20):
            assert await kids(source, again=True) == ["one", "two"]
        assert server.asked == 2


async def test_many_at_once_ask_once() -> None:
    with serving() as server:
        source = keys_of_url(server.url)
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(source.keys)
        assert server.asked == 1


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (500, b"", {}),
        (302, b"", {"location": "/elsewhere"}),
        (200, b"<html>", {}),
        (200, b'{"keys": []}', {}),
        (200, b" " * (MAX_DOCUMENT + 1), {}),
    ],
)
async def test_a_failure_leaves_the_known_keys_for_a_day(status: int, body: bytes, headers: dict[str, str]) -> None:
    time = Time()
    with serving() as server:
        source = keys_of_url(server.url, clock=time)
        await source.keys()
        server.status, server.body, server.headers = status, body, headers
        time.now += FRESH_SECONDS
        assert await kids(source) == ["one"]
        assert server.asked == 2
        time.now += STALE_SECONDS
        assert await kids(source) == []


async def test_a_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks_source, "FETCH_SECONDS", 0.2)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        assert await kids(keys_of_url(f"http://127.0.0.1:{port}/jwks")) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/jwks",
        "http://10.0.0.1/jwks",
        "http://localhost.evil.example/jwks",
        "ftp://127.0.0.1/jwks",
        "https:///jwks",
        "https://user:secret@issuer.example/jwks",
    ],
)
def test_a_url_that_others_could_answer_for_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"auth\.jwt\.jwks") as raised:
        keys_of_url(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["https://issuer.example/jwks", "http://localhost:1/x", "http://[::1]:1/x"])
def test_a_url_that_is_taken(url: str) -> None:
    assert keys_of_url(url)


async def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    time, file = Time(), tmp_path / "jwks.json"
    file.write_bytes(document("one"))
    source = keys_of_file(file, clock=time)
    assert await kids(source) == ["one"]
    file.write_bytes(document("two"))
    assert await kids(source) == ["one"]
    time.now += 1
    assert await kids(source) == ["two"]
    file.write_bytes(b"half a docu")
    time.now += 1
    assert await kids(source) == ["two"]
    file.unlink()
    time.now += 1
    assert await kids(source) == ["two"]


async def test_a_file_that_is_not_there_opens_nothing(tmp_path: Path) -> None:
    assert await kids(keys_of_file(tmp_path / "none.json")) == []
