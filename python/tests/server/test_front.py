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
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from leafgate.model.rights import CLIENT_CAPABILITIES, Capability, Principal
from leafgate.model.tool import ALL_META_TOOLS
from leafgate.server.auth.bearer_tokens import BearerTokens
from leafgate.server.auth.capabilities import KnownUser, ScopeGrants
from leafgate.server.auth.layer import Auth
from leafgate.server.front import MAX_BODY, Access, Front, MapOffer, RequestLayer

A, B, FOREIGN = ("sha256:" + letter * 64 for letter in "abc")


async def echo(request: Request) -> Response:
    status = 400 if b"broken" in await request.body() else 200
    return PlainTextResponse(await request.body(), status, {"Vary": "Accept"})


def layered(default: str | None) -> RequestLayer:
    routes = [Route("/mcp", echo, methods=["GET", "POST"]), Route("/status", echo, methods=["POST"])]
    return RequestLayer(Starlette(routes=routes), Front(maps=MapOffer(default, {A, B})))


def call(wish: Any = None, method: str = "tools/call") -> bytes:
    meta = {} if wish is None else {"_meta": {"ai.codec/accept": wish}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "x", **meta}}).encode()


async def post(body: bytes, *, default: str | None = A, path: str = "/mcp", **headers: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(app=layered(default))
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as client:
        answer = await client.post(path, content=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        assert answer.content == body
        return answer


@pytest.mark.anyio
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


@pytest.mark.anyio
@pytest.mark.parametrize("body", [call(method="tools/list"), b"", b"\xff\xfe", b'["tools/call", "ai.codec/accept"]'])
async def test_answers_without_ids_name_no_map(body: bytes) -> None:
    answer = await post(body, default=None)
    assert "Codec-Tokenizer-Map" not in answer.headers


@pytest.mark.anyio
async def test_the_result_of_a_task_has_ids_as_that_of_a_call() -> None:
    assert (await post(call({"map_id": B}, method="tasks/get"))).headers["Codec-Tokenizer-Map"] == B


@pytest.mark.anyio
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


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["resources/read", "prompts/get", "completion/complete"])
async def test_only_a_call_names_a_map_whatever_else_a_request_says(method: str) -> None:
    other = call({"map_id": B}, method=method).replace(b'"x"', b'"file:///tools/call"')
    assert "Codec-Tokenizer-Map" not in (await post(other)).headers


@pytest.mark.anyio
async def test_deep_nesting_is_no_crash() -> None:
    answer = await post(b'{"tools/call": "ai.codec/accept", "x": ' + b"[" * 200_000)
    assert answer.status_code == 200
    assert "Codec-Tokenizer-Map" not in answer.headers


@pytest.mark.anyio
async def test_errors_of_the_transport_name_no_map() -> None:
    answer = await post(call() + b"broken")
    assert "Codec-Tokenizer-Map" not in answer.headers


@pytest.mark.anyio
async def test_other_routes_pass_untouched() -> None:
    answer = await post(call(), path="/status")
    assert "Codec-Tokenizer-Map" not in answer.headers
    assert answer.headers["Vary"] == "Accept"


SCOPED_AUTH = Auth(BearerTokens([]), grants=ScopeGrants({"work": frozenset({"execute"})}))


async def repeat(request: Request) -> Response:
    return Response(await request.body())


def scoped_client(*capabilities: Capability, known: bool = True) -> TestClient:
    app = Starlette(routes=[Route(path, repeat, methods=["POST"]) for path in ("/mcp", "/messages", "/api")])
    layer: ASGIApp = RequestLayer(app, Front(Access(SCOPED_AUTH), own_tools=ALL_META_TOOLS))

    async def with_user(scope: Any, receive: Any, send: Any) -> None:
        user = {"user": KnownUser(Principal("ann", frozenset(capabilities)))} if known else {}
        await layer({**scope, **user}, receive, send)

    return TestClient(with_user)


def call_of(name: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}


@pytest.mark.parametrize("path", ["/mcp", "/messages"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (call_of("tool_browse"), 200),
        (call_of("tool_execute"), 403),
        (call_of("tool_view"), 403),
        ({"method": "tools/list"}, 200),
        ({"method": "leafgate/status"}, 403),
        ([call_of("tool_browse"), call_of("tool_execute")], 403),
        ([], 200),
        ({"id": 1, "result": {}}, 200),
        ({"method": ["tools/call"]}, 200),
        ({"method": "tools/call", "params": ["tool_browse"]}, 403),
        ("text", 200),
    ],
)
def test_a_browser_only_browses(path: str, body: Any, status: int) -> None:
    answer = scoped_client("browse").post(path, json=body)
    assert answer.status_code == status
    if status == 200:
        assert json.loads(answer.content) == body
    else:
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


def test_the_scope_that_would_do_is_told() -> None:
    refused = scoped_client("browse").post("/mcp", json=call_of("tool_execute"))
    assert 'scope="work"' in refused.headers["www-authenticate"]


@pytest.mark.parametrize("body", [b"", b"{", b"\x82\xa6method", b"[" * 100_000])
def test_what_is_no_json_passes_whole(body: bytes) -> None:
    """The gate behind judges it, in whatever form it came; a body in pieces stays whole."""

    def pieces() -> Any:
        yield body[: len(body) // 2]
        yield body[len(body) // 2 :]

    assert scoped_client("browse").post("/mcp", content=pieces()).content == body


@pytest.mark.parametrize(
    "client",
    [scoped_client(*CLIENT_CAPABILITIES), scoped_client(known=False)],
    ids=["who lacks nothing", "who is not known"],
)
def test_others_are_not_judged(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leafgate.server.front.needed_for", lambda *message: pytest.fail("it was judged"))
    assert client.post("/mcp", json=call_of("tool_execute")).status_code == 200


def test_other_paths_are_not_its_business() -> None:
    assert scoped_client("operate").post("/api", json=call_of("tool_execute")).status_code == 200


@pytest.mark.parametrize("path", ["/mcp", "/messages"])
def test_a_body_beyond_the_limit_is_refused(path: str) -> None:
    def pieces() -> Any:
        yield b"x" * MAX_BODY
        yield b"xx"

    assert scoped_client("browse").post(path, content=pieces()).status_code == 413
    assert scoped_client(known=False).post(path, content=b"x" * (MAX_BODY + 1)).status_code == 413
