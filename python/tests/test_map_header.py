"""The answer's headers: which map its ids belong to, and that a cache must look at the request's wish."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from leafgate.server.map_header import MapHeader

pytestmark = pytest.mark.anyio

A, B, FOREIGN = ("sha256:" + letter * 64 for letter in "abc")


async def echo(request: Request) -> Response:
    status = 400 if b"broken" in await request.body() else 200
    return PlainTextResponse(await request.body(), status, {"Vary": "Accept"})


def layered(default: str | None) -> MapHeader:
    routes = [Route("/mcp", echo, methods=["GET", "POST"]), Route("/status", echo, methods=["POST"])]
    return MapHeader(Starlette(routes=routes), "/mcp", lambda scope: (default, {A, B}))


def call(wish: Any = None, method: str = "tools/call") -> bytes:
    meta = {} if wish is None else {"_meta": {"ai.codec/accept": wish}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "x", **meta}}).encode()


async def post(body: bytes, *, default: str | None = A, path: str = "/mcp", **headers: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(app=layered(default))
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as client:
        answer = await client.post(path, content=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        assert answer.content == body
        return answer


@pytest.mark.parametrize(
    ("wish", "header", "default", "expected"),
    [
        (None, None, A, A),
        (None, None, None, None),
        (None, B, A, B),
        (None, f"https://maps.example/b.json;sha256={'b' * 64}", A, B),
        ({"map_id": A}, B, None, A),
        ({"map_id": "B" * 64, "form": "ids"}, None, A, B),
        ({"form": "text"}, B, A, None),
        (None, FOREIGN, A, None),
        ({"map_id": FOREIGN}, None, A, None),
        ({"map_id": A, "form": "odd"}, None, A, None),
        ("wrong", None, A, None),
        ({"form": "ids"}, B, A, B),
    ],
)
async def test_the_map_that_the_call_is_answered_in(
    wish: Any, header: str | None, default: str | None, expected: str | None
) -> None:
    answer = await post(call(wish), default=default, **({} if header is None else {"X_Codec_Map": header}))
    assert answer.headers.get("Codec-Tokenizer-Map") == expected
    assert answer.headers["Vary"].lower() == "accept, x-codec-map"


@pytest.mark.parametrize("body", [call(method="tools/list"), b"", b"\xff\xfe", b'["tools/call", "ai.codec/accept"]'])
async def test_answers_without_ids_name_no_map(body: bytes) -> None:
    answer = await post(body, default=None)
    assert "Codec-Tokenizer-Map" not in answer.headers


async def test_words_are_read_as_json_spells_them() -> None:
    """Some writers escape every slash, and any letter may be."""
    spelled = (
        call({"map_id": B})
        .replace(b"tools/call", b"tools\\/call")
        .replace(b"ai.codec/accept", b"ai.codec\\/accep\\u0074")
    )
    assert (await post(spelled)).headers["Codec-Tokenizer-Map"] == B
    odd = call({"map_id": B}).replace(b'"x"', b'"\\ud800"')
    assert (await post(odd)).headers["Codec-Tokenizer-Map"] == B


@pytest.mark.parametrize("method", ["resources/read", "prompts/get", "completion/complete"])
async def test_only_a_call_names_a_map_whatever_else_a_request_says(method: str) -> None:
    other = call({"map_id": B}, method=method).replace(b'"x"', b'"file:///tools/call"')
    assert "Codec-Tokenizer-Map" not in (await post(other)).headers


async def test_deep_nesting_is_no_crash() -> None:
    answer = await post(b'{"tools/call": "ai.codec/accept", "x": ' + b"[" * 200_000)
    assert answer.status_code == 200
    assert "Codec-Tokenizer-Map" not in answer.headers


async def test_errors_of_the_transport_name_no_map() -> None:
    answer = await post(call() + b"broken")
    assert "Codec-Tokenizer-Map" not in answer.headers


async def test_other_routes_pass_untouched() -> None:
    answer = await post(call(), path="/status")
    assert "Codec-Tokenizer-Map" not in answer.headers
    assert answer.headers["Vary"] == "Accept"
