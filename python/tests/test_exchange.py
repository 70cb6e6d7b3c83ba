"""One request against a server that answers by script: what is told, what is replied, and when it is given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import httpx2
import pytest
from binary_endpoint import PATIENCE, Recorder, served
from starlette.responses import Response

from leafgate.client import exchange
from leafgate.client.era import Session
from leafgate.client.errors import AnswerInvalid, ClientError, HttpRefusal, RpcError, ServerUnreachable
from leafgate.client.exchange import Exchange
from leafgate.client.wire import ClientLimits, Wire
from leafgate.codec.frames import CONTENT_TYPE, pack_frame, unpack_message

pytestmark = pytest.mark.anyio

ASKED = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "x"}}
DONE = {"jsonrpc": "2.0", "id": 7, "result": {"done": True}}


def progress(value: Any, token: Any = 7, **more: Any) -> dict[str, Any]:
    params = {"progressToken": token, "progress": value, **more}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def answer(*messages: dict[str, Any], status: int = 200, place: str | None = None) -> Response:
    headers = {} if place is None else {"codec-event-id": place}
    return Response(b"".join(map(pack_frame, messages)), status, headers=headers, media_type=CONTENT_TYPE)


async def run(server: Recorder) -> tuple[Any, list[Any]]:
    """The result, or the error; and what was told of progress."""
    told: list[Any] = []

    async def on_progress(*reported: Any) -> None:
        told.append(reported)

    async with served(server) as url, httpx2.AsyncClient(timeout=PATIENCE) as http:
        wire = Wire(http, url, ClientLimits(), binary=True)
        with anyio.fail_after(PATIENCE):
            try:
                return await Exchange(wire, Session(), ASKED, on_progress).result(), told
            except ClientError as error:
                return error, told


async def test_progress_is_told_once_and_only_ours() -> None:
    reports = [progress(1, total=3), progress(1), progress(2, message="m"), progress(1.5), progress(9, token=8)]
    odd = [progress("4"), progress(None), progress(3, total="x", message=5), {"jsonrpc": "2.0", "method": "other"}]
    no_params = {"jsonrpc": "2.0", "method": "notifications/progress"}
    result, told = await run(Recorder(answer(*reports, *odd, no_params, DONE)))
    assert result == {"done": True}
    assert told == [(1, 3, None), (2, None, "m"), (3, None, None)]


async def test_questions_are_answered_on_the_way() -> None:
    asked = [
        {"jsonrpc": "2.0", "id": n, "method": method} for n, method in ((1, "ping"), (2, "sampling/createMessage"))
    ]
    server = Recorder(answer(*asked, DONE), Response(b"", 202))
    result, _ = await run(server)
    assert result == {"done": True}
    replies = [unpack_message(body) for _, _, body in server.requests[1:]]
    assert replies[0] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (replies[1]["id"], replies[1]["error"]["code"]) == (2, -32601)


async def test_answers_to_others_are_passed_over() -> None:
    others: Sequence[dict[str, Any]] = [{"jsonrpc": "2.0", "id": n, "result": {}} for n in (6, "7", None)]
    assert (await run(Recorder(answer(*others, DONE))))[0] == {"done": True}


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (answer({"jsonrpc": "2.0", "id": 7, "error": {"code": -5, "message": "no", "data": [1]}}), RpcError),
        (answer({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}}, status=400), RpcError),
        (answer({"jsonrpc": "2.0", "id": 7, "error": "no"}), AnswerInvalid),
        (answer({"jsonrpc": "2.0", "id": 7, "result": []}), AnswerInvalid),
        (answer({"jsonrpc": "2.0", "id": 7}), AnswerInvalid),
        (answer(), AnswerInvalid),
        (answer(progress(1)), AnswerInvalid),
        (answer(DONE, status=500), HttpRefusal),
        (answer(status=503), HttpRefusal),
        (Response(b"", 302), HttpRefusal),
    ],
)
async def test_what_is_no_result(response: Response, kind: type[ClientError]) -> None:
    error, _ = await run(Recorder(response))
    assert type(error) is kind


async def test_a_result_counts_although_rubbish_follows() -> None:
    response = Response(pack_frame(DONE) + bytes(4), media_type=CONTENT_TYPE)
    assert (await run(Recorder(response)))[0] == {"done": True}


async def test_a_stream_that_ends_early_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "RESUME_SECONDS", 0.01)
    server = Recorder(answer(progress(1), place="17"), answer(progress(1), progress(2)), answer(progress(2), DONE))
    result, told = await run(server)
    assert result == {"done": True}
    assert [each[0] for each in told] == [1, 2]
    assert [(method, headers.get("last-event-id")) for method, headers, _ in server.requests] == [
        ("POST", None),
        ("GET", "17"),
        ("GET", "17"),
    ]


async def test_it_is_not_asked_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "RESUME_SECONDS", 0.01)
    server = Recorder(answer(place="17"))
    error, _ = await run(server)
    assert isinstance(error, ServerUnreachable)
    assert len(server.requests) == 1 + exchange.RESUME_TRIES
