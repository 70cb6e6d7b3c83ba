"""The client's transport against servers that answer by script: what is sent, what is read, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import httpx2
import pytest
from binary_endpoint import PATIENCE, Recorder, served
from mcp import ClientSession, MCPError
from mcp.types import InitializeResult
from starlette.responses import Response

from leafgate.client import transport
from leafgate.client.client import _client_errors, _only_increasing
from leafgate.client.transport import (
    ClientError,
    ClientLimits,
    FrameTransport,
    HttpError,
    MessageReader,
    ProtocolError,
    RpcError,
    ServerUnreachable,
)
from leafgate.codec.compression import compress
from leafgate.codec.frames import FRAMES_TYPE, EventError, FrameError, Message, pack_frame, unpack_message
from leafgate.upstream.raw_session import raw_request

pytestmark = pytest.mark.anyio

JSON = "application/json"
SSE = "text/event-stream"
SESSION = InitializeResult.model_validate(
    {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
)


def result(number: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": {"n": number}}


DONE = {"jsonrpc": "2.0", "id": 1, "result": {"done": True}}


def progress(value: Any, token: Any = 1, **more: Any) -> dict[str, Any]:
    params = {"progressToken": token, "progress": value, **more}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def answer(*messages: dict[str, Any], status: int = 200, event_id: str | None = None) -> Response:
    headers = {} if event_id is None else {"codec-event-id": event_id}
    return Response(b"".join(map(pack_frame, messages)), status, headers=headers, media_type=FRAMES_TYPE)


def in_json(number: int, kind: str = JSON) -> Response:
    text = f'{{"jsonrpc":"2.0","id":{number},"result":{{"n":{number}}}}}'
    return Response(text if kind == JSON else f"data: {text}\n\n", media_type=kind)


async def run(
    server: Recorder, *, requests: int = 1, binary: bool = True, at_least: int = 1
) -> tuple[list[Any], list[Any]]:
    """The results, or the errors, of some requests in turn; and the progress reports."""
    reports: list[Any] = []
    outcomes: list[Any] = []

    async def on_progress(*report: Any) -> None:
        reports.append(report)

    limits = ClientLimits(max_answer_bytes=10_000)
    async with served(server) as url, httpx2.AsyncClient(timeout=PATIENCE) as http:
        streams = FrameTransport(http, url, limits, binary=binary).connect()
        async with streams as (inbox, outbox), ClientSession(inbox, outbox) as session:
            session.adopt(SESSION)
            for number in range(1, requests + 1):
                try:
                    with anyio.fail_after(PATIENCE), _client_errors():
                        report = _only_increasing(on_progress)
                        params = {"a": number}
                        outcomes.append(await raw_request(session, "x", params, seconds=PATIENCE, on_progress=report))
                except ClientError as error:
                    outcomes.append(error)
            await until(server, at_least)
    return outcomes, reports


async def until(server: Recorder, requests: int) -> None:
    with anyio.fail_after(PATIENCE):
        while len(server.requests) < requests:  # noqa: ASYNC110  the server has no event for it
            await anyio.sleep(0.01)


# What is sent


async def test_a_server_that_answers_in_frames_gets_msgpack_next() -> None:
    server = Recorder(answer(result(1)), answer(result(2)))
    assert (await run(server, requests=2))[0] == [{"n": 1}, {"n": 2}]
    (_, first, first_body), (_, second, second_body) = server.requests
    assert first["content-type"] == JSON
    assert first_body.startswith(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1')
    assert second["content-type"] == FRAMES_TYPE
    assert unpack_message(second_body)["params"]["a"] == 2
    assert first["accept"] == f"{FRAMES_TYPE}, {JSON}, {SSE}"
    assert first["accept-encoding"] == "zstd, gzip"
    assert first["mcp-protocol-version"] == "2025-11-25"


async def test_a_server_that_answers_in_json_gets_json_next() -> None:
    server = Recorder(in_json(1), in_json(2, SSE))
    assert (await run(server, requests=2))[0] == [{"n": 1}, {"n": 2}]
    assert [headers["content-type"] for _, headers, _ in server.requests] == [JSON, JSON]


async def test_a_server_that_stops_speaking_frames_is_spoken_to_in_json_again() -> None:
    refusal = Response(b'{"n":2}', 400, media_type=JSON)
    server = Recorder(answer(result(1)), refusal, Response(b"", 202), in_json(4))
    await run(server, requests=4)
    assert [headers["content-type"] for _, headers, _ in server.requests] == [JSON, FRAMES_TYPE, JSON, JSON]


async def test_frames_are_not_accepted_where_json_is_chosen() -> None:
    server = Recorder(in_json(1))
    assert (await run(server, binary=False))[0] == [{"n": 1}]
    assert server.requests[0][1]["accept"] == f"{JSON}, {SSE}"


async def test_questions_are_answered_on_the_way() -> None:
    questions = [{"jsonrpc": "2.0", "id": n, "method": method} for n, method in ((1, "ping"), (2, "no/such"))]
    server = Recorder(answer(*questions, DONE), Response(b"", 202))
    (outcome,), _ = await run(server, at_least=3)
    assert outcome == {"done": True}
    replies = [unpack_message(body) for _, _, body in server.requests[1:]]
    replies.sort(key=lambda reply: reply["id"])
    assert replies[0] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (replies[1]["id"], replies[1]["error"]["code"]) == (2, -32601)


async def test_a_request_that_is_given_up_is_cancelled_at_the_server() -> None:
    class Silent(Recorder):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and not self.requests:
                self.requests.append(("POST", {}, b""))
                await anyio.sleep(PATIENCE)
            await super().__call__(scope, receive, send)

    server = Silent(Response(b"", 202))
    async with served(server) as url, httpx2.AsyncClient(timeout=PATIENCE) as http:
        streams = FrameTransport(http, url, ClientLimits(), binary=True).connect()
        async with streams as (inbox, outbox), ClientSession(inbox, outbox) as session:
            session.adopt(SESSION)
            with pytest.raises(MCPError):
                await raw_request(session, "x", {}, seconds=1)
            await until(server, 2)
    assert b'"notifications/cancelled"' in server.requests[1][2]


# What is read


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("kind", [FRAMES_TYPE, JSON])
async def test_compressed_answers(encoding: Any, kind: str) -> None:
    body = pack_frame(result(1)) if kind == FRAMES_TYPE else bytes(in_json(1).body)
    server = Recorder(Response(compress(body, encoding), media_type=kind, headers={"content-encoding": encoding}))
    assert (await run(server))[0] == [{"n": 1}]


async def test_progress_is_reported_once_and_only_ours() -> None:
    reports = [progress(1, total=3), progress(1), progress(2, message="m"), progress(1.5), progress(9, token=8)]
    odd = [progress("4"), progress(None), progress(3, total="x", message=5), {"jsonrpc": "2.0", "method": "other"}]
    no_params = {"jsonrpc": "2.0", "method": "notifications/progress"}
    (outcome,), received = await run(Recorder(answer(*reports, *odd, no_params, DONE)))
    assert outcome == {"done": True}
    assert received == [(1, 3, None), (2, None, "m"), (3, None, None)]


async def test_answers_to_others_are_passed_over() -> None:
    others: Sequence[dict[str, Any]] = [{"jsonrpc": "2.0", "id": n, "result": {}} for n in (6, "1", None)]
    assert (await run(Recorder(answer(*others, DONE))))[0] == [{"done": True}]


async def test_a_result_counts_although_rubbish_follows() -> None:
    response = Response(pack_frame(DONE) + bytes(4), media_type=FRAMES_TYPE)
    assert (await run(Recorder(response)))[0] == [{"done": True}]


async def test_a_stream_that_ends_early_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "RESUME_SECONDS", 0.01)
    again = [answer(progress(1), progress(2)), answer(progress(2), DONE)]
    server = Recorder(answer(progress(1), event_id="17"), *again)
    (outcome,), received = await run(server)
    assert outcome == {"done": True}
    assert [report[0] for report in received] == [1, 2]
    assert [(method, headers.get("last-event-id")) for method, headers, _ in server.requests] == [
        ("POST", None),
        ("GET", "17"),
        ("GET", "17"),
    ]


async def test_it_is_not_asked_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "RESUME_SECONDS", 0.01)
    server = Recorder(answer(event_id="17"))
    (error,), _ = await run(server)
    assert isinstance(error, ServerUnreachable)
    assert len(server.requests) == 1 + transport.RESUME_TRIES


# What is refused


@pytest.mark.parametrize("kind", [FRAMES_TYPE, JSON, SSE, "text/html"])
async def test_a_bomb_is_refused(kind: str) -> None:
    bomb = compress(b"\n" * 100_000, "gzip")
    server = Recorder(Response(bomb, media_type=kind, headers={"content-encoding": "gzip"}))
    (error,), _ = await run(server)
    assert isinstance(error, ProtocolError)


async def test_a_truncated_compressed_answer_is_refused() -> None:
    cut = compress(bytes(in_json(1).body), "gzip")[:-4]
    server = Recorder(Response(cut, media_type=JSON, headers={"content-encoding": "gzip"}))
    (error,), _ = await run(server)
    assert isinstance(error, ProtocolError)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (answer({"jsonrpc": "2.0", "id": 1, "error": {"code": -5, "message": "no", "data": [1]}}), RpcError),
        (answer({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}}, status=400), RpcError),
        (answer({"jsonrpc": "2.0", "id": 1, "error": "no"}), ProtocolError),
        (answer({"jsonrpc": "2.0", "id": 1, "result": []}), ProtocolError),
        (answer({"jsonrpc": "2.0", "id": 1}), ProtocolError),
        (answer(), ProtocolError),
        (answer(progress(1)), ProtocolError),
        (answer(DONE, status=500), HttpError),
        (answer(status=503), HttpError),
        (Response(b"", 302), HttpError),
    ],
)
async def test_answers_without_a_result(response: Response, kind: type[ClientError]) -> None:
    (error,), _ = await run(Recorder(response))
    assert type(error) is kind


# Messages out of bytes


def read(kind: str, body: bytes, limit: int = 1000) -> list[Message]:
    reader = MessageReader(kind, limit)
    messages = [message for at in range(len(body)) for message in reader.feed(body[at : at + 1])]
    return [*messages, *reader.end()]


@pytest.mark.parametrize(
    ("kind", "body", "messages"),
    [
        (FRAMES_TYPE, pack_frame({"a": 1}) + pack_frame({"b": 2}), [{"a": 1}, {"b": 2}]),
        (SSE, b'id: 1\ndata:\n\n: ping\n\ndata: {"a":1}\n\ndata: {"b":2}\n\n', [{"a": 1}, {"b": 2}]),
        (JSON, b'{"a": 1}', [{"a": 1}]),
        (JSON, b"", []),
        ("text/html", b"<p>", []),
        ("", b"x", []),
    ],
)
def test_messages_by_media_type(kind: str, body: bytes, messages: list[Message]) -> None:
    assert read(kind, body) == messages


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FRAMES_TYPE, b"\x00"),
        (FRAMES_TYPE, b"\x00\x00\x10\x00"),
        (FRAMES_TYPE, b'{"a":1}'),
        (SSE, b"data: [1]\n\n"),
        (SSE, b"data: {\n\n"),
        (SSE, b"data: " + b"x" * 1001),
        (JSON, b"{"),
        (JSON, b"[]"),
        (JSON, b'{"a": NaN}'),
        (JSON, b" " * 1001),
    ],
)
def test_bytes_that_are_not_messages(kind: str, body: bytes) -> None:
    with pytest.raises((FrameError, EventError)):
        read(kind, body)
