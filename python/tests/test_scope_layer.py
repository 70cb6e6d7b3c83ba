"""403 for what a token's scopes do not allow, before the endpoint sees it; everything else untouched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from leafgate.model.mode import ALL_META_TOOLS
from leafgate.model.principal import CLIENT_CAPABILITIES, Capability, Principal
from leafgate.server.auth.bearer_tokens import BearerTokens
from leafgate.server.auth.known_user import KnownUser
from leafgate.server.auth.layer import Auth
from leafgate.server.auth.scope_grants import ScopeGrants
from leafgate.server.auth.scope_layer import MAX_BODY, ScopeLayer

AUTH = Auth(BearerTokens([]), grants=ScopeGrants({"work": frozenset({"execute"})}))


async def repeat(request: Request) -> Response:
    return Response(await request.body())


def client_of(*capabilities: Capability, known: bool = True) -> TestClient:
    app = Starlette(routes=[Route(path, repeat, methods=["POST"]) for path in ("/mcp", "/messages", "/api")])
    layer: ASGIApp = ScopeLayer(app, lambda: AUTH, ALL_META_TOOLS)

    async def with_user(scope: Any, receive: Any, send: Any) -> None:
        user = {"user": KnownUser(Principal("ann", frozenset(capabilities)))} if known else {}
        await layer({**scope, **user}, receive, send)

    return TestClient(with_user)


def call(name: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}


@pytest.mark.parametrize("path", ["/mcp", "/messages"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (call("tool_browse"), 200),
        (call("tool_execute"), 403),
        (call("tool_view"), 403),
        ({"method": "tools/list"}, 200),
        ({"method": "leafgate/status"}, 403),
        ([call("tool_browse"), call("tool_execute")], 403),
        ([], 200),
        ({"id": 1, "result": {}}, 200),
        ({"method": ["tools/call"]}, 200),
        ({"method": "tools/call", "params": ["tool_browse"]}, 403),
        ("text", 200),
    ],
)
def test_a_browser_only_browses(path: str, body: Any, status: int) -> None:
    answer = client_of("browse").post(path, json=body)
    assert answer.status_code == status
    if status == 200:
        assert json.loads(answer.content) == body
    else:
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


def test_the_scope_that_would_do_is_told() -> None:
    refused = client_of("browse").post("/mcp", json=call("tool_execute"))
    assert 'scope="work"' in refused.headers["www-authenticate"]


@pytest.mark.parametrize("body", [b"", b"{", b"\x82\xa6method", b"[" * 100_000, b"x" * (MAX_BODY + 2)])
def test_what_is_no_json_passes_whole(body: bytes) -> None:
    """The gate behind judges it, in whatever form it came; a body in pieces stays whole."""

    def pieces() -> Any:
        yield body[: len(body) // 2]
        yield body[len(body) // 2 :]

    assert client_of("browse").post("/mcp", content=pieces()).content == body


@pytest.mark.parametrize(
    "client", [client_of(*CLIENT_CAPABILITIES), client_of(known=False)], ids=["who lacks nothing", "who is not known"]
)
def test_others_are_not_read(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leafgate.server.auth.scope_layer._requests", lambda body: pytest.fail("it was read"))
    assert client.post("/mcp", json=call("tool_execute")).status_code == 200


def test_other_paths_are_not_its_business() -> None:
    assert client_of("operate").post("/api", json=call("tool_execute")).status_code == 200
