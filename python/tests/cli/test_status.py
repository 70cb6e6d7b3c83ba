"""`leafgate status` against HTTP servers of every kind. The real gateway's is in tests/whole_path."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from leafgate.cli.status import command
from leafgate.model.envelope import Origin
from leafgate.model.request import Served
from leafgate.ports import LeafReport
from leafgate.telemetry.metrics import Metrics

A = "sha256:" + "a" * 64


def status_of_a_busy_gateway() -> dict[str, Any]:
    metrics = Metrics(lambda: "2026-11-16")
    metrics.leaf(Origin("notes", "search [bold]"), A, LeafReport("shim", 1_234, "negative", 0.1, 0.5))
    metrics.leaf(Origin("notes", "list"), A, LeafReport("shim", 5_678, None, 0, 0.5, leaf_seconds=0.2))
    metrics.leaf(Origin("notes", "mail"), A, LeafReport("shim", 9, was_cleaned=True))
    metrics.leaf(Origin("time", "now"), A, LeafReport("leaf", 11))
    metrics.upstream("notes", None, 0.02)
    metrics.call(Served("0a1b2c3d", "tool_execute", "notes"), "UPSTREAM_TIMEOUT", 1)
    metrics.browsed(12_000, 100)
    names = {"my-notes": "notes", "time": "time"}
    upstreams = [{"name": name, "label": label, "state": "up", "tools": 2} for name, label in names.items()]
    return {"version": "1.0", "tools": 4, "upstreams": upstreams, **metrics.as_json()}


@contextmanager
def answering(body: bytes, code: int = 200) -> Iterator[str]:
    """A server that has one answer, and takes `Bearer right` as a token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_right = self.headers.get("authorization") == "Bearer right"
            self.send_response(200 if is_right else code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()


def asked(url: str, *flags: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner(env={"COLUMNS": "160", **(env or {})}).invoke(command, ["--url", url, *flags])


def test_what_an_operator_sees() -> None:
    with answering(json.dumps(status_of_a_busy_gateway()).encode()) as url:
        shown = asked(url).output
    assert "leaf bypasses 1, tokenized by the gateway 3, rejected leaves: negative 1" in shown
    assert "11,900 by cards" in shown
    assert re.search(r"time +│ now +│ a{8} │ 1 +│ 0 +│ 0 +│ 0 +│ 0 +│ 11 ", shown)
    assert re.search(r"notes +│ search \[bold\] +│ a{8} │ 0 +│ 1 +│ 0 +│ 1 +│ 0 +│ 1,234 +│ 600.0 ", shown)
    assert "graduate next" in shown
    assert re.search(r"notes +│ mail +│ a{8} │ 0 +│ 1 +│ 0 +│ 0 +│ 1 +│ 9 ", shown)
    assert re.search(r"notes +│ list +│ 1 +│ 5,678 +│ 0.5000 +│ 0.3000 ", shown)
    assert "npx @codecai/mcp-leaf wrap" in shown
    assert "0a1b2c3d" in shown
    assert "18 ms" in shown


def test_why_a_server_is_down() -> None:
    found = status_of_a_busy_gateway()
    found["upstreams"][0] |= {"state": "down", "last_failure": "UPSTREAM_TIMEOUT: no answer in 30 s [bold]"}
    with answering(json.dumps(found).encode()) as url:
        assert "my-notes is down: UPSTREAM_TIMEOUT: no answer in 30 s [bold]" in asked(url).output


def test_a_gateway_without_servers() -> None:
    with answering(json.dumps(status_of_a_busy_gateway() | {"upstreams": []}).encode()) as url:
        assert asked(url).output.startswith("leafgate 1.0, 4 tools, no servers\n")


def test_nothing_to_graduate_is_not_advised() -> None:
    found = status_of_a_busy_gateway() | {"graduate_next": [], "recent_errors": []}
    with answering(json.dumps(found).encode()) as url:
        shown = asked(f"{url}/mcp").output
    assert "graduate" not in shown
    assert "recent errors" not in shown


def test_json_is_as_it_came() -> None:
    found = status_of_a_busy_gateway()
    with answering(json.dumps(found).encode()) as url:
        assert json.loads(asked(url, "--json").output) == found


def test_a_token_comes_from_the_environment() -> None:
    with answering(json.dumps(status_of_a_busy_gateway()).encode(), 401) as url:
        assert asked(url, env={"LEAFGATE_TOKEN": "right"}).exit_code == 0
        assert "LEAFGATE_TOKEN" in str(asked(url, env={"LEAFGATE_TOKEN": "wrong"}).exception)
        assert "LEAFGATE_TOKEN" in str(asked(url, env={"LEAFGATE_TOKEN": ""}).exception)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (lambda: answering(b"not json"), "no gateway answers"),
        (lambda: answering(b"[]"), "is not a leafgate"),
        (lambda: answering(b"{}"), "is not a leafgate"),
        (lambda: answering(b"", 404), "HTTP 404"),
        (lambda: answering(b"", 403), "LEAFGATE_TOKEN"),
    ],
)
def test_anything_else_is_said_in_words(server: Callable[[], AbstractContextManager[str]], words: str) -> None:
    with server() as url:
        assert words in str(asked(url).exception)


def test_nobody_there() -> None:
    with answering(b"") as url:
        pass
    assert "is `leafgate serve` running?" in str(asked(url).exception)
