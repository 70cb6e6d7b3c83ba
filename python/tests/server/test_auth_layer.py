"""The layer that asks who comes: what each path needs, and what a refusal says. Tokens are real, the app is small."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from leafgate.model.rights import ANONYMOUS, EVERY_CAPABILITY
from leafgate.server.auth.bearer_tokens import (
    BearerTokens,
    TokenEntry,
    TooManyGuessesError,
    hash_secret,
    new_token,
    read_hash,
)
from leafgate.server.auth.capabilities import ScopeGrants, VerifiedToken, present_principal, principal_in
from leafgate.server.auth.layer import ASK_AGAIN_SECONDS, Auth, AuthLayer, ResourceMetadata, WhileKnown

PATHS = ["/", "/health", "/ready", "/mcp/server-card", "/mcp", "/sse", "/messages", "/status", "/metrics", "/api/x"]
PATHS += ["/.well-known/oauth-x", "/.well-known/x", "/.well-known/codec/maps/x"]
ANN, OPS = new_token(), new_token()


def entry(name: str, secret: str, *scopes: str) -> TokenEntry:
    return TokenEntry(name, read_hash(hash_secret(secret), "here"), scopes or None)


TOKENS = BearerTokens([entry("ann", ANN, "browse"), entry("ops", OPS)])
AUTH = Auth(TOKENS)


async def whoami(request: Request) -> JSONResponse:
    principal = principal_in(request.scope)
    assert present_principal() == principal
    return JSONResponse(None if principal is None else [principal.name, sorted(principal.capabilities)])


async def talk(socket: Any) -> None:
    await socket.accept()


def client_of(auth: Auth = AUTH) -> TestClient:
    routes = [Route(path, whoami, methods=["GET", "POST"]) for path in PATHS]
    return TestClient(AuthLayer(Starlette(routes=[*routes, WebSocketRoute("/ws", talk)]), lambda: auth))


def get(path: str, secret: str | None = None, auth: Auth = AUTH) -> Any:
    return client_of(auth).get(path, headers={} if secret is None else {"authorization": f"Bearer {secret}"})


@pytest.mark.parametrize("path", PATHS)
def test_what_is_open_and_what_is_not(path: str) -> None:
    is_open = path in ("/health", "/ready", "/mcp/server-card", "/.well-known/oauth-x")
    assert get(path).status_code == (200 if is_open else 401)
    assert get(path, new_token()).status_code == (200 if is_open else 401)
    for_clients = path in ("/mcp", "/sse", "/messages", "/.well-known/codec/maps/x")
    assert get(path, ANN).status_code == (200 if is_open or for_clients else 403)
    assert get(path, OPS).status_code == 200


@pytest.mark.parametrize(
    "path", ["/mcp/", "/Mcp", "//mcp", "/health/", "/health/../status", "/.well-known", "/nothing"]
)
def test_a_path_that_is_not_quite_another_is_for_operators(path: str) -> None:
    assert get(path).status_code == 401
    assert get(path, ANN).status_code == 403


def test_the_principal_is_handed_on() -> None:
    assert get("/mcp", ANN).json() == ["ann", ["browse"]]
    assert get("/mcp", OPS).json() == ["ops", sorted(EVERY_CAPABILITY)]
    assert get("/health", OPS).json() is None


def test_where_a_token_is_not_required_nobody_is_somebody() -> None:
    optional = Auth(TOKENS, required=False)
    assert get("/mcp", auth=optional).json() == [None, sorted(ANONYMOUS.capabilities)]
    assert get("/mcp", ANN, optional).json() == ["ann", ["browse"]]
    assert get("/mcp", new_token(), optional).status_code == 401
    assert get("/status", auth=optional).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_minds_no_case(scheme: str) -> None:
    assert client_of().get("/mcp", headers={"authorization": f"{scheme} {ANN}"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", "Bearer")],
        [("authorization", ANN)],
        [("authorization", "Digest x")],
        [("authorization", f"Bearer {ANN}"), ("authorization", f"Bearer {OPS}")],
        [("authorization", f"Bearer {ANN}"), ("authorization", "")],
        [("authorization", "Bearer " + "x" * 20_000)],
        [("authorization", "Basic " + base64.b64encode(f"ops:{OPS}".encode()).decode())],
    ],
)
def test_headers_that_are_not_one_token(headers: list[tuple[str, str]]) -> None:
    assert client_of().get("/mcp", headers=headers).status_code == 400


@pytest.mark.parametrize("query", ["access_token=x", "a=b&Access_Token=x", "access_token=", "access%5Ftoken=x"])
def test_a_token_in_a_url_is_refused(query: str) -> None:
    assert get(f"/mcp?{query}", ANN).status_code == 400
    assert get(f"/status?{query}", OPS).status_code == 400


def password(text: str | bytes) -> dict[str, str]:
    raw = text if isinstance(text, bytes) else text.encode()
    return {"authorization": f"Basic {base64.b64encode(raw).decode()}"}


def test_a_browser_may_show_the_token_as_a_password_where_it_only_reads() -> None:
    client = client_of()
    assert client.get("/", headers=password(f"x:{OPS}")).json()[0] == "ops"
    assert client.get("/", headers=password(f"x:{ANN}")).status_code == 403
    assert client.get("/", headers=password("x:wrong")).status_code == 401
    assert client.post("/status", headers=password(f"x:{OPS}")).status_code == 400
    for path in ("/mcp", "/sse"):
        assert client.get(path, headers=password(f"x:{OPS}")).status_code == 400


@pytest.mark.parametrize("value", [b"", b"no-colon", b"ops:", b"\xff\xfe:x"])
def test_a_password_that_cannot_be_read(value: bytes) -> None:
    assert client_of().get("/", headers=password(value)).status_code in (400, 401)


def test_nobody_comes_in_by_a_web_socket() -> None:
    with pytest.raises(WebSocketDisconnect), client_of().websocket_connect("/ws"):
        pass


def test_what_is_lacking_is_told() -> None:
    grants = ScopeGrants({"look": frozenset({"browse"}), "run": frozenset({"operate"})})
    metadata = ResourceMetadata(("https://issuer.test",), resource="https://gw.test/mcp")
    auth = Auth(BearerTokens([entry("ann", ANN, "look")]), grants=grants, metadata=metadata)
    where = 'resource_metadata="https://gw.test/.well-known/oauth-protected-resource/mcp"'
    refused = get("/status", ANN, auth)
    assert refused.status_code == 403
    assert refused.headers["www-authenticate"].endswith(f'scope="run", {where}')
    assert get("/mcp", auth=auth).headers["www-authenticate"] == f'Bearer realm="leafgate", scope="look", {where}'


def test_a_busy_checker_asks_for_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy(self: BearerTokens, secret: str) -> None:
        raise TooManyGuessesError

    monkeypatch.setattr(BearerTokens, "find", busy)
    answer = get("/mcp", ANN)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_rules_may_be_exchanged_while_it_runs() -> None:
    now = [AUTH]
    client = TestClient(AuthLayer(Starlette(routes=[Route("/mcp", whoami)]), lambda: now[0]))
    headers = {"authorization": f"Bearer {ANN}"}
    assert client.get("/mcp", headers=headers).status_code == 200
    now[0] = Auth(BearerTokens([]))
    assert client.get("/mcp", headers=headers).status_code == 401


def test_no_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = new_token()
    for secret in (ANN, wrong):
        get("/status", secret)
        get(f"/status?access_token={secret}")
    assert "refused at '/status'" in caplog.text
    own = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("leafgate"))
    assert ANN not in own
    assert wrong not in own


def test_a_path_cannot_write_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "leafgate.server")
    get("/x%0AINFO%20all%20is%20well")
    assert [record.getMessage() for record in caplog.records if record.name == "leafgate.server"] == [
        "refused at '/x\\nINFO all is well': a token is needed"
    ]


def test_a_jwt_cannot_take_the_name_of_a_token() -> None:
    class Verifier:
        """Believes everything: what is tested is what is done with a name that was verified."""

        async def verify(self, token: str) -> VerifiedToken:
            return VerifiedToken(token.split(".")[1], ())

    auth = Auth(TOKENS, jwt=Verifier())  # type: ignore[arg-type]  # as far as the layer goes
    assert get("/mcp", "eyJ.dora.x", auth).json()[0] == "dora"
    assert get("/mcp", "eyJ.ann.x", auth).status_code == 401


pytestmark = pytest.mark.anyio

STREAM: Message = {"type": "http.response.start", "status": 200, "headers": []}
WHOLE: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]}
END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


def part(text: str) -> Message:
    return {"type": "http.response.body", "body": text.encode(), "more_body": True}


class Client:
    """A client, the rules that it came in by, and what it was sent."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.rules: object = "as they were"
        self.now = 100.0
        self.known = True
        self.asked = 0
        self.answer = WhileKnown(({"type": "http"}, self.receive, self.send), self.present, self.refusal, self.clock)

    def present(self) -> object:
        return self.rules

    def clock(self) -> float:
        return self.now

    async def refusal(self) -> Response | None:
        self.asked += 1
        return None if self.known else PlainTextResponse("who are you?", 401)

    async def receive(self) -> Message:
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


async def test_while_nothing_changes_nobody_asks() -> None:
    client = Client()
    client.known = False
    for message in (STREAM, part("a"), part("b"), END):
        await client.answer.send(message)
    assert client.sent == [STREAM, part("a"), part("b"), END]
    assert client.asked == 0


async def test_a_stream_ends_when_its_client_is_known_no_longer() -> None:
    client = Client()
    await client.answer.send(STREAM)
    client.rules, client.known = "other ones", False
    for text in ("a", "b"):
        await client.answer.send(part(text))
    assert client.sent == [STREAM, END]
    assert client.asked == 1


async def test_an_answer_that_has_not_begun_becomes_a_refusal() -> None:
    for starts in (STREAM, WHOLE):
        client = Client()
        client.rules, client.known = "other ones", False
        for message in (starts, part("late")):
            await client.answer.send(message)
        assert [message.get("status") for message in client.sent] == [401, None]
        assert client.sent[1]["body"] == b"who are you?"


async def test_a_body_of_known_length_is_not_cut() -> None:
    client = Client()
    await client.answer.send(WHOLE)
    client.rules, client.known = "other ones", False
    await client.answer.send(part("done"))
    assert client.sent == [WHOLE, part("done")]


async def test_time_alone_is_a_reason_to_ask() -> None:
    """A token can expire without anybody changing a rule."""
    client = Client()
    await client.answer.send(STREAM)
    client.now += ASK_AGAIN_SECONDS / 2
    await client.answer.send(part("a"))
    assert client.asked == 0
    client.now += ASK_AGAIN_SECONDS
    await client.answer.send(part("b"))
    await client.answer.send(part("c"))
    assert client.asked == 1
    client.now, client.known = client.now + ASK_AGAIN_SECONDS, False
    await client.answer.send(part("d"))
    assert client.sent == [STREAM, part("a"), part("b"), part("c"), END]


async def test_who_is_known_by_other_rules_too_goes_on() -> None:
    client = Client()
    await client.answer.send(STREAM)
    client.rules = "other ones"
    for text in ("a", "b"):
        await client.answer.send(part(text))
    assert client.sent == [STREAM, part("a"), part("b")]
    assert client.asked == 1
