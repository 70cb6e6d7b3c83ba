"""One exchange: what is sent before the server is known, and after."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from binary_endpoint import PATIENCE, Recorder, served
from starlette.responses import Response

from leafgate.client.errors import AnswerInvalid
from leafgate.client.wire import ClientLimits, Wire
from leafgate.codec.compression import compress
from leafgate.codec.frames import CONTENT_TYPE, pack_frame, unpack_message

pytestmark = pytest.mark.anyio

JSON = "application/json"


async def exchange(server: Recorder, *messages: dict[str, Any], binary: bool = True) -> list[Any]:
    found: list[Any] = []
    async with served(server) as url, httpx2.AsyncClient(timeout=PATIENCE) as http:
        wire = Wire(http, url, ClientLimits(max_answer_bytes=10_000), binary=binary)
        for message in messages:
            async with wire.post(message, {"x-mine": "1"}) as answer:
                found.append([each async for each in answer.messages])
    return found


async def test_a_server_that_answers_in_frames_gets_msgpack_next() -> None:
    server = Recorder(*(Response(pack_frame({"n": number}), media_type=CONTENT_TYPE) for number in (1, 2)))
    assert await exchange(server, {"a": 1}, {"b": 2}) == [[{"n": 1}], [{"n": 2}]]
    (_, first, first_body), (_, second, second_body) = server.requests
    assert first["content-type"] == JSON
    assert first_body == b'{"a":1}'
    assert second["content-type"] == CONTENT_TYPE
    assert unpack_message(second_body) == {"b": 2}
    assert first["accept"] == f"{CONTENT_TYPE}, {JSON}, text/event-stream"
    assert first["accept-encoding"] == "zstd, gzip"
    assert first["x-mine"] == "1"


async def test_a_server_that_answers_in_json_gets_json_next() -> None:
    server = Recorder(
        Response(b'{"n":1}', media_type=JSON), Response(b'data: {"n":2}\n\n', media_type="text/event-stream")
    )
    assert await exchange(server, {"a": 1}, {"b": 2}) == [[{"n": 1}], [{"n": 2}]]
    assert [headers["content-type"] for _, headers, _ in server.requests] == [JSON, JSON]


async def test_a_server_that_stops_speaking_frames_is_spoken_to_in_json_again() -> None:
    answers = [Response(pack_frame({"n": 1}), media_type=CONTENT_TYPE), Response(b'{"n":2}', 400, media_type=JSON)]
    server = Recorder(*answers, Response(b"", 202), Response(b'{"n":4}', media_type=JSON))
    await exchange(server, {"a": 1}, {"b": 2}, {"c": 3}, {"d": 4})
    assert [headers["content-type"] for _, headers, _ in server.requests] == [JSON, CONTENT_TYPE, JSON, JSON]


async def test_frames_are_not_asked_for_where_json_is_wanted() -> None:
    server = Recorder(Response(b"", 202))
    assert await exchange(server, {"a": 1}, binary=False) == [[]]
    assert server.requests[0][1]["accept"] == f"{JSON}, text/event-stream"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("kind", [CONTENT_TYPE, JSON])
async def test_compressed_answers(encoding: Any, kind: str) -> None:
    body = pack_frame({"n": 1}) if kind == CONTENT_TYPE else b'{"n":1}'
    server = Recorder(Response(compress(body, encoding), media_type=kind, headers={"content-encoding": encoding}))
    assert await exchange(server, {"a": 1}) == [[{"n": 1}]]


@pytest.mark.parametrize("kind", [CONTENT_TYPE, JSON, "text/event-stream", "text/html"])
async def test_a_bomb_is_refused(kind: str) -> None:
    bomb = compress(b"\n" * 100_000, "gzip")
    server = Recorder(Response(bomb, media_type=kind, headers={"content-encoding": "gzip"}))
    with pytest.raises(BaseExceptionGroup) as caught:
        await exchange(server, {"a": 1})
    assert caught.group_contains(AnswerInvalid)


async def test_a_truncated_compressed_answer_is_refused() -> None:
    cut = compress(b'{"n":1}', "gzip")[:-4]
    server = Recorder(Response(cut, media_type=JSON, headers={"content-encoding": "gzip"}))
    with pytest.raises(BaseExceptionGroup) as caught:
        await exchange(server, {"a": 1})
    assert caught.group_contains(AnswerInvalid)


async def test_a_stream_is_taken_up_at_its_place() -> None:
    server = Recorder(Response(pack_frame({"n": 1}), media_type=CONTENT_TYPE))
    async with (
        served(server) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
        Wire(http, url, ClientLimits(), binary=True).resume("17", {"mcp-session-id": "s"}) as answer,
    ):
        assert [each async for each in answer.messages] == [{"n": 1}]
    method, headers, _ = server.requests[0]
    assert (method, headers["last-event-id"], headers["mcp-session-id"]) == ("GET", "17", "s")
