"""A quick answer is plain JSON, and all else is a stream that can be taken up again. Real sessions on a real socket."""

from __future__ import annotations

import asyncio
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
from mcp.shared.message import ServerMessageMetadata
from mcp.types import CallToolResult, ElicitRequest, ElicitResult, ListToolsResult, TextContent

from leafgate.server import sessions
from leafgate.server.exchange import STREAM_AFTER_SECONDS
from leafgate.server.http import Web, bind, web_app
from leafgate.server.sessions import Session as ServedSession

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
            await anyio.sleep(STREAM_AFTER_SECONDS * 2)
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
        case "announces":
            await ctx.session.send_tool_list_changed()
        case "tasks":
            said = str(len(asyncio.all_tasks()))
        case "breaks":
            raise RuntimeError("broken")
    return CallToolResult(content=[TextContent(type="text", text=f"{said} {(params.arguments or {}).get('n', '')}")])


SCHEMA = {"type": "object", "properties": {}}


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[])


@contextmanager
def serving() -> Iterator[str]:
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


class Session:
    """A client by hand."""

    def __init__(self, url: str, version: str = "2025-11-25") -> None:
        self.url = url
        self.headers = {"accept": BOTH, "mcp-protocol-version": version}
        opened = self.post({"id": 0, "method": "initialize", "params": {**CLIENT, "protocolVersion": version}})
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


@pytest.mark.parametrize("seconds", [0, STREAM_AFTER_SECONDS * 2], ids=["waiting", "streaming"])
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


def test_nothing_is_kept_of_requests_that_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[ServedSession] = []
    answer = ServedSession.answer

    async def remember(self: ServedSession, *args: Any) -> None:
        served.append(self)
        await answer(self, *args)

    monkeypatch.setattr(ServedSession, "answer", remember)
    with serving() as url:
        session = Session(url)
        for number, name in enumerate(("quick", "progress", "slow", "breaks"), 1):
            session.call(name, number)
        for number, name in enumerate(("talks", "for ever", "asks"), 10):
            with session.stream(name, number):
                pass  # a client that goes away as soon as it has its stream
        asked, impatient = {"jsonrpc": "2.0", **asking("waits", 20)}, httpx2.Timeout(20, read=0.01)
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(url, json=asked, headers=session.headers, timeout=impatient)
        assert ENTERED.acquire(timeout=20)
        session.call("lets go", 21)
        for number in (11, 12):
            session.post({"method": "notifications/cancelled", "params": {"requestId": number}})
        kept = (served[0].calls, served[0].questions._open)
        until = time.monotonic() + 20
        while any(kept) and time.monotonic() < until:
            time.sleep(0.01)
        assert not any(kept)


def begin(session: Session, name: str) -> str:
    """Makes a call and leaves once it has its stream; returns the id of the last event."""
    with session.stream(name) as answer:
        return next(line[4:] for line in answer.iter_lines() if line.startswith("id: "))


def resume(session: Session, event: str) -> Any:
    headers = {**session.headers, "last-event-id": event}
    return httpx2.stream("GET", session.url, headers=headers, timeout=20)


def test_a_call_goes_on_without_its_client_who_fetches_the_answer_later() -> None:
    with serving() as url:
        session = Session(url)
        event = begin(session, "waits")
        assert ENTERED.acquire(timeout=20)
        with resume(session, event) as again:
            session.call("lets go", 2)
            assert events_of(again)[-1]["result"]["content"][0]["text"] == "done 1"
        with resume(session, event) as late:
            assert events_of(late)[-1]["result"]["content"][0]["text"] == "done 1"


def test_of_two_connections_the_later_one_has_the_stream() -> None:
    with serving() as url:
        session = Session(url)
        with session.stream("waits") as first:
            lines = first.iter_lines()
            event = next(line[4:] for line in lines if line.startswith("id: "))
            assert ENTERED.acquire(timeout=20)
            with resume(session, event) as second:
                assert not [line for line in lines if line.startswith("data: {")]  # it has ended
                session.call("lets go", 2)
                assert events_of(second)[-1]["id"] == 1


def events_of(answer: httpx2.Response) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]


def test_a_client_of_an_older_version_gets_no_event_without_a_message() -> None:
    with serving() as url:
        session = Session(url, "2025-06-18")
        for name in ("progress", "slow"):
            answer = session.call(name)
            assert events(answer)[-1]["result"]["content"][0]["text"] == "done 1"
            assert "data: \r\n" not in answer.text


def test_a_session_has_one_stream_for_messages_of_its_own_and_its_end_ends_that() -> None:
    with serving() as url:
        session = Session(url)
        with httpx2.stream("GET", url, headers=session.headers, timeout=20) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert httpx2.get(url, headers=session.headers).status_code == 409
            assert session.call("announces").status_code == 200
            lines = stream.iter_lines()
            assert "notifications/tools/list_changed" in next(line for line in lines if line.startswith("data: {"))
            assert httpx2.delete(url, headers=session.headers).status_code == 200
            assert not [line for line in lines if line.startswith("data: {")]
        assert httpx2.get(url, headers=session.headers).status_code == 404


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"accept": "application/json"}, 406),
        ("GET", {"mcp-session-id": ""}, 404),
        ("PUT", {}, 405),
        ("DELETE", {"mcp-session-id": "somebody-else"}, 404),
    ],
)
def test_other_methods_are_refused_in_their_way(method: str, headers: dict[str, str], status: int) -> None:
    with serving() as url:
        session = Session(url)
        assert httpx2.request(method, url, headers={**session.headers, **headers}).status_code == status
        assert session.call("quick").status_code == 200


def test_without_a_session_there_is_only_the_handshake() -> None:
    with serving() as url:
        headers = {"accept": BOTH}
        assert httpx2.get(url, headers=headers).status_code == 400
        assert httpx2.delete(url, headers=headers).status_code == 400
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert httpx2.post(url, json=body, headers=headers).status_code == 400
        answer = httpx2.post(url, json={**body, "method": "initialize", "params": {}}, headers=headers)
        assert answer.json()["error"]["code"] == -32602
        assert "mcp-session-id" not in answer.headers


def test_there_is_a_limit_and_idle_sessions_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    monkeypatch.setattr(sessions, "SWEEP_SECONDS", 0.01)
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": CLIENT}
    with serving() as url:
        idle, busy = Session(url), Session(url)
        with httpx2.stream("GET", url, headers=busy.headers, timeout=20):
            assert httpx2.post(url, json=hello, headers={"accept": BOTH}).status_code == 503
            monkeypatch.setattr(sessions, "IDLE_SECONDS", 0.0)
            until = time.monotonic() + 20
            while idle.call("quick").status_code == 200 and time.monotonic() < until:
                time.sleep(0.05)
            assert idle.call("quick").status_code == 404
            assert busy.call("quick").status_code == 200
            assert httpx2.post(url, json=hello, headers={"accept": BOTH}).status_code == 200


def test_sessions_wait_without_a_task() -> None:
    def tasks(session: Session) -> int:
        return int(session.call("tasks").json()["result"]["content"][0]["text"].split()[0])

    with serving() as url:
        before = tasks(Session(url))
        others = [Session(url) for _ in range(50)]
        assert tasks(others[0]) < before + 25


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
