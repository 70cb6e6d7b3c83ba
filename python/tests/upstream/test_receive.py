"""What is read from servers is bounded before the SDK sees it, and what cannot be read fails its request."""

from __future__ import annotations

import gzip
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from leafgate.gateway.workload import Workload
from leafgate.model.errors import UpstreamFailure
from leafgate.upstream import HttpServer, ServerSpec, receive
from leafgate.upstream.fleet import Fleet
from leafgate.upstream.raw_session import MALFORMED, TOO_LARGE, find_answer_id
from leafgate.upstream.receive import LOG_LINE, MOST_OF_A_KIND, EventLimit, NotificationPace

MB = 1_000_000


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"result":{"x":"\xff"}}', 5),
        (b' { "id" : 5 , "jsonrpc" : "2.0" , "result" : [[[ } ', 5),
        (b'{"result":{"x":"\xff"},"id":5,"jsonrpc":"2.0"}', 5),
        (b'{"jsonrpc":"2.0","result":{"id":6,"x":"\xff"},"id":5}', 5),
        (b'{"jsonrpc":"2.0","id":-5,"error":{"code":"\xff"}}', -5),
        (b'{"jsonrpc":"2.0","result":{"x":"\xff"}}', None),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"\xff"}}', None),
        (b'{"jsonrpc":"2.0","method":"x","id":5,"params":{"x":"\xff"}}', None),
        (b'{"jsonrpc":"2.0","id":5,"result":{"x":"cut off', None),
        (b'{"jsonrpc":"2.0","id":"5","result":{"x":"\xff"}}', None),
        (b'{"jsonrpc":"2.0","id":5.5,"result":{"x":"\xff"}}', None),
        (b'{"jsonrpc":"2.0","id":' + b"5" * 5_000 + b',"result":{}}', None),
        (b'[{"jsonrpc":"2.0","id":5,"result":{}}]', 5),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":5,"result":{}}', 5),
        (b'{"jsonrpc":"2.0","id":5.0,"result":{}}', 5),
        (b'{"jsonrpc":"2.0","id":5e0,"result":{}}', 5),
        (b'{"jsonrpc":"2.0","id":5e1,"result":{}}', None),
        (b"words that are not JSON", None),
        (b"[" * 100_000, None),
        (b"", None),
    ],
)
def test_the_request_that_a_malformed_message_answers(line: bytes, request_id: int | None) -> None:
    assert find_answer_id(line) == request_id


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_of_an_event_stream_only_events_that_are_too_large_are_replaced(end: bytes) -> None:
    small = b'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}'
    large = b'data: {"jsonrpc":"2.0","id":2,"result":"' + b"x" * 5_000 + b'"}'
    stream, chance = end.join([small, large, small, large, large, small, b""]), random.Random(1)
    for _ in range(50):
        refusals: list[int] = []
        limit, out, place = EventLimit(1_000, lambda refusals=refusals: refusals.append(1)), [], 0
        while place < len(stream):
            size = chance.choice([1, 2, 3, 50, 700])
            out += limit.feed(stream[place : place + size])
            assert limit.size <= 1_000
            place += size
        passed = b"".join(out)
        assert passed.count(b'"id":1') == 3
        assert passed.count(TOO_LARGE.encode()) == len(refusals) == 3
        assert passed.count(b"x") < 3 * 2_000


def test_a_large_event_is_held_back_until_it_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "_HELD_FROM", 1_000)
    limit = EventLimit(10_000, lambda: None)
    passed = b"".join(piece for _ in range(8) for piece in limit.feed(b"data: " + b"x" * 994))
    assert len(passed) == 1_000
    assert len(b"".join(limit.feed(b"\n\ndata: 1\n\n"))) == 7_000 + 11
    endless = [piece for _ in range(50) for piece in limit.feed(b"y" * 1_000)]
    assert sum(map(len, endless)) < 2_000


def test_a_flood_of_log_lines_is_passed_on_in_part() -> None:
    now = [0.0]
    pace = NotificationPace(lambda: now[0])
    assert not any(pace.is_too_many(LOG_LINE) for _ in range(MOST_OF_A_KIND))
    assert pace.is_too_many(LOG_LINE)
    assert not pace.is_too_many("notifications/tools/list_changed")
    now[0] = 1.0
    assert not pace.is_too_many(LOG_LINE)


# Over HTTP

RESULT = '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":%s}}'
ANSWERS = {
    "bomb": lambda id: (gzip.compress((RESULT % (id, f'"{"x" * 60 * MB}"')).encode()), "application/json", "gzip"),
    "large": lambda id: ((RESULT % (id, f'"{"x" * 2 * MB}"')).encode(), "application/json", ""),
    "large-event": lambda id: (
        f"data: {RESULT % (id, json.dumps('x' * 2 * MB))}\n\n".encode(),
        "text/event-stream",
        "",
    ),
    "many-values": lambda id: ((RESULT % (id, f"[{'[],' * 9_000}0]")).encode(), "application/json", ""),
    "many-in-event": lambda id: (
        f"data: {RESULT % (id, '[' + '[],' * 90_000 + '0]')}\n\n".encode(),
        "text/event-stream",
        "",
    ),
    "bytes": lambda id: ((RESULT % (id, '"?"')).encode().replace(b"?", b"\xff"), "application/json", ""),
    "deep": lambda id: ((RESULT % (id, "[" * 5_000 + "]" * 5_000)).encode(), "application/json", ""),
    "digits": lambda id: ((RESULT % (id, "9" * 5_000)).encode(), "application/json", ""),
    "not-gzip": lambda id: (b"not gzip", "application/json", "gzip"),
    "text-id": lambda id: ((RESULT % (f'"{id}"', "1")).encode(), "application/json", ""),
    "right": lambda id: ((RESULT % (id, "1")).encode(), "application/json", ""),
}


class Handler(BaseHTTPRequestHandler):
    """Answers a call of a tool with the answer that its name stands for."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            return self._reply(202, b"", "application/json")
        if message["method"] == "tools/call":
            return self._reply(200, *ANSWERS[message["params"]["name"]](message["id"]))
        if message["method"] == "initialize":
            server = {"name": "hostile", "version": "1"}
            result: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": server}
            return self._reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())
        return self._reply(404, b"")

    def do_GET(self) -> None:
        self._reply(405, b"")

    def _reply(self, status: int, body: bytes, kind: str = "application/json", encoding: str = "") -> None:
        self.send_response(status)
        for name, value in (("content-type", kind), ("content-length", str(len(body))), ("content-encoding", encoding)):
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *args: None  # type: ignore[method-assign]  # clients go away in the middle
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.anyio
async def test_an_answer_over_http_that_is_too_large_or_cannot_be_read_fails_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive, "MAX_ANSWER", MB)
    monkeypatch.setattr(receive, "MAX_SIGNS", 15_000)
    monkeypatch.setattr(receive.BoundedClient.__init__, "__defaults__", (MB,))
    workload, failures = Workload(), {}
    with serving() as url:
        fleet = Fleet([ServerSpec("web", HttpServer(url), timeout=20)], intake_of=workload.share_of)
        async with fleet.running():
            await fleet.wait_for_start()
            for name in ANSWERS:
                if name != "right":
                    with pytest.raises(UpstreamFailure) as failure:
                        await fleet.request("web", "tools/call", {"name": name})
                    failures[name] = (failure.value.code, failure.value.message)
                assert (await fleet.request("web", "tools/call", {"name": "right"}))["x"] == 1
    too_large, malformed = ("UPSTREAM_ERROR", TOO_LARGE), ("UPSTREAM_ERROR", MALFORMED)
    assert failures == {
        **dict.fromkeys(("bomb", "large", "large-event", "many-values", "many-in-event"), too_large),
        **dict.fromkeys(("bytes", "deep", "digits", "not-gzip", "text-id"), malformed),
    }
    assert workload.held() == {"web": 0}
