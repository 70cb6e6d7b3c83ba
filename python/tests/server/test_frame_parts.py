"""What a request wants, from its headers and its query; and what the JSON side is shown of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.types import Scope

from leafgate.codec.compression import ENCODINGS, Decompressor, Encoding
from leafgate.codec.frames import FRAMES_TYPE, FrameReader, pack_frame, unpack_message
from leafgate.server.frames import (
    THREAD_FROM,
    FrameAnswer,
    FrameRefusal,
    body_encoding,
    frame_from_json,
    in_thread_if_large,
    prefers_frames,
    read_wish,
    scope_for_json,
)


def scope(query: str = "", *headers: tuple[str, str], method: str = "POST") -> Scope:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"type": "http", "path": "/mcp", "method": method, "query_string": query.encode(), "headers": raw}


@pytest.mark.parametrize(
    ("accept", "frames"),
    [
        (FRAMES_TYPE, True),
        (f"application/json;q=0.5,{FRAMES_TYPE};q=0.5", True),
        (f" {FRAMES_TYPE} ; v=1 ; q=0.1", True),
        ("", False),
        ("*/*", False),
        ("application/*", False),
        (f"{FRAMES_TYPE};q=0", False),
        (f"{FRAMES_TYPE};q=0.1,application/json", False),
        (f"{FRAMES_TYPE};q=x", False),
        (f"{FRAMES_TYPE}+json", False),
    ],
)
def test_accept(accept: str, frames: bool) -> None:
    assert prefers_frames(accept) is frames


@given(st.text())
def test_any_accept_is_read(accept: str) -> None:
    prefers_frames(accept)


def test_the_query_beats_accept() -> None:
    binary = ("accept", FRAMES_TYPE)
    assert read_wish(scope("stream_format=json", binary)).wants_json
    assert not read_wish(scope("stream_format=json", binary)).wants_frames
    assert read_wish(scope("stream_format=msgpack")).wants_frames
    assert read_wish(scope("stream_format=json&stream_format=msgpack")).wants_frames


def test_headers_may_be_there_twice() -> None:
    wish = read_wish(
        scope(
            "",
            ("accept", "text/html"),
            ("accept", FRAMES_TYPE),
            ("accept-encoding", "br"),
            ("accept-encoding", "gzip"),
        )
    )
    assert wish.wants_frames
    assert wish.encoding == "gzip"


@pytest.mark.parametrize(
    "query", ["stream_format=xml", "stream_format=MSGPACK", "stream_format=", "stream_format=msgpack&stream_format=x"]
)
def test_a_format_that_is_not_ours(query: str) -> None:
    with pytest.raises(FrameRefusal) as caught:
        read_wish(scope(query))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("named", "encoding"), [("gzip", "gzip"), ("ZSTD", "zstd"), (" gzip ", "gzip"), ("identity", None), ("", None)]
)
def test_encodings_of_a_body(named: str, encoding: Encoding | None) -> None:
    assert body_encoding(Headers({"content-encoding": named})) == encoding


@pytest.mark.parametrize(
    "named", ["br", "deflate", "gzip, gzip", "gzip,zstd", "identity, gzip", "x-gzip", "gzip;q=1", "*"]
)
def test_encodings_that_cannot_be_undone(named: str) -> None:
    with pytest.raises(FrameRefusal) as caught:
        body_encoding(Headers({"content-encoding": named}))
    assert caught.value.status == 415


def test_the_json_side_sees_a_json_request() -> None:
    asked = scope(
        "a=b",
        ("accept", FRAMES_TYPE),
        ("accept-encoding", "gzip"),
        ("content-type", f"{FRAMES_TYPE}; charset=x"),
        ("content-encoding", "zstd"),
        ("content-length", "7"),
        ("transfer-encoding", "chunked"),
        ("x-codec-map", "sha256:0"),
        ("authorization", "Bearer x"),
    )
    before = list(asked["headers"])
    wish = read_wish(asked)
    assert wish.sends_packed
    inner = scope_for_json(asked, wish, b"{}")
    assert dict(inner["headers"]) == {
        b"accept": b"application/json, text/event-stream",
        b"content-type": b"application/json",
        b"content-length": b"2",
        b"x-codec-map": b"sha256:0",
        b"authorization": b"Bearer x",
    }
    assert asked["headers"] == before


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_a_post_has_a_body(method: str) -> None:
    assert not read_wish(scope("", ("content-type", FRAMES_TYPE), method=method)).sends_packed


def test_a_json_body_keeps_its_headers() -> None:
    kept = [("content-type", "application/json"), ("content-length", "7"), ("content-encoding", "gzip")]
    asked = scope("", ("accept", FRAMES_TYPE), *kept)
    inner = scope_for_json(asked, read_wish(asked), None)
    assert set(inner["headers"]) >= {(name.encode(), value.encode()) for name, value in kept}


pytestmark = pytest.mark.anyio


class Client:
    """What arrives at the other side."""

    def __init__(self, encoding: Encoding | None = None, **options: Any) -> None:
        self.sent: list[Any] = []
        self.answer = FrameAnswer(self._take, encoding, 1024, **{"starts_at_once": False, **options})

    async def _take(self, message: Any) -> None:
        await anyio.lowlevel.checkpoint()
        self.sent.append(message)

    async def start(self, kind: str | None, status: int = 200, **headers: str) -> None:
        told = {**({"content-type": kind} if kind else {}), **headers}
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in told.items()]
        await self.answer({"type": "http.response.start", "status": status, "headers": raw})

    async def body(self, body: bytes, more: bool = True) -> None:
        await self.answer({"type": "http.response.body", "body": body, "more_body": more})

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.sent[1:]]


async def test_an_event_is_sent_before_the_next_one_comes() -> None:
    client = Client()
    await client.start("text/event-stream", cache_control="no-cache", content_length="5")
    assert client.sent == []
    await client.body(b"id: 4\r\nretry: 1000\r\ndata: \r\n\r\n")
    assert client.headers["codec-event-id"] == "4"
    assert client.headers["cache-control"] == "no-cache"
    assert "content-length" not in client.headers
    await client.body(b'event: message\r\ndata: {"a":1}\r\n\r\n')
    assert client.bodies == [pack_frame({"a": 1})]
    await client.body(b": ping\r\n\r\n")
    await client.body(b'data: {"b":')
    assert len(client.bodies) == 1
    await client.body(b'2}\n\ndata: {"c":3}\n\n')
    assert client.bodies[1:] == [pack_frame({"b": 2}), pack_frame({"c": 3})]
    await client.body(b"", more=False)
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_keep_alive_starts_the_answer() -> None:
    client = Client()
    await client.start("text/event-stream")
    await client.body(b": ping\r\n\r\n")
    assert client.headers["content-type"] == FRAMES_TYPE
    assert "codec-event-id" not in client.headers


async def test_a_stream_may_start_at_once() -> None:
    client = Client(starts_at_once=True)
    await client.start("text/event-stream")
    assert client.sent[0]["status"] == 200


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_compressed_stream_can_be_read_up_to_each_message(encoding: Encoding) -> None:
    client, unpack, frames = Client(encoding), Decompressor(encoding, 1 << 20), FrameReader()
    await client.start("text/event-stream")
    for number in range(5):
        await client.body(f'data: {{"n":{number}}}\n\n'.encode())
        assert list(frames.feed(b"".join(unpack.feed(client.bodies[-1])))) == [{"n": number}]
    await client.body(b"", more=False)
    assert b"".join(unpack.feed(client.bodies[-1])) == b""
    unpack.end()
    assert client.headers["content-encoding"] == encoding


async def test_pings_and_events_of_two_tasks_do_not_mix() -> None:
    """The large event is translated in a thread; what comes meanwhile waits for it."""
    client = Client()
    await client.start("text/event-stream")
    large = b'data: {"t":"' + b"x" * 1_000_000 + b'"}\n\n'
    async with anyio.create_task_group() as group:
        group.start_soon(client.body, large)
        for number in range(3):
            group.start_soon(client.body, f'data: {{"n":{number}}}\n\n'.encode())
    frames = FrameReader()
    messages = [message for body in client.bodies for message in frames.feed(body)]
    assert [message.get("n") for message in messages] == [None, 0, 1, 2]
    assert [message["type"] for message in client.sent[:2]] == ["http.response.start", "http.response.body"]


async def test_large_work_is_done_in_a_thread() -> None:
    here = threading.get_ident()
    assert await in_thread_if_large(THREAD_FROM - 1, threading.get_ident) == here
    assert await in_thread_if_large(THREAD_FROM, threading.get_ident) != here


@pytest.mark.parametrize(
    ("kind", "status", "body"),
    [(None, 202, b""), ("text/plain", 413, b"Request body too large"), ("text/html", 404, b"<p>"), (None, 405, b"")],
)
async def test_what_holds_no_message_passes(kind: str | None, status: int, body: bytes) -> None:
    client = Client("gzip")
    await client.start(kind, status, content_length=str(len(body)))
    await client.body(body, more=False)
    assert client.sent[0]["status"] == status
    assert client.headers.get("content-type") == kind
    assert client.bodies == [body]


async def test_an_empty_json_answer_is_an_empty_stream() -> None:
    client = Client()
    await client.start("application/json", 202, content_length="0")
    await client.body(b"", more=False)
    assert client.headers == {"content-type": FRAMES_TYPE, "content-length": "0", "vary": "Accept, Accept-Encoding"}
    assert client.bodies == [b""]


async def test_other_messages_of_the_server_pass() -> None:
    client = Client()
    await client.answer({"type": "http.response.debug", "info": {}})
    assert client.sent == [{"type": "http.response.debug", "info": {}}]


@pytest.mark.parametrize(
    ("raw", "id", "words"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"n":NaN}}', 7, "NaN"),
        (b'{"jsonrpc":"2.0","id":"x","result":' + b"[" * 150 + b"]" * 150 + b"}", "x", "deeper"),
        (b'{"id":[1],"result":Infinity}', None, "Infinity"),
        (b"[1]", None, "object"),
        (b"no json", None, "JSON"),
        (b"[" * 100_000, None, "deeper"),
    ],
)
def test_what_has_no_frame_is_told_as_an_error(raw: bytes, id: object, words: str) -> None:
    told = unpack_message(frame_from_json(raw)[4:])
    assert told["id"] == id
    assert told["error"]["code"] == -32603
    assert words in told["error"]["message"]


@given(st.binary(max_size=300))
def test_any_bytes_give_a_frame(raw: bytes) -> None:
    frames = FrameReader()
    assert len(list(frames.feed(frame_from_json(raw)))) == 1
    frames.end()
