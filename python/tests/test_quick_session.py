"""A quick answer is plain JSON, and all else is a stream that can be taken up again. Real sessions on a real socket."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp.server import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.shared.message import ServerMessageMetadata
from mcp.types import CallToolResult, ElicitRequest, ElicitResult, ListToolsResult, TextContent
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from leafgate.server.http import Web, bind, web_app
from leafgate.server.quick_session import QUICK_SECONDS, QuickTransport
from leafgate.server.session_events import SessionManager

BOTH = "application/json, text/event-stream"
CLIENT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "t", "version": "1"},
}


ENTERED = threading.Semaphore(0)
LEAVE: dict[int, anyio.Event] = {}


async def call(ctx: Any, params: Any) -> CallToolResult:
    said = "done"
    match params.name:
        case "progress":
            await ctx.session.report_progress(1, 2, "half")
        case "slow":
            await anyio.sleep(QUICK_SECONDS * 2)
        case "asks":
            question = ElicitRequest.model_validate(
                {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": SCHEMA}}
            )
            related = ServerMessageMetadata(related_request_id=ctx.request_id)
            answer = await ctx.session.send_request(question, ElicitResult, metadata=related)
            said = answer.action
        case "for ever":
            await anyio.sleep_forever()
        case "waits":
            leave = LEAVE[0] = anyio.Event()
            ENTERED.release()
            await leave.wait()
        case "lets go":
            LEAVE[0].set()
        case "talks":
            for each in range(200):
                await ctx.session.report_progress(each, 200, "x" * 50_000)
        case "breaks":
            raise RuntimeError("broken")
    return CallToolResult(content=[TextContent(type="text", text=f"{said} {(params.arguments or {}).get('n', '')}")])


SCHEMA = {"type": "object", "properties": {}}


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[])


@contextmanager
def serving(app: ASGIApp | None = None) -> Iterator[str]:
    app = app or web_app(Server("small", on_list_tools=list_tools, on_call_tool=call), Web())
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def serving_seen() -> Iterator[tuple[str, SessionManager]]:
    """The same, with a look at its sessions."""
    manager = SessionManager(app=Server("small", on_list_tools=list_tools, on_call_tool=call), retry_interval=1000)
    endpoint = Route("/mcp", StreamableHTTPASGIApp(manager))
    with serving(Starlette(routes=[endpoint], lifespan=lambda app: manager.run())) as url:
        yield url, manager


class Session:
    """A client by hand."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.headers = {"accept": BOTH, "mcp-protocol-version": "2025-11-25"}
        opened = self.post({"id": 0, "method": "initialize", "params": CLIENT})
        self.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        self.post({"method": "notifications/initialized"})

    def post(self, message: dict[str, Any], **headers: str) -> httpx2.Response:
        sent = {"jsonrpc": "2.0", **message}
        return httpx2.post(self.url, json=sent, headers={**self.headers, **headers}, timeout=20)

    def call(self, name: str, number: int = 1, **headers: str) -> httpx2.Response:
        return self.post(asking(name, number), **headers)

    def stream(self, name: str, number: int = 1) -> Any:
        sent = {"jsonrpc": "2.0", **asking(name, number)}
        return httpx2.stream("POST", self.url, json=sent, headers=self.headers, timeout=20)


def asking(name: str, number: int) -> dict[str, Any]:
    params = {"name": name, "arguments": {"n": number}, "_meta": {"progressToken": f"p{number}"}}
    return {"id": number, "method": "tools/call", "params": params}


def events(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(text) for text in data if text]


def test_a_quick_answer_is_plain_json_of_its_session() -> None:
    with serving() as url:
        session = Session(url)
        for number in (1, 2):
            answer = session.call("quick", number)
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["mcp-session-id"] == session.headers["mcp-session-id"]
            assert answer.json()["id"] == number
            assert answer.json()["result"]["content"][0]["text"] == f"done {number}"


def test_an_error_is_plain_json_too() -> None:
    with serving() as url:
        answer = Session(url).call("breaks")
        assert answer.headers["content-type"] == "application/json"
        assert "error" in answer.json()


@pytest.mark.parametrize("name", ["progress", "slow"])
def test_what_has_more_to_say_or_takes_long_is_a_stream_that_begins_with_an_id(name: str) -> None:
    with serving() as url:
        answer = Session(url).call(name)
        told = events(answer)
        assert told[-1]["result"]["content"][0]["text"] == "done 1"
        assert [each.get("method") for each in told[:-1]] == (["notifications/progress"] if name == "progress" else [])
        assert answer.text.startswith("id: ")


def test_a_stream_can_be_taken_up_again_after_its_first_event() -> None:
    with serving() as url:
        session = Session(url)
        whole = session.call("progress")
        first = next(line[4:] for line in whole.text.splitlines() if line.startswith("id: "))
        headers = {**session.headers, "last-event-id": first}
        with httpx2.stream("GET", url, headers=headers, timeout=20) as again:
            seen = ""
            for line in again.iter_lines():
                seen += f"{line}\n"
                if "done 1" in line:
                    break
        assert "notifications/progress" in seen


def test_a_question_in_the_middle_of_a_call_reaches_its_client() -> None:
    with serving() as url:
        session = Session(url)
        seen: list[dict[str, Any]] = []
        with session.stream("asks") as answer:
            for line in answer.iter_lines():
                if not line.startswith("data: {"):
                    continue
                seen.append(json.loads(line[6:]))
                if seen[-1].get("method") == "elicitation/create":
                    session.post({"id": seen[-1]["id"], "result": {"action": "decline"}})
        assert seen[-1]["result"]["content"][0]["text"] == "decline 1"


def test_a_cancelled_request_is_answered_as_the_sdk_does() -> None:
    with serving() as url:
        session = Session(url)
        answers: list[httpx2.Response] = []
        waiting = threading.Thread(target=lambda: answers.append(session.call("for ever")))
        waiting.start()
        while waiting.is_alive():  # the request may not have arrived yet
            session.post({"method": "notifications/cancelled", "params": {"requestId": 1}})
            waiting.join(0.05)
        assert "Request cancelled" in answers[0].text


def test_the_end_of_a_session_ends_its_requests() -> None:
    with serving() as url:
        session = Session(url)
        answers: list[httpx2.Response] = []
        waiting = threading.Thread(target=lambda: answers.append(session.call("for ever")))
        waiting.start()
        session.call("quick", 2)
        httpx2.delete(url, headers=session.headers)
        waiting.join(20)
        assert not waiting.is_alive()
        assert "result" not in answers[0].text
        assert session.call("quick", 3).status_code == 404


@pytest.mark.parametrize("seconds", [0, QUICK_SECONDS * 2], ids=["waiting", "streaming"])
def test_an_id_is_refused_while_a_request_of_that_id_is_being_answered(seconds: float) -> None:
    with serving() as url:
        session = Session(url)
        answers: list[httpx2.Response] = []
        waiting = threading.Thread(target=lambda: answers.append(session.call("waits")))
        waiting.start()
        assert ENTERED.acquire(timeout=20)
        time.sleep(seconds)
        assert session.call("quick").status_code == 400
        session.call("lets go", 2)
        waiting.join(20)
        assert "done 1" in answers[0].text
        assert session.call("quick").json()["id"] == 1


def test_nothing_is_kept_of_requests_that_are_over() -> None:
    with serving_seen() as (url, manager):
        session = Session(url)
        (transport,) = manager._server_instances.values()
        assert isinstance(transport, QuickTransport)
        for number, name in enumerate(("quick", "progress", "slow", "breaks"), 1):
            session.call(name, number)
        for number, name in enumerate(("talks", "for ever"), 10):
            with session.stream(name, number):
                pass  # a client that goes away as soon as it has its stream
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(url, json={"jsonrpc": "2.0", **asking("slow", 20)}, headers=session.headers, timeout=0.01)
        session.post({"method": "notifications/cancelled", "params": {"requestId": 11}})
        kept = (transport._request_streams, transport._sse_stream_writers, transport._waiting)
        until = time.monotonic() + 20
        while any(kept) and time.monotonic() < until:
            time.sleep(0.01)
        assert not any(kept)


def test_a_client_that_reads_nothing_holds_up_its_own_session_only() -> None:
    with serving() as url:
        lazy, other = Session(url), Session(url)
        with lazy.stream("talks"):
            assert other.call("quick").json()["id"] == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 406),
        ({"content-type": "text/plain"}, 400),
        ({"mcp-session-id": "somebody-else"}, 404),
        ({"host": "evil.example"}, 421),
    ],
)
def test_the_sdk_still_refuses_what_is_not_in_order(headers: dict[str, str], status: int) -> None:
    with serving() as url:
        assert Session(url).call("quick", **headers).status_code == status


def test_garbage_is_refused_and_the_session_goes_on() -> None:
    with serving() as url:
        session = Session(url)
        for body in (b"{", b"[]", b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"1.0","id":1,"method":"ping"}'):
            headers = {**session.headers, "content-type": "application/json"}
            assert httpx2.post(url, content=body, headers=headers).status_code == 400
        assert session.call("quick").json()["id"] == 1


def test_the_parts_of_the_sdk_that_are_relied_on_are_there() -> None:
    transport = StreamableHTTPServerTransport("a")
    for name in ("_request_streams", "_sse_stream_writers", "_write_stream", "_read_stream_writer"):
        assert hasattr(transport, name), name
    for name in (
        "_handle_post_request",
        "_create_session_message",
        "_mint_priming_event",
        "_run_sse_writer",
        "_create_json_response",
        "_create_error_response",
        "_check_content_type",
        "_get_session_id",
    ):
        assert callable(getattr(transport, name)), name
