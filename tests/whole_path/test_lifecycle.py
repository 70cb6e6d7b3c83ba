"""How gateways start, are filled, and end: real processes, their exit codes, their children."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from gateways import LEAFGATE, READY_SECONDS, SERVERS, gateway_on_http
from handshake_client import HandshakeClient, answer_in, text_in
from warm_python import PYTHON

MODERN = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}


def config_file(folder: Path, **keys: Any) -> str:
    echo = {"command": sys.executable, "args": [str(SERVERS / "echo.py")], "env": {"CALL_LOG": str(folder / "calls")}}
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": {"echo": echo}, **keys}))
    return str(file)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_there(pid: int) -> bool:
    """Whether a process runs, or has ended with nobody to take note."""
    return Path(f"/proc/{pid}").exists()


class Calling(threading.Thread):
    """A long call of its own session, and what came of it."""

    def __init__(self, url: str, mark: str, seconds: float) -> None:
        super().__init__()
        self.outcome: Any = None
        self._asked = url, mark, seconds

    def run(self) -> None:
        url, mark, seconds = self._asked
        client = HandshakeClient()
        client.open(url)
        page = text_in(client.call(url, "tool_browse", {"query": "echo a mark"}))
        found = next(word for word in page.split() if word.startswith("echo:echo#"))
        args = {"tool_id": found, "args": {"mark": mark, "seconds": seconds}}
        try:
            answer = client.post(url, "tools/call", {"name": "tool_execute", "arguments": args})
            self.outcome = answer_in(answer)
        except (httpx2.HTTPError, IndexError) as error:
            self.outcome = error


def test_a_call_under_way_is_answered_before_the_gateway_ends(tmp_path: Path) -> None:
    with gateway_on_http("--config", config_file(tmp_path, drain_seconds=20)) as gateway:
        calling = Calling(gateway.url, "m1", seconds=2)
        calling.start()
        wait_until((tmp_path / "calls").exists)
        children = children_of(gateway.process.pid)
        assert children
        gateway.process.send_signal(signal.SIGTERM)
        calling.join(READY_SECONDS)
        assert "m1 " in text_in(calling.outcome["result"])
        assert gateway.process.wait(READY_SECONDS) == 0
    assert not [child for child in children if is_there(child)]


def test_a_call_that_takes_too_long_is_ended_and_so_are_the_servers(tmp_path: Path) -> None:
    with gateway_on_http("--config", config_file(tmp_path, drain_seconds=1)) as gateway:
        calling = Calling(gateway.url, "m2", seconds=50)
        calling.start()
        wait_until((tmp_path / "calls").exists)
        children = children_of(gateway.process.pid)
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(READY_SECONDS) == 0
        calling.join(READY_SECONDS)
        assert calling.outcome is not None, "the client still waits"
        assert "may have been carried out" in calling.outcome["error"]["message"]
    assert not [child for child in children if is_there(child)]


STUBBORN = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("up").touch()
sys.stdin.read()
pathlib.Path("told").touch()
time.sleep(600)
"""


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_impatience_leaves_no_server_behind(tmp_path: Path, transport: str) -> None:
    """A server that does not want to end is ended all the same, whatever signals come meanwhile; also at the start."""
    config = tmp_path / "leafgate.json"
    stubborn = {"command": sys.executable, "args": ["-c", STUBBORN], "cwd": str(tmp_path)}
    config.write_text(json.dumps({"mcpServers": {"stubborn": stubborn}}))
    words = [str(LEAFGATE), "serve", "--transport", transport, "--port", "0", "--config", str(config)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        wait_until((tmp_path / "up").exists)
        (child,) = children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        wait_until((tmp_path / "told").exists)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(READY_SECONDS) == 0
    assert not is_there(child)


def started(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, str(LEAFGATE), "serve", "--transport", "http", *words],
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=False,
    )


def test_a_busy_port_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = started("--config", config_file(tmp_path), "--port", str(port))
    assert ran.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"state": "sqlite:no/folder\0/x"}, "state"),
        ({"state": "redis://127.0.0.1:1/0"}, "redis://127.0.0.1:1/0: not reachable"),
        ({"state": "sqlite:leafgate.json"}, "not an SQLite database"),
        ({"maps": {"files": ["broken.json"]}, "map": "broken"}, "broken.json"),
        ({"maps": {"files": ["missing.json"]}}, "missing.json"),
    ],
)
def test_a_store_or_a_map_that_cannot_be_used_ends_the_start(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    (tmp_path / "broken.json").write_text('{"id": "broken"')
    ran = started("--config", config_file(tmp_path, **keys), "--port", "0")
    assert ran.returncode == 2, ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "calls").exists()


def answer_to_raw(url: str, *parts: bytes) -> bytes:
    """What comes back for these bytes, until the other side closes."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=READY_SECONDS) as connection:
        heard = b""
        try:
            for part in parts:
                connection.sendall(part)
            while chunk := connection.recv(65_536):
                heard += chunk
        except (ConnectionResetError, BrokenPipeError):
            pass
        return heard


def test_what_one_client_may_send_is_bounded(tmp_path: Path) -> None:
    with gateway_on_http("--config", config_file(tmp_path)) as gateway:
        host = urlsplit(gateway.url).netloc.encode()
        head = b"POST /mcp HTTP/1.1\r\nhost: " + host + b"\r\n"
        for flood in ([b"x: " + b"a" * 4_000_000], [b"x%d: a\r\n" % number for number in range(100_000)]):
            answer = answer_to_raw(gateway.url, head, *flood, b"\r\n\r\n")
            assert answer[:12] in (b"", b"HTTP/1.1 431", b"HTTP/1.1 400")
        body = httpx2.post(f"{gateway.url}/mcp", content=b" " * 5_000_000, headers=MODERN)
        assert body.status_code == 413
        deep = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001
        assert httpx2.post(f"{gateway.url}/mcp", content=deep, headers=MODERN).status_code == 400
        assert httpx2.get(f"{gateway.url}/health").status_code == 200
        resident = int(Path(f"/proc/{gateway.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert resident < 500_000_000


def test_connections_beyond_the_bound_are_sent_away_and_the_others_served(tmp_path: Path) -> None:
    with gateway_on_http("--config", config_file(tmp_path, max_connections=8)) as gateway:
        place = urlsplit(gateway.url)
        idle = [socket.create_connection((place.hostname or "", place.port or 0)) for _ in range(8)]
        wait_until(lambda: httpx2.get(f"{gateway.url}/health").status_code == 503)
        for connection in idle:
            connection.close()
        wait_until(lambda: httpx2.get(f"{gateway.url}/health").status_code == 200)


def test_why_a_required_server_is_missing_is_told_without_its_secrets(tmp_path: Path) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/sse?api_key=k3y-of-the-operator"
        file = tmp_path / "leafgate.json"
        file.write_text(json.dumps({"mcpServers": {"far": {"url": url, "type": "sse", "required": True}}}))
        command = [str(LEAFGATE), "serve", "--transport", "http", "--port", "0", "--config", str(file)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=READY_SECONDS, check=False)
        server.shutdown()
    assert ran.returncode == 2
    assert "a required server did not start: far: AUTH_FAILED" in ran.stderr
    assert "k3y-of-the-operator" not in ran.stdout + ran.stderr


def test_a_client_that_does_not_wait_for_a_discovery_can_initialize(tmp_path: Path) -> None:
    """As @ai-sdk/mcp does: it takes a server that has not answered within a second for one of the handshake era."""
    versions = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    client = {"io.modelcontextprotocol/clientInfo": {"name": "hasty", "version": "1"}}
    envelope = {**versions, **client, "io.modelcontextprotocol/clientCapabilities": {}}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "hasty", "version": "1"}}
    sent: list[dict[str, Any]] = [
        {"id": 1, "method": "server/discover", "params": {"_meta": envelope}},
        {"id": 2, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 3, "method": "tools/list", "params": {}},
    ]
    command = [str(LEAFGATE), "serve", "--config", config_file(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in sent))
        process.stdin.flush()
        answers: dict[int, Any] = {}
        for line in process.stdout:
            answer = json.loads(line)
            answers[answer.get("id")] = answer
            if 3 in answers:
                break
        process.stdin.close()
        assert process.wait(READY_SECONDS) == 0
    assert answers[2]["result"]["protocolVersion"] == "2025-11-25"
    assert "tool_browse" in {tool["name"] for tool in answers[3]["result"]["tools"]}
