"""A stateless call is answered as JSON, or as events once something is said. Real requests on a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp.server import Server
from mcp.types import CallToolResult, JSONRPCRequest, ListToolsResult, TextContent
from starlette.requests import Request
from starlette.types import Message

from leafgate.server import exchange
from leafgate.server.endpoint import is_stateless
from leafgate.server.exchange import Exchange, Outlet
from leafgate.server.http import Web, bind, web_app

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
    "progressToken": "p",
}
HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": VERSION,
    "mcp-method": "tools/call",
}

CANCELLED = threading.Event()


async def call(ctx: Any, params: Any) -> CallToolResult:
    match params.name:
        case "progress":
            await ctx.session.report_progress(1, 2, "half")
        case "slow":
            await anyio.sleep(exchange.PING_SECONDS * 6)
        case "for ever":
            try:
                await ctx.session.report_progress(1, 2, "begun")
                await anyio.sleep_forever()
            finally:
                CANCELLED.set()
        case "silent":
            try:
                await anyio.sleep_forever()
            finally:
                CANCELLED.set()
        case "talks":
            for each in range(100):
                await ctx.session.report_progress(each, 100, "x" * 10_000)
        case "breaks":
            raise RuntimeError("a secret")
        case "breaks late":
            await ctx.session.report_progress(1, 2, "half")
            raise RuntimeError("a secret")
    return CallToolResult(content=[TextContent(type="text", text="done")])


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[])


@contextmanager
def serving(call: Any = call) -> Iterator[str]:
    app = web_app(Server("small", on_list_tools=list_tools, on_call_tool=call), Web())
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()


def asking(name: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "_meta": META}}


def ask(url: str, name: str, **headers: str) -> httpx2.Response:
    return httpx2.post(url, json=asking(name), headers={**HEADERS, "mcp-name": name, **headers}, timeout=20)


def events(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


def test_a_quick_answer_is_json() -> None:
    with serving() as url:
        answer = ask(url, "quick")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["id"] == 7
        assert answer.json()["result"]["content"][0]["text"] == "done"


def test_what_is_said_comes_before_the_answer() -> None:
    with serving() as url:
        said, answer = events(ask(url, "progress"))
        assert (said["method"], said["params"]["message"]) == ("notifications/progress", "half")
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (7, "done")


def test_a_failure_keeps_its_words_to_itself_on_either_way() -> None:
    with serving() as url:
        plain, late = ask(url, "breaks"), ask(url, "breaks late")
        assert plain.json()["error"]["message"] == "Internal server error"
        assert events(late)[-1]["error"]["message"] == "Internal server error"
        assert "a secret" not in plain.text + late.text


def test_a_long_call_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "WATCH_AFTER_SECONDS", 0.01)
    monkeypatch.setattr(exchange, "PING_SECONDS", 0.1)
    with serving() as url:
        answer = ask(url, "slow")
        assert answer.text.startswith(": ping")
        assert events(answer)[-1]["result"]["content"][0]["text"] == "done"


def test_a_call_ends_when_its_client_goes() -> None:
    CANCELLED.clear()
    with serving() as url:
        sent = {**HEADERS, "mcp-name": "for ever"}
        with httpx2.stream("POST", url, json=asking("for ever"), headers=sent, timeout=20) as answer:
            assert any("begun" in line for line in answer.iter_lines())
        assert CANCELLED.wait(20)


def test_a_silent_call_ends_when_its_client_goes() -> None:
    CANCELLED.clear()
    with serving() as url:
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(
                url,
                json=asking("silent"),
                headers={**HEADERS, "mcp-name": "silent"},
                timeout=httpx2.Timeout(20, read=0.5),
            )
        assert CANCELLED.wait(20)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 406),
        ({"content-type": "text/plain"}, 400),
        ({"mcp-protocol-version": "2099-01-01"}, 400),
        ({"mcp-method": "tools/list"}, 400),
        ({"host": "evil.example"}, 421),
    ],
)
def test_the_sdk_still_refuses_what_is_not_in_order(headers: dict[str, str], status: int) -> None:
    with serving() as url:
        assert ask(url, "quick", **headers).status_code == status


class Connection:
    """Takes an answer, and notifies in the middle of it and after it, as a task that was left behind may."""

    def __init__(self) -> None:
        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": []}
        request = Request(scope, nothing)
        rpc = JSONRPCRequest(jsonrpc="2.0", id=7, method="ping")
        self.outlet = Outlet(request, self.send)
        self.exchange = Exchange(request, rpc, self.outlet)
        self.body = b""
        self.is_complete = False

    async def send(self, message: Message) -> None:
        assert not self.is_complete
        self.body += message.get("body", b"")
        self.is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)


async def nothing() -> Message:
    raise AssertionError


@pytest.mark.anyio
@pytest.mark.parametrize("early", [False, True])
async def test_what_is_said_too_late_is_no_part_of_the_answer(early: bool) -> None:
    connection = Connection()
    if early:
        await connection.exchange.notify("notifications/early", None)
    async with anyio.create_task_group() as group:
        group.start_soon(connection.exchange.answer, {})
        group.start_soon(connection.exchange.notify, "notifications/late", None)
    await connection.exchange.notify("notifications/late", None)
    assert not await connection.exchange.hold(connection.outlet)
    assert connection.is_complete
    answer = b'{"jsonrpc":"2.0","id":7,"result":{}}'
    event = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/early"}\r\n\r\n'
    assert connection.body == (event + b"event: message\r\ndata: " + answer + b"\r\n\r\n" if early else answer)


def test_a_long_answer_in_many_events_comes_whole() -> None:
    with serving() as url:
        told = events(ask(url, "talks"))
        assert [each["params"]["progress"] for each in told[:-1]] == [float(each) for each in range(100)]
        assert told[-1]["result"]["content"][0]["text"] == "done"


def scope(method: str = "POST", **headers: str) -> dict[str, Any]:
    return {"method": method, "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}


def test_a_request_is_stateless_by_the_version_that_it_names() -> None:
    assert is_stateless(scope(**{"mcp-protocol-version": VERSION}))
    assert is_stateless(scope(**{"mcp-protocol-version": "2099-01-01"}))
    assert not is_stateless(scope(**{"mcp-protocol-version": "2025-11-25"}))
    assert not is_stateless(scope())


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"tools/call"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 400, -32600),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled"}', 202, None),
    ],
)
def test_what_is_not_a_request_is_refused_or_acknowledged(body: bytes, status: int, code: int | None) -> None:
    with serving() as url:
        sent = {"content-type": "application/json", **HEADERS}
        answer = httpx2.post(url, content=body, headers=sent, timeout=20)
        assert answer.status_code == status
        assert code is None or answer.json()["error"]["code"] == code


def test_a_result_is_the_sdks_byte_for_byte_of_json_also_where_only_the_sdk_can_write_it() -> None:
    odd = {"plain": "Grüße, 漢字", "numbers": [1, -0.5, 2**70, None], "surrogate": "x\ud800y"}

    async def tell(ctx: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"value": odd[params.name]})

    with serving(call=tell) as url, httpx2.Client() as http:
        for name, value in odd.items():
            response = http.post(url, headers=HEADERS | {"mcp-name": name}, json=asking(name))
            answer = json.loads(response.content)
            assert response.status_code == 200
            assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
            assert answer["result"]["structuredContent"] == {"value": value}
            assert answer["result"]["resultType"] == "complete"
