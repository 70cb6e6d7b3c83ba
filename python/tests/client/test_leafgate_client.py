"""The client against real endpoints: binary and JSON, both eras, progress, ids, limits, and servers that go wrong."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from binary_endpoint import CLIENT_META, HANDSHAKE, PATIENCE, STATELESS, Recorder, TalkingServer, endpoint, served
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from leafgate.client import (
    ClientLimits,
    HttpError,
    LeafError,
    LeafgateClient,
    ProtocolError,
    RpcError,
    ServerUnreachable,
)
from leafgate.client.client import read_result
from leafgate.codec.compression import compress
from leafgate.codec.frames import FRAMES_TYPE, pack_frame, pack_message
from leafgate.codec.leaf import wrap_tool_call
from leafgate.compose.gateway import compose
from leafgate.config.load import load_config
from leafgate.model.errors import CodecMetaMapMismatchError, ConfigError, MapDigestError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.server.frames import COMPRESS_FROM
from leafgate.server.http import Web, web_app
from leafgate.tokens.encoder import Encoder

pytestmark = pytest.mark.anyio


class HandshakeOnly:
    """A server of the older era: it has never heard of requests without a session."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.seen: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.seen.append(scope)
        if (b"mcp-protocol-version", STATELESS.encode()) in scope.get("headers", ()):
            await Response("Bad Request: unsupported version", 400)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@asynccontextmanager
async def server_of(era: str, *, binary: bool, server: TalkingServer | None = None) -> AsyncIterator[str]:
    app = web_app(server or TalkingServer(), Web(compress_from=COMPRESS_FROM if binary else None))
    async with served(HandshakeOnly(app) if era == HANDSHAKE else app) as url:
        yield url


EVERY_SERVER = pytest.mark.parametrize(
    ("era", "binary"), [(STATELESS, True), (STATELESS, False), (HANDSHAKE, True), (HANDSHAKE, False)]
)


@EVERY_SERVER
async def test_whatever_the_server_speaks(era: str, binary: bool) -> None:
    async with server_of(era, binary=binary) as url, LeafgateClient(url) as client:
        assert "tools" in (await client.initialize())["capabilities"]
        assert [tool["name"] for tool in await client.list_tools()][:2] == ["count", "echo"]
        result = await client.call_tool("echo", {"a": [1, 0.5, None, "é\U0001f600"]})
        assert result.text == "echo"
        assert result.structured == {"a": [1, 0.5, None, "é\U0001f600"]}
        assert not result.is_error
        assert (client.protocol_version, client.is_binary) == (era, binary)


@EVERY_SERVER
async def test_progress_comes_while_the_tool_still_works(era: str, binary: bool) -> None:
    server = TalkingServer()
    told: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))
        if progress == 2:
            server.may_go_on.set()

    async with server_of(era, binary=binary, server=server) as url, LeafgateClient(url) as client:
        with anyio.fail_after(PATIENCE):
            result = await client.call_tool("count", {"steps": 3, "wait_after": 2}, on_progress=on_progress)
    assert result.text == "counted"
    assert told == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@EVERY_SERVER
async def test_one_connection_serves_many_calls(era: str, binary: bool) -> None:
    inner = web_app(TalkingServer(), Web(compress_from=COMPRESS_FROM if binary else None))
    app = Callers(HandshakeOnly(inner) if era == HANDSHAKE else inner)
    async with served(app) as url, LeafgateClient(url) as client:
        for _ in range(5):
            await client.call_tool("count", {"steps": 1})
            await client.call_tool("make", {"size": 5000})
    assert len(app.ports) == 1


class Callers:
    """Writes down from which ports it was called."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.ports: set[int] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.ports.add(scope["client"][1])
        await self._app(scope, receive, send)


async def test_json_alone_can_be_asked_for() -> None:
    async with endpoint() as url, LeafgateClient(url, binary=False) as client:
        assert (await client.call_tool("echo")).text == "echo"
        assert not client.is_binary


@EVERY_SERVER
async def test_a_large_result(era: str, binary: bool) -> None:
    async with server_of(era, binary=binary) as url, LeafgateClient(url) as client:
        assert len((await client.call_tool("make", {"size": 3_000_000})).text) == 3_000_000


async def test_many_calls_at_once_on_one_client() -> None:
    found: dict[int, Any] = {}
    async with endpoint() as url, LeafgateClient(url) as client:

        async def call(number: int) -> None:
            found[number] = (await client.call_tool("echo", {"number": number})).structured

        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(call, number)
    assert found == {number: {"number": number} for number in range(30)}


async def test_a_server_that_asks_is_told_that_there_is_nobody() -> None:
    async with server_of(HANDSHAKE, binary=True) as url, LeafgateClient(url) as client:
        with anyio.fail_after(PATIENCE):
            with pytest.raises(RpcError):
                await client.call_tool("ask")
        assert (await client.call_tool("echo")).text == "echo"


async def test_the_session_is_ended() -> None:
    app = HandshakeOnly(web_app(TalkingServer(), Web(compress_from=COMPRESS_FROM)))
    async with served(app) as url:
        async with LeafgateClient(url) as client:
            await client.initialize()
        assert app.seen[-1]["method"] == "DELETE"


# Ids


async def test_ids_of_each_text_block(toy: Encoder) -> None:
    async with endpoint(TalkingServer(toy)) as url, LeafgateClient(url, map_id=toy.map.digest.upper()[7:]) as client:
        result = await client.call_tool("leafs", {"text": "the cat"})
    assert result.ids == [[261, 264]]
    assert result.text == "the cat"
    assert result.blocks[0].map_id == toy.map.digest


async def test_text_is_read_from_ids(toy: Encoder) -> None:
    async with endpoint(TalkingServer(toy)) as url:
        async with LeafgateClient(url, form="ids", encoder=toy) as client:
            result = await client.call_tool("leafs", {"text": "the cat", "form": "ids"})
        assert (result.text, result.ids) == ("the cat", [[261, 264]])
        async with LeafgateClient(url, form="ids") as client:
            result = await client.call_tool("leafs", {"text": "the cat", "form": "ids"})
        assert (result.text, result.ids) == ("", [[261, 264]])


async def test_the_wish_is_sent_with_every_call(toy: Encoder) -> None:
    server = TalkingServer(toy)
    async with endpoint(server) as url, LeafgateClient(url, form="ids", map_id=toy.map.digest) as client:
        await client.call_tool("echo")
    assert server.wishes == [{"map_id": toy.map.digest, "form": "ids"}]


async def test_ids_of_another_map_are_an_error(toy: Encoder, qwen: Encoder) -> None:
    async with endpoint(TalkingServer(toy)) as url, LeafgateClient(url, map_id=qwen.map.digest) as client:
        with pytest.raises(CodecMetaMapMismatchError):
            await client.call_tool("leafs", {"text": "the cat"})


@pytest.mark.parametrize(
    ("ids", "text", "reason"),
    [
        ([261, 999_999], "", "unknown-id"),
        ([261, "264"], "", "not-integer"),
        ([261, True], "", "not-integer"),
        ([261, -1], "", "negative"),
        ([], "", "empty-text"),
        ([0xFF], "", "bad-text"),
        ([261, 264], "the dog", "text-mismatch"),
        ([116, 104, 101], "", "non-canonical"),
    ],
)
async def test_ids_that_cannot_be_believed(toy: Encoder, ids: list[Any], text: str, reason: str) -> None:
    server = TalkingServer(toy)
    server.leaf = {"text": text, "ids": ids}
    async with endpoint(server) as url, LeafgateClient(url, encoder=toy) as client:
        with pytest.raises(LeafError) as caught:
            await client.call_tool("leafs", {"text": "the cat"})
    assert caught.value.reason == reason


# A whole gateway


@asynccontextmanager
async def gateway_endpoint(folder: Path, upstream: str, map_name: str) -> AsyncIterator[str]:
    """A gateway in front of this server, with the binary transport outside everything that reads JSON."""
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"map": map_name, "servers": {"talking": {"url": upstream}}}), encoding="utf-8")
    gateway = compose(load_config(file))
    server = gateway.mcp_server()
    web = gateway.web()
    async with gateway.running(), gateway.announcing(server):
        await gateway.fleet.wait_for_start()
        await gateway.runtime.changes.wait()
        async with served(web_app(server, replace(web, compress_from=COMPRESS_FROM))) as url:
            yield url


async def test_through_the_gateway(tmp_path: Path, qwen: Encoder) -> None:
    """Browsing, progress, text out of ids and views: all in frames, from a server that knows nothing of them."""
    told: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with (
        endpoint(TalkingServer(), binary=False) as upstream,
        gateway_endpoint(tmp_path, upstream, "qwen/qwen2") as url,
        LeafgateClient(url, form="ids", encoder=qwen) as client,
    ):
        page = await client.browse(path="/talking")
        ids = {name: found.group() for name in ("count", "make") if (found := re.search(rf"\S+:{name}\S*", page.text))}
        counted = await client.execute(ids["count"], {"steps": 3}, on_progress=on_progress)
        assert (counted.text, told) == ("counted", [1, 2, 3])
        assert counted.ids == [qwen.encode("counted")]
        assert counted.content[0]["text"] == ""
        made = await client.execute(ids["make"], {"size": 200_000})
        handle = made.meta["leafgate/envelope"]["artifacts"][0]["handle"]
        view = await client.view(handle, {"type": "head", "lines": 2})
        assert "line 0 of the text\nline 1 of the text" in view.text
        wrong = await client.execute("no:such", {})
        assert wrong.is_error
        assert json.loads(wrong.text)["error"] == "HYDRATE_FAILED"
        assert client.is_binary


async def test_layers_that_read_json_see_a_binary_request_too(tmp_path: Path, qwen: Encoder) -> None:
    """The map of the ids is named in the headers, by a layer that knows nothing of frames."""
    params = {"name": "tool_browse", "_meta": CLIENT_META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "accept": FRAMES_TYPE,
        "content-type": FRAMES_TYPE,
        "mcp-protocol-version": STATELESS,
        "mcp-method": "tools/call",
        "mcp-name": "tool_browse",
    }
    async with (
        endpoint(TalkingServer(), binary=False) as upstream,
        gateway_endpoint(tmp_path, upstream, "qwen/qwen2") as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        response = await http.post(url, headers=headers, content=pack_message(message))
    assert response.headers["content-type"] == FRAMES_TYPE
    assert response.headers["codec-tokenizer-map"] == qwen.map.digest
    told = {name.strip().lower() for name in response.headers["vary"].split(",")}
    assert told == {"accept", "accept-encoding", "x-codec-map"}


# What goes wrong


async def test_errors_of_the_protocol_are_typed() -> None:
    async with endpoint() as url, LeafgateClient(url) as client:
        with pytest.raises(RpcError) as caught:
            await client.request("no/such/method")
        assert caught.value.code == -32601
        assert client.protocol_version == STATELESS


async def test_nobody_listens() -> None:
    async with endpoint() as url:
        pass
    secretive = f"{url.replace('//', '//user:hush@')}?token=hush"
    async with LeafgateClient(secretive) as client:
        with pytest.raises(ServerUnreachable, match=url) as caught:
            await client.call_tool("echo")
    assert "hush" not in str(caught.value)


def frames(body: bytes, **headers: str) -> Response:
    return Response(
        body, headers={name.replace("_", "-"): value for name, value in headers.items()}, media_type=FRAMES_TYPE
    )


GOOD = pack_frame({"jsonrpc": "2.0", "id": 1, "result": {"supportedVersions": [STATELESS]}})
LIMITS = ClientLimits(max_message_bytes=1000, max_answer_bytes=5000, connect_seconds=5, silent_seconds=PATIENCE)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (frames(b"\x00"), ProtocolError),
        (frames(b"\x00\x00\x00\x00"), ProtocolError),
        (frames(b"\xff\xff\xff\xff"), ProtocolError),
        (frames(GOOD[:-1]), ProtocolError),
        (frames(b""), ProtocolError),
        (frames(b"\x00\x00\x00\x01\xc1"), ProtocolError),
        (frames(pack_frame({"a": "x" * 1000})), ProtocolError),
        (frames(pack_frame({"jsonrpc": "2.0", "id": 1})), ProtocolError),
        (frames(pack_frame({"jsonrpc": "2.0", "id": 1, "result": 5})), ProtocolError),
        (frames(pack_frame({"jsonrpc": "2.0", "id": 2, "result": {}})), ProtocolError),
        (frames(GOOD, content_encoding="gzip"), ProtocolError),
        (frames(GOOD, content_encoding="br"), ProtocolError),
        (frames(compress(GOOD, "zstd")[:-1], content_encoding="zstd"), ProtocolError),
        (frames(compress(bytes(1 << 28), "zstd"), content_encoding="zstd"), ProtocolError),
        (frames(compress(pack_frame({"a": 1}) * 5000, "zstd"), content_encoding="zstd"), ProtocolError),
        (Response(b"{", media_type="application/json"), ProtocolError),
        (Response(b"[]", media_type="application/json"), ProtocolError),
        (Response(b"x" * 2000, media_type="application/json"), ProtocolError),
        (Response(b"data: {\n\n", media_type="text/event-stream"), ProtocolError),
        (Response(b"data: " + b"x" * 2000, media_type="text/event-stream"), ProtocolError),
        (Response(b": ping\n\n", media_type="text/event-stream"), ProtocolError),
        (Response(b"<html>", media_type="text/html"), ProtocolError),
        (Response(b"", 401), HttpError),
        (Response(b'{"error": "invalid_token"}', 401, media_type="application/json"), HttpError),
        (Response(b"", 403), HttpError),
        (Response(b"", 500), HttpError),
        (Response(b"", 307, headers={"location": "http://127.0.0.1:1/"}), HttpError),
    ],
)
async def test_answers_that_are_none(answer: Response, error: type[Exception]) -> None:
    async with served(Recorder(answer)) as url, LeafgateClient(url, limits=LIMITS) as client:
        with anyio.fail_after(PATIENCE), pytest.raises(error):
            await client.initialize()


async def test_a_silent_server_is_left() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield GOOD[:3]
        await anyio.sleep(PATIENCE)

    never = StreamingResponse(body(), media_type=FRAMES_TYPE)
    limits = replace(LIMITS, silent_seconds=0.3)
    async with served(Recorder(never)) as url, LeafgateClient(url, limits=limits) as client:
        with anyio.fail_after(PATIENCE), pytest.raises(ServerUnreachable, match="in time"):
            await client.initialize()


async def test_a_stream_that_breaks_is_taken_up_again() -> None:
    """The first stream ends in the middle of the call; the answer is read on, and no progress is told twice."""
    server = TalkingServer()
    app = Cutting(HandshakeOnly(web_app(server, Web(compress_from=COMPRESS_FROM))), server)
    told: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with served(app) as url, LeafgateClient(url) as client:
        with anyio.fail_after(PATIENCE):
            result = await client.call_tool("count", {"steps": 3, "wait_after": 1}, on_progress=on_progress)
    assert result.text == "counted"
    assert told == [1, 2, 3]
    assert app.has_cut
    assert app.was_resumed


class Cutting:
    """Breaks the connection of the first response that carries an event of a call; the call itself goes on."""

    def __init__(self, app: ASGIApp, server: TalkingServer) -> None:
        self._app = app
        self._server = server
        self._calls: list[asyncio.Task[None]] = []
        self.has_cut = False
        self.was_resumed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cut = asyncio.Event()

        async def send_and_cut(message: Any) -> None:
            await send(message)
            if message.get("body") and self._server.calls and not self.has_cut:
                self.has_cut = True
                self._server.may_go_on.set()
                cut.set()

        self.was_resumed |= b"last-event-id" in dict(scope.get("headers", ()))
        call = asyncio.create_task(self._app(scope, receive, send_and_cut))
        is_cut = asyncio.create_task(cut.wait())
        try:
            await asyncio.wait({call, is_cut}, return_when=asyncio.FIRST_COMPLETED)
            if cut.is_set():  # uvicorn closes the connection of a response that is not complete
                self._calls.append(call)
            else:
                await call
        finally:
            is_cut.cancel()
            if call not in self._calls:
                call.cancel()


# Settings


@pytest.mark.parametrize("url", ["127.0.0.1:8808/mcp", "ftp://127.0.0.1/mcp", "", "http:///mcp"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError):
        LeafgateClient(url)


def test_a_token_is_not_sent_in_clear_text_to_others() -> None:
    with pytest.raises(ConfigError, match="https"):
        LeafgateClient("http://192.0.2.1/mcp", token="secret")


async def test_a_token_is_sent() -> None:
    server = Recorder(frames(GOOD))
    async with served(server) as url, LeafgateClient(url, token="secret") as client:
        await client.initialize()
    assert [headers["authorization"] for _, headers, _ in server.requests] == ["Bearer secret"]


async def test_what_is_said_to_this_machine_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with endpoint() as url, LeafgateClient(url) as client:
        assert (await client.call_tool("echo")).text == "echo"


def test_maps_that_do_not_fit(toy: Encoder) -> None:
    with pytest.raises(MapDigestError):
        LeafgateClient("http://127.0.0.1/mcp", map_id="toy")
    with pytest.raises(ConfigError):
        LeafgateClient("http://127.0.0.1/mcp", map_id="sha256:" + "0" * 64, encoder=toy)


OTHER = "sha256:" + "0" * 64


def leaf(map_id: str, ids: Any, text: str = "") -> dict[str, Any]:
    return {"type": "text", "text": text, "_meta": {CODEC_META_KEY: {"map_id": map_id, "ids": ids}}}


def test_mixed_blocks_keep_their_places(toy: Encoder) -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    plain = {"type": "text", "text": "plain"}
    content = [image, leaf(toy.map.digest, [261, 264]), plain]
    raw = {"content": content, "isError": True, "_meta": {"x": 1}}
    result = read_result(raw, None, toy)
    assert [block.text for block in result.blocks] == ["the cat", "plain"]
    assert result.ids == [[261, 264], None]
    assert result.text == "the cat\nplain"
    assert result.content == tuple(content)
    assert result.is_error
    assert result.meta == {"x": 1}
    assert result.structured is None


@pytest.mark.parametrize("raw", [{}, {"content": None}, {"content": "x"}, {"content": [1, None]}, {"_meta": 5}])
def test_results_of_an_odd_shape(raw: dict[str, Any]) -> None:
    result = read_result(raw, None, None)
    assert (result.text, result.ids, result.is_error, dict(result.meta)) == ("", [], False, {})


@pytest.mark.parametrize("text", ["the cat", "é\U0001f600\n", "<|im_end|>"])
def test_text_and_ids_that_belong_together(toy: Encoder, text: str) -> None:
    raw = wrap_tool_call({"content": [{"type": "text", "text": text}]}, toy)
    assert read_result(raw, toy.map.digest, toy).text == text
    without_text = {"content": [{**raw["content"][0], "text": ""}]}
    assert read_result(without_text, toy.map.digest, toy).text == text


@pytest.mark.parametrize(
    ("ids", "text", "reason"),
    [
        (["a"], "", "not-integer"),
        ([1.5], "", "not-integer"),
        ([None], "the cat", "not-integer"),
        ([-5], "", "negative"),
        ([2**40], "", "too-large"),
        ([0xFF], "", "bad-text"),
        ([], "", "empty-text"),
        ([261] * 50, "the cat", "too-many-ids"),
        ([261, 261], "the cat", "text-mismatch"),
        ([116, 104, 101], "the", "non-canonical"),
    ],
)
def test_ids_that_cannot_be_believed_result(toy: Encoder, ids: list[Any], text: str, reason: str) -> None:
    raw = {"content": [{"type": "text", "text": "fine"}, leaf(toy.map.digest, ids, text)]}
    with pytest.raises(LeafError) as caught:
        read_result(raw, None, toy)
    assert (caught.value.text_index, caught.value.reason) == (1, reason)
    assert read_result(raw, None, None).ids == [None, ids]


def test_ids_of_another_map(toy: Encoder) -> None:
    raw = {"content": [leaf(OTHER, [1])]}
    with pytest.raises(CodecMetaMapMismatchError):
        read_result(raw, toy.map.digest, None)
    with pytest.raises(LeafError):
        read_result({"content": [leaf(OTHER, [261], "the")]}, None, toy)
