"""The binary transport on a real port: eras, streams, encodings, refusals, and JSON clients that notice nothing."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from binary_endpoint import CLIENT_META, HANDSHAKE, PATIENCE, STATELESS, TalkingServer, endpoint, served
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from leafgate.codec.compression import ENCODINGS, Decompressor, Encoding, compress, decompress
from leafgate.codec.frames import FRAMES_TYPE, EventReader, FrameReader, pack_frame, pack_message
from leafgate.server.frames import CodecFrames, FrameLimits

pytestmark = pytest.mark.anyio

JSON = "application/json, text/event-stream"
Json = dict[str, Any]


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        yield client


def request(method: str, params: Json | None = None, *, era: str = STATELESS, token: str | None = None) -> Json:
    meta = {**(CLIENT_META if era == STATELESS else {}), **({"progressToken": token} if token else {})}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": meta}}


def call(name: str, era: str = STATELESS, token: str | None = None, **args: Any) -> Json:
    return request("tools/call", {"name": name, "arguments": args}, era=era, token=token)


def headers_for(message: Json, era: str = STATELESS, **more: str) -> dict[str, str]:
    """What a binary client sends; keyword arguments replace, with dashes for underscores."""
    named = {"mcp-name": message["params"]["name"]} if message.get("method") == "tools/call" else {}
    routing = {"mcp-method": message["method"], **named} if era == STATELESS else {}
    return {
        "mcp-protocol-version": era,
        "content-type": FRAMES_TYPE,
        "accept": FRAMES_TYPE,
        "accept-encoding": "identity",
        **routing,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }


def messages_in(body: bytes, encoding: str | None = None) -> list[Json]:
    unpacked = decompress(body, encoding, 64 << 20) if encoding in ENCODINGS else body
    frames = FrameReader()
    found = list(frames.feed(unpacked))
    frames.end()
    return found


async def ask(
    http: httpx2.AsyncClient, url: str, message: Json, body: bytes | None = None, /, **more: str
) -> tuple[httpx2.Response, list[Json]]:
    """One exchange; the answer's body is read raw, since the client under the test would undo encodings itself."""
    headers = headers_for(message, more.pop("era", STATELESS), **more)
    content = pack_message(message) if body is None else body
    async with http.stream("POST", url, headers=headers, content=content) as response:
        raw = b"".join([chunk async for chunk in response.aiter_raw()])
    return response, _messages(response.headers, raw)


def _messages(headers: Mapping[str, str], raw: bytes) -> list[Json]:
    kind = headers.get("content-type", "").partition(";")[0]
    if kind == FRAMES_TYPE:
        return messages_in(raw, headers.get("content-encoding"))
    if kind == "text/event-stream":
        return [json.loads(event.data) for event in EventReader().feed(raw) if event.data]
    return [json.loads(raw)] if kind == "application/json" and raw else []


async def open_session(http: httpx2.AsyncClient, url: str) -> str:
    params = {
        "protocolVersion": HANDSHAKE,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "0"},
    }
    response, [answer] = await ask(http, url, request("initialize", params, era=HANDSHAKE), era=HANDSHAKE)
    assert answer["result"]["protocolVersion"] == HANDSHAKE
    session = response.headers["mcp-session-id"]
    told = {"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}
    response, frames = await ask(http, url, told, era=HANDSHAKE, mcp_session_id=session)
    assert (response.status_code, frames) == (202, [])
    return str(session)


def text_of(message: Json) -> str:
    return str(message["result"]["content"][0]["text"])


# Asking and answering


async def test_a_plain_answer_is_one_frame(http: httpx2.AsyncClient) -> None:
    async with endpoint() as url:
        response, [answer] = await ask(http, url, call("echo", a=[1, None, 0.5, "é"]))
    assert response.status_code == 200
    assert answer["id"] == 1
    assert answer["result"]["structuredContent"] == {"a": [1, None, 0.5, "é"]}
    assert response.headers["vary"] == "Accept, Accept-Encoding"
    assert "content-encoding" not in response.headers


async def test_the_handshake_era_works_in_frames(http: httpx2.AsyncClient) -> None:
    async with endpoint() as url:
        session = await open_session(http, url)
        response, [answer] = await ask(
            http, url, call("echo", era=HANDSHAKE, a=1), era=HANDSHAKE, mcp_session_id=session
        )
        assert answer["result"]["structuredContent"] == {"a": 1}
        assert response.headers["mcp-session-id"] == session
        ended = await http.delete(url, headers={"mcp-session-id": session, "accept": FRAMES_TYPE})
        assert ended.status_code == 200
        response, [answer] = await ask(http, url, call("echo", era=HANDSHAKE), era=HANDSHAKE, mcp_session_id=session)
        assert response.status_code == 404
        assert answer["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("accept", "query", "is_binary"),
    [
        (FRAMES_TYPE, "", True),
        (FRAMES_TYPE.upper(), "", True),
        (f"{FRAMES_TYPE}, {JSON}", "", True),
        (f"{JSON}, {FRAMES_TYPE};q=1.0", "", True),
        (f"{JSON};q=0.5, application/json;q=0.5, {FRAMES_TYPE};q=0.6", "", True),
        (JSON, "?stream_format=msgpack", True),
        ("*/*", "?stream_format=msgpack", True),
        (JSON, "?a=b&stream_format=json&stream_format=msgpack", True),
        (JSON, "", False),
        ("*/*", "", False),
        ("application/*, text/*", "", False),
        (f"{JSON}, {FRAMES_TYPE};q=0.9", "", False),
        (f"{JSON}, {FRAMES_TYPE};q=0", "", False),
        (f"{JSON}, application/x-codec-msgpack-2", "", False),
        (FRAMES_TYPE, "?stream_format=json", False),
        (f"{FRAMES_TYPE}, {JSON}", "?stream_format=json", False),
        (JSON, "?stream_formats=msgpack", False),
    ],
)
async def test_who_gets_frames(http: httpx2.AsyncClient, accept: str, query: str, is_binary: bool) -> None:
    async with endpoint() as url:
        response, _ = await ask(http, url + query, call("echo"), accept=accept)
    assert response.status_code == 200
    assert response.headers["content-type"] == (FRAMES_TYPE if is_binary else "application/json")


async def test_an_unknown_format_is_refused(http: httpx2.AsyncClient) -> None:
    async with endpoint() as url:
        response, [answer] = await ask(http, f"{url}?stream_format=xml", call("echo"))
    assert response.status_code == 400
    assert answer["error"]["message"] == "stream_format is msgpack or json"


@pytest.mark.parametrize("how", ["json in, frames out", "frames in, json out"])
async def test_body_and_answer_are_chosen_apart(http: httpx2.AsyncClient, how: str) -> None:
    message = call("echo", a=1)
    async with endpoint() as url:
        if how == "json in, frames out":
            body = json.dumps(message).encode()
            _, [answer] = await ask(http, url, message, body, content_type="application/json")
        else:
            _, [answer] = await ask(http, url, message, accept=JSON)
    assert answer["result"]["structuredContent"] == {"a": 1}


# Streams


@pytest.mark.parametrize("encoding", ["identity", *ENCODINGS])
@pytest.mark.parametrize("era", [STATELESS, HANDSHAKE])
async def test_progress_comes_while_the_tool_still_works(http: httpx2.AsyncClient, era: str, encoding: str) -> None:
    """The tool goes on only when its second report was read here."""
    server = TalkingServer()
    async with endpoint(server) as url:
        more = {"mcp-session-id": await open_session(http, url)} if era == HANDSHAKE else {}
        message = call("count", era=era, token="t", steps=3, wait_after=2)
        headers = {**headers_for(message, era, accept_encoding=encoding), **more}
        frames = FrameReader()
        seen: list[Json] = []
        with anyio.fail_after(PATIENCE):
            async with http.stream("POST", url, headers=headers, content=pack_message(message)) as response:
                assert response.headers.get("content-encoding", "identity") == encoding
                unpacker = Decompressor(encoding, 1 << 20) if encoding in ENCODINGS else None
                async for chunk in response.aiter_raw():
                    seen += frames.feed(chunk if unpacker is None else b"".join(unpacker.feed(chunk)))
                    if len(seen) >= 2:
                        server.may_go_on.set()
    assert [m["params"]["progress"] for m in seen[:-1]] == [1, 2, 3]
    assert text_of(seen[-1]) == "counted"


async def test_a_server_can_ask_in_the_middle_of_a_call(http: httpx2.AsyncClient) -> None:
    async with endpoint() as url:
        session = await open_session(http, url)
        message = call("ask", era=HANDSHAKE)
        headers = headers_for(message, HANDSHAKE, mcp_session_id=session)
        frames = FrameReader()
        with anyio.fail_after(PATIENCE):
            async with http.stream("POST", url, headers=headers, content=pack_message(message)) as response:
                async for chunk in response.aiter_raw():
                    for told in frames.feed(chunk):
                        if told.get("method") == "elicitation/create":
                            reply = {"action": "accept", "content": {"flour": "rye"}}
                            answer = {"jsonrpc": "2.0", "id": told["id"], "result": reply}
                            sent, _ = await ask(http, url, answer, era=HANDSHAKE, mcp_session_id=session)
                            assert sent.status_code == 202
                        else:
                            assert text_of(told) == "accept: {'flour': 'rye'}"


async def test_a_broken_stream_is_taken_up_again(http: httpx2.AsyncClient) -> None:
    """The answer names the event that opened its stream; what came after it can be read again, as frames."""
    server = TalkingServer()
    async with endpoint(server) as url:
        session = await open_session(http, url)
        message = call("count", era=HANDSHAKE, token="t", steps=3, wait_after=1)
        headers = headers_for(message, HANDSHAKE, mcp_session_id=session)
        async with http.stream("POST", url, headers=headers, content=pack_message(message)) as response:
            place = response.headers["codec-event-id"]
            await anext(response.aiter_raw())
        server.may_go_on.set()
        again = {"accept": FRAMES_TYPE, "mcp-session-id": session, "last-event-id": place}
        again |= {"mcp-protocol-version": HANDSHAKE, "accept-encoding": "identity"}
        frames = FrameReader()
        seen: list[Json] = []
        with anyio.fail_after(PATIENCE):
            async with http.stream("GET", url, headers=again) as response:
                assert response.headers["content-type"] == FRAMES_TYPE
                async for chunk in response.aiter_raw():
                    seen += frames.feed(chunk)
                    if "result" in seen[-1]:
                        break
    assert [m["params"]["progress"] for m in seen[:-1]] == [1, 2, 3]
    assert text_of(seen[-1]) == "counted"


async def test_a_get_stream_begins_before_its_first_message(http: httpx2.AsyncClient) -> None:
    async with endpoint() as url:
        session = await open_session(http, url)
        headers = {"accept": FRAMES_TYPE, "mcp-session-id": session, "mcp-protocol-version": HANDSHAKE}
        with anyio.fail_after(PATIENCE):
            async with http.stream("GET", url, headers=headers) as response:
                assert response.status_code == 200
                assert response.headers["content-type"] == FRAMES_TYPE


async def test_a_client_that_hangs_up_ends_the_call(http: httpx2.AsyncClient) -> None:
    server = TalkingServer()
    async with endpoint(server) as url:
        message = call("count", token="t", steps=2, wait_after=1)
        async with http.stream("POST", url, headers=headers_for(message), content=pack_message(message)) as response:
            await anext(response.aiter_raw())
        _, [answer] = await ask(http, url, call("echo"))
        assert text_of(answer) == "echo"


# Sizes and encodings


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("era", [STATELESS, HANDSHAKE])
@pytest.mark.parametrize("size", [1_000_000, 10_000_000])
async def test_large_results(http: httpx2.AsyncClient, size: int, era: str, encoding: Encoding) -> None:
    async with endpoint() as url:
        more = {"mcp_session_id": await open_session(http, url)} if era == HANDSHAKE else {}
        message = call("make", era=era, size=size)
        response, [answer] = await ask(http, url, message, era=era, accept_encoding=encoding, **more)
    assert len(text_of(answer)) == size
    assert response.headers["content-encoding"] == encoding
    if era == STATELESS:
        assert int(response.headers["content-length"]) < size / 3


@pytest.mark.parametrize(("size", "is_compressed"), [(400, False), (1500, True)])
async def test_small_answers_are_not_compressed(http: httpx2.AsyncClient, size: int, is_compressed: bool) -> None:
    async with endpoint() as url:
        response, [answer] = await ask(http, url, call("make", size=size), accept_encoding="gzip, zstd")
    assert len(text_of(answer)) == size
    assert ("content-encoding" in response.headers) == is_compressed


async def test_the_threshold_is_a_parameter(http: httpx2.AsyncClient) -> None:
    async with endpoint(compress_from=100) as url:
        response, _ = await ask(http, url, call("make", size=400), accept_encoding="gzip")
    assert response.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "GZIP", "identity"])
async def test_compressed_requests(http: httpx2.AsyncClient, encoding: str) -> None:
    message = call("echo", words="the cat " * 1000)
    packed = pack_message(message)
    body = packed if encoding == "identity" else compress(packed, encoding.lower())  # type: ignore[arg-type]
    async with endpoint() as url:
        _, [answer] = await ask(http, url, message, body, content_encoding=encoding)
    assert answer["result"]["structuredContent"] == {"words": "the cat " * 1000}


async def test_a_request_in_many_pieces(http: httpx2.AsyncClient) -> None:
    message = call("echo", words="the cat " * 20_000)
    packed = pack_message(message)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(packed), 7000):
            yield packed[at : at + 7000]

    async with endpoint() as url:
        response = await http.post(url, headers=headers_for(message), content=pieces())
    [answer] = messages_in(response.content)
    assert answer["result"]["structuredContent"] == message["params"]["arguments"]


# Refusals

BOMB = compress(pack_message({"a": "x" * (200 << 20)}), "zstd")
GZIP_BOMB = gzip.compress(bytes(50 << 20))


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"", {}, 400, -32700),
        (b"\xc1", {}, 400, -32700),
        (b"{}", {}, 400, -32700),
        (b'{"jsonrpc": "2.0"}', {}, 400, -32700),
        (pack_frame({"jsonrpc": "2.0", "id": 1, "method": "ping"}), {}, 400, -32700),
        (pack_message({"a": 1})[:-1], {}, 400, -32700),
        (pack_message({"a": 1}) + b"\0", {}, 400, -32700),
        (pack_message([{"a": 1}]), {}, 400, -32700),  # type: ignore[arg-type]
        (pack_message({"a": float("nan")}), {}, 400, -32700),
        (pack_message({"a": b"x"}), {}, 400, -32700),
        (pack_message({"a": 1}), {"content-encoding": "gzip"}, 400, -32700),
        (compress(b"\xc1", "zstd"), {"content-encoding": "zstd"}, 400, -32700),
        (compress(pack_message({"a": 1}), "zstd")[:-1], {"content-encoding": "zstd"}, 400, -32700),
        (compress(pack_message({"a": 1}), "gzip") + b"x", {"content-encoding": "gzip"}, 400, -32700),
        (BOMB, {"content-encoding": "zstd"}, 413, -32600),
        (GZIP_BOMB, {"content-encoding": "gzip"}, 413, -32600),
        (bytes((4 << 20) + 1), {}, 413, -32600),
        (pack_message({"a": "\0" * (1 << 20)}), {}, 413, -32600),
        (b"x", {"content-encoding": "br"}, 415, -32600),
        (b"x", {"content-encoding": "deflate"}, 415, -32600),
        (b"x", {"content-encoding": "gzip, zstd"}, 415, -32600),
        (b"x", {"content-encoding": "gzip;q=1"}, 415, -32600),
    ],
)
async def test_refused_requests(
    http: httpx2.AsyncClient, body: bytes, headers: Mapping[str, str], status: int, code: int
) -> None:
    """In a frame for who asked for frames, in JSON for who asked for that; and the server never sees it."""
    server = TalkingServer()
    async with endpoint(server) as url:
        for accept in (FRAMES_TYPE, JSON):
            sent = {**headers_for(call("echo"), accept=accept), **headers}
            response = await http.post(url, headers=sent, content=body)
            assert response.status_code == status
            [answer] = messages_in(response.content) if accept == FRAMES_TYPE else [response.json()]
            assert answer["id"] is None
            assert answer["error"]["code"] == code
            assert ("accept-encoding" in response.headers) == (status == 415)
        assert server.calls == []
        _, [answer] = await ask(http, url, call("echo"))
        assert text_of(answer) == "echo"


async def test_a_body_that_does_not_come_to_its_end_is_refused() -> None:
    parts = iter([{"type": "http.request", "body": b"\x81", "more_body": True}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(parts, None) or await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", FRAMES_TYPE.encode()), (b"accept", FRAMES_TYPE.encode())]
    scope = {"type": "http", "path": "/mcp", "method": "POST", "headers": headers, "query_string": b""}
    with anyio.fail_after(PATIENCE):
        await CodecFrames(_never, limits=FrameLimits(body_seconds=0.01))(scope, receive, send)
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
    [answer] = messages_in(sent[1]["body"])
    assert answer["error"] == {"code": -32600, "message": "the body is not complete after 0.01 seconds"}


async def _never(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("half a body is nobody's request")


async def test_a_body_that_does_not_say_its_size_is_bounded_too(http: httpx2.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(1 << 16)

    async with endpoint(limits=FrameLimits(max_body_bytes=1 << 20)) as url:
        response = await http.post(url, headers=headers_for(call("echo")), content=pieces())
    [answer] = messages_in(response.content)
    assert response.status_code == 413
    assert answer["error"]["message"] == "the body is larger than 1048576 bytes"


@pytest.mark.parametrize("era", [STATELESS, HANDSHAKE])
async def test_an_answer_that_has_no_frame_is_told_under_its_id(http: httpx2.AsyncClient, era: str) -> None:
    async with endpoint() as url:
        more = {"mcp_session_id": await open_session(http, url)} if era == HANDSHAKE else {}
        response, [answer] = await ask(http, url, call("odd", era=era, what="deep"), era=era, **more)
    assert response.status_code == 200
    assert answer["id"] == 1
    assert "cannot be written as a frame" in answer["error"]["message"]


@pytest.mark.parametrize(("what", "value"), [("huge", 1e30), ("surrogate", "x\ufffdy")])
async def test_an_answer_that_msgpack_can_only_say_differently(
    http: httpx2.AsyncClient, what: str, value: object
) -> None:
    async with endpoint() as url:
        _, [answer] = await ask(http, url, call("odd", what=what))
    assert answer["result"]["structuredContent"] == {"value": value}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"mcp-protocol-version": "1999-01-01"}, 400),
        ({"mcp-method": "tools/list"}, 400),
        ({"mcp-protocol-version": HANDSHAKE, "mcp-session-id": "unknown"}, 404),
    ],
)
async def test_refusals_of_the_server_keep_their_status(
    http: httpx2.AsyncClient, change: dict[str, str], status: int
) -> None:
    async with endpoint() as url:
        message = call("echo")
        response = await http.post(url, headers={**headers_for(message), **change}, content=pack_message(message))
    assert response.status_code == status


def test_garbage_never_crashes_the_endpoint() -> None:
    """No port here: thousands of bodies against the layer itself, in front of an app that must only see JSON."""
    seen: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    @given(st.binary(max_size=200), st.sampled_from([b"", b"gzip", b"zstd", b"br", b"\xff"]))
    def post(body: bytes, encoding: bytes) -> None:
        seen.clear()
        sent = anyio.run(_exchange, CodecFrames(app), body, encoding)
        assert sent[0]["status"] in (202, 400, 413, 415)
        assert [type(json.loads(raw)) for raw in seen] in ([], [dict])

    post()


async def _exchange(app: CodecFrames, body: bytes, encoding: bytes) -> list[Any]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    wire = FRAMES_TYPE.encode()
    headers = [(b"content-type", wire), (b"accept", wire), (b"content-encoding", encoding)]
    scope = {"type": "http", "path": "/mcp", "method": "POST", "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    return sent


# JSON clients


@asynccontextmanager
async def both_ways() -> AsyncIterator[tuple[str, str]]:
    """The same server with the binary transport round it, and without."""
    async with endpoint(TalkingServer()) as layered, endpoint(TalkingServer(), binary=False) as bare:
        yield layered, bare


@pytest.mark.parametrize("accept", [JSON, "*/*", f"{JSON}, {FRAMES_TYPE};q=0.1", "text/html"])
@pytest.mark.parametrize("tool", ["echo", "count", "odd", "make"])
async def test_json_clients_see_the_same_bytes(accept: str, tool: str) -> None:
    known: Json = {"odd": {"what": "huge"}, "make": {"size": 5000}, "count": {"steps": 2}, "echo": {"a": "é"}}
    message = call(tool, token="t", **known[tool])
    body = json.dumps(message).encode()
    headers = headers_for(message, accept=accept, content_type="application/json", accept_encoding="gzip, zstd")
    async with both_ways() as urls:
        layered, bare = [await _raw_exchange(url, headers, body) for url in urls]
    assert layered == bare


async def _raw_exchange(url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """The bytes of an answer as they are on the wire, but for the clock in them."""
    port = urlsplit(url).port
    lines = [f"{name}: {value}" for name, value in {**headers, "connection": "close"}.items()]
    lines += ["host: 127.0.0.1:1", f"content-length: {len(body)}"]
    head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode()
    answer = b""
    with anyio.fail_after(PATIENCE):
        async with await anyio.connect_tcp("127.0.0.1", port or 0) as stream:
            await stream.send(head + body)
            async for chunk in stream:
                answer += chunk
    return b"\r\n".join(line for line in answer.split(b"\r\n") if not line.lower().startswith(b"date:"))


async def test_other_paths_pass_as_the_same_objects() -> None:
    passed: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append((scope, receive, send))

    async def receive() -> Any: ...

    async def send(message: Any) -> None: ...

    binary = [(b"accept", FRAMES_TYPE.encode())]
    for scope in (
        {"type": "http", "path": "/status", "headers": binary, "query_string": b"stream_format=msgpack"},
        {"type": "http", "path": "/mcp/", "headers": binary, "query_string": b""},
        {"type": "http", "path": "/mcp", "method": "POST", "headers": [], "query_string": b""},
        {"type": "lifespan"},
        {"type": "websocket", "path": "/mcp"},
    ):
        await CodecFrames(app)(scope, receive, send)
        assert passed.pop() == (scope, receive, send)


async def test_vary_is_added_to_not_replaced(http: httpx2.AsyncClient) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        headers = [(b"content-type", b"application/json; charset=utf-8"), (b"vary", b"X-Codec-Map, accept")]
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, (b"x-mine", b"1")]})
        await send({"type": "http.response.body", "body": b'{"a"', "more_body": True})
        await send({"type": "http.response.body", "body": b":1}"})

    async with served(CodecFrames(app)) as url:
        response, frames = await ask(http, url, call("echo"))
    assert frames == [{"a": 1}]
    told = [name.strip().lower() for name in response.headers["vary"].split(",")]
    assert sorted(told) == ["accept", "accept-encoding", "x-codec-map"]
    assert response.headers["x-mine"] == "1"


async def test_many_clients_of_both_kinds_at_once(http: httpx2.AsyncClient) -> None:
    """Each gets its own answer, in its own format."""
    wrong: list[Any] = []

    async def one(url: str, number: int) -> None:
        rng = random.Random(number)
        text = f"{number} " * rng.choice([10, 2000, 100_000])
        for accept in rng.choices([FRAMES_TYPE, JSON], k=3):
            encoding = rng.choice(["gzip", "zstd", "identity"])
            how = {"accept": accept, "accept_encoding": encoding}
            response, [answer] = await ask(http, url, call("echo", text=text), **how)
            counted, progress = await ask(http, url, call("count", token=text[:9]), **how)
            tokens = {message["params"]["progressToken"] for message in progress[:-1]}
            is_binary = {r.headers["content-type"] == FRAMES_TYPE for r in (response, counted)}
            if answer["result"]["structuredContent"] != {"text": text} or tokens != {text[:9]}:
                wrong.append((number, answer))
            if is_binary != {accept == FRAMES_TYPE}:
                wrong.append((number, accept, response.headers, counted.headers))

    async with endpoint() as url, anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, url, number)
    assert wrong == []
