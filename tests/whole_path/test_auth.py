"""Who comes in over HTTP, and what each one has: a real gateway process, real tokens, real clients."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import jwt
import msgpack
import pytest
from backports import zstd
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from gateways import SERVERS, gateway_on_stdio, text_of
from guarded_gateway import (
    AUDIENCE,
    ISSUER,
    NOTES,
    Guarded,
    Handed,
    Issuer,
    bearer,
    guarded_gateway,
    handed,
    header_logging_server,
    serving_document,
    write_settings,
)
from mcp import Client, MCPError
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    handle_protected_resource_response,
)
from warm_python import PYTHON

from leafgate.maps.files import MapFiles
from leafgate.model.leaf import CODEC_META_KEY

pytestmark = pytest.mark.anyio

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}
ANN, BEN, CARA, RITA, OPS = (handed(name) for name in ("ann", "ben", "cara", "rita", "ops"))
ISSUED = Issuer()
OTHER_ISSUER = Issuer()
PRINCIPALS = {
    "ann": {"tools": {"include": ["alpha:*"]}},
    "ben": {"tools": {"exclude": ["alpha:*"]}, "rate_limits": {"tool_hydrate": {"max_calls_per_minute": 2}}},
    "cara": {"maps": ["openai/cl100k_base"]},
    "rita": {"tools": {"exclude": ["ref:static-binary", "ref:template", "ref:*prompt*"]}},
}
REFERENCE = {"command": PYTHON, "args": [str(SERVERS / "reference_server.py"), "--stdio"]}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Tokens of both kinds, and principals who see different tools and have different maps."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "jwks.json").write_text(ISSUED.document())
    settings = {
        "mcpServers": {"alpha": NOTES, "beta": NOTES, "ref": REFERENCE},
        "map": "qwen/qwen2",
        "auth": {
            "tokens": [who.entry() for who in (ANN, BEN, CARA, RITA, OPS)],
            "jwt": {"issuer": ISSUER, "audience": AUDIENCE, "jwks": "jwks.json"},
            "resource": AUDIENCE,
        },
        "principals": PRINCIPALS,
    }
    with guarded_gateway(folder, **settings) as running:
        yield running


def challenge_of(response: httpx2.Response) -> str:
    return response.headers["www-authenticate"]


async def ids_at(client: Client, path: str) -> dict[str, str]:
    page = text_of(await client.call_tool("tool_browse", {"path": path}))
    return {line.split(":")[1].split("#")[0]: line.split(" ")[0] for line in page.splitlines()}


async def error_of(client: Client, tool: str, **args: Any) -> dict[str, Any]:
    answered = await client.call_tool(tool, args)
    assert answered.is_error
    return json.loads(text_of(answered))


def soon(happens: Callable[[], bool]) -> bool:
    """Whether it happens within a minute."""
    for _ in range(600):
        if happens():
            return True
        time.sleep(0.1)
    return False


# Nobody comes in unknown


def test_without_a_token_the_way_to_one_is_told(gateway: Guarded) -> None:
    refused = gateway.post(INITIALIZE)
    assert refused.status_code == 401
    where = "https://gateway.test/.well-known/oauth-protected-resource/mcp"
    assert challenge_of(refused) == f'Bearer realm="leafgate", resource_metadata="{where}"'
    assert refused.headers["cache-control"] == "no-store"


async def test_the_sdks_own_client_finds_the_way(scoped: Scoped) -> None:
    gateway = scoped.gateway
    refused = gateway.post(INITIALIZE)
    told = extract_resource_metadata_from_www_auth(refused)
    assert extract_scope_from_www_auth(refused) == "look work"
    places = build_protected_resource_metadata_discovery_urls(told, f"{gateway.url}/mcp")
    for place in places:
        found = await handle_protected_resource_response(httpx2.get(place))
        assert found is not None
        assert str(found.resource) == f"{gateway.url}/mcp"
        assert [str(server).rstrip("/") for server in found.authorization_servers] == [ISSUER]


@pytest.mark.parametrize("path", ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"])
def test_the_metadata_is_open(gateway: Guarded, path: str) -> None:
    assert gateway.get(path).json() == {
        "resource": AUDIENCE,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
    }


@pytest.mark.parametrize("path", ["/mcp/server-card", "/.well-known/mcp/server-card.json"])
def test_the_server_card_is_open_and_names_nothing_behind_the_gateway(gateway: Guarded, path: str) -> None:
    answer = gateway.get(path)
    card = answer.json()
    assert answer.headers["content-type"] == "application/mcp-server-card+json"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert card.keys() == {"$schema", "name", "version", "title", "description", "remotes"}
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", card["name"])
    assert len(card["description"]) <= 100
    (remote,) = card["remotes"]
    assert (remote["type"], remote["url"]) == ("streamable-http", AUDIENCE)
    assert {"2025-11-25", "2026-07-28"} <= {*remote["supportedProtocolVersions"]}
    assert [(header["name"], header["isSecret"]) for header in remote["headers"]] == [("Authorization", True)]
    assert "notes" not in answer.text


def unsigned() -> str:
    return jwt.encode(ISSUED.claims(), "", "none")


def signed_with_the_public_key() -> str:
    """The classic: a server that lets the token choose its algorithm takes its own public key for a shared secret."""
    public = ISSUED.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    head = part({"alg": "HS256", "typ": "JWT", "kid": ISSUED.kid}) + b"." + part(ISSUED.claims())
    tag = hmac.digest(public, head, hashlib.sha256)
    return (head + b"." + base64.urlsafe_b64encode(tag).rstrip(b"=")).decode()


REFUSED = {
    "a wrong token": lambda: handed("ann").secret,
    "a token with more behind it": lambda: ANN.secret + "x",
    "the hash of a token": lambda: ANN.entry()["hash"],
    "expired": lambda: ISSUED.token(exp=1_600_000_000, nbf=1_500_000_000, iat=1_500_000_000),
    "without an expiry": lambda: ISSUED.token(exp=None),
    "not valid yet": lambda: ISSUED.token(nbf=4_000_000_000, exp=4_000_000_600),
    "for somebody else": lambda: ISSUED.token(aud="https://elsewhere.test/mcp"),
    "for nobody": lambda: ISSUED.token(aud=None),
    "of another issuer": lambda: ISSUED.token(iss="https://elsewhere.test"),
    "of no issuer": lambda: ISSUED.token(iss=None),
    "without a subject": lambda: ISSUED.token(sub=None),
    "with the name of a token's owner": lambda: ISSUED.token(sub="ann"),
    "with an unknown key": lambda: ISSUED.token(headers={"kid": "two"}),
    "signed by somebody else": OTHER_ISSUER.token,
    "not signed": unsigned,
    "signed with the public key as a secret": signed_with_the_public_key,
    "signed with a shared secret": lambda: jwt.encode(ISSUED.claims(), "k" * 64, "HS256", headers={"kid": ISSUED.kid}),
    "with a critical header": lambda: ISSUED.token(headers={"crit": ["exp"]}),
    "with its last letter changed": lambda: ISSUED.token()[:-6] + "AAAAAA",
    "nonsense": lambda: "eyJ.eyJ.eyJ",
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_bad_token_is_refused(gateway: Guarded, why: str) -> None:
    secret = REFUSED[why]()
    refused = gateway.post(INITIALIZE, secret)
    assert refused.status_code == 401
    assert 'error="invalid_token"' in challenge_of(refused)
    assert "resource_metadata=" in challenge_of(refused)
    assert secret not in refused.text
    assert gateway.get("/status", secret).status_code == 401


def test_a_good_token_comes_in(gateway: Guarded) -> None:
    for secret in (ANN.secret, ISSUED.token(), ISSUED.token(aud=["https://x.test", AUDIENCE])):
        assert gateway.post(INITIALIZE, secret).status_code == 200


def test_a_token_has_no_place_in_a_url(gateway: Guarded) -> None:
    refused = gateway.get(f"/mcp?access_token={ANN.secret}", ANN.secret)
    assert refused.status_code == 400
    assert 'error="invalid_request"' in challenge_of(refused)


@pytest.mark.parametrize("given", ["Bearer", "Basic YW5uOng=", "Negotiate abc", "lg_only"])
def test_an_odd_header_is_refused(gateway: Guarded, given: str) -> None:
    assert gateway.post(INITIALIZE, authorization=given).status_code == 400


def test_no_secret_is_in_the_log_or_the_status(gateway: Guarded) -> None:
    wrong = handed("nobody").secret
    gateway.post(INITIALIZE, wrong)
    good = ISSUED.token()
    gateway.post(INITIALIZE, good)
    log, status = gateway.log.read_text(), gateway.get("/status", OPS.secret).text
    for secret in (ANN.secret, BEN.secret, OPS.secret, wrong, good, ANN.entry()["hash"]):
        assert secret not in log
        assert secret not in status


# Each for themselves


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_each_sees_their_own_tools(gateway: Guarded, mode: str) -> None:
    async with gateway.client(ANN.secret, mode) as ann, gateway.client(BEN.secret, mode) as ben:
        top = text_of(await ann.call_tool("tool_browse", {"path": "/"}))
        assert top.startswith("/alpha")
        assert "4 tools" in top
        assert "beta" not in top
        found = text_of(await ann.call_tool("tool_browse", {"query": "search the notes", "top_k": 50}))
        assert "alpha:search_notes" in found
        assert "beta:" not in found
        found = text_of(await ben.call_tool("tool_browse", {"query": "search the notes", "top_k": 50}))
        assert "beta:search_notes" in found
        assert "alpha:" not in found
        described = {tool.name: tool.description for tool in (await ann.list_tools()).tools}
        assert "4 tools of the servers alpha." in described["tool_browse"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_is_not_seen_does_not_exist(gateway: Guarded, mode: str) -> None:
    async with gateway.client(ANN.secret, mode) as ann, gateway.client(BEN.secret, mode) as ben:
        theirs = (await ids_at(ben, "/beta"))["search_notes"]
        unknown = theirs.replace("search_notes", "starch_notes")
        for tool, args in (("tool_hydrate", {}), ("tool_execute", {"args": {"query": "rye"}})):
            hidden = await error_of(ann, tool, tool_id=theirs, **args)
            never = await error_of(ann, tool, tool_id=unknown, **args)
            assert hidden == never | {"path": theirs}
        hidden, never = [await error_of(ann, "tool_browse", path=path) for path in ("/beta", "/zeta")]
        assert hidden["error"] == never["error"] == "PATH_NOT_FOUND"
        assert hidden["details"] == never["details"]


async def test_a_handle_is_its_owners(gateway: Guarded) -> None:
    async with gateway.client(ANN.secret) as ann, gateway.client(ISSUED.token()) as dora:
        exported = await ann.call_tool("tool_execute", {"tool_id": (await ids_at(ann, "/alpha"))["export_notes"]})
        (kept,) = exported.meta["leafgate/envelope"]["artifacts"]
        view = {"handle": kept["handle"], "selector": {"type": "lines", "start": 7, "end": 7}}
        stolen = await error_of(dora, "tool_view", **view)
        forged = await error_of(dora, "tool_view", **view | {"handle": "0" * len(kept["handle"])})
        assert stolen == forged | {"path": kept["handle"]}
        assert text_of(await ann.call_tool("tool_view", view)).startswith("7\t")
    for mode in ("auto", "legacy"):
        async with gateway.client(ANN.secret, mode) as another:
            assert text_of(await another.call_tool("tool_view", view)).startswith("7\t")


async def test_limits_are_counted_for_each(gateway: Guarded) -> None:
    async with gateway.client(BEN.secret) as ben, gateway.client(ANN.secret) as ann:
        theirs, hers = (await ids_at(ben, "/beta"))["read_note"], (await ids_at(ann, "/alpha"))["read_note"]
        for _ in range(2):
            assert not (await ben.call_tool("tool_hydrate", {"tool_id": theirs})).is_error
        async with gateway.client(BEN.secret) as again:
            assert (await error_of(again, "tool_hydrate", tool_id=theirs))["error"] == "RATE_LIMITED"
        for _ in range(3):
            assert not (await ann.call_tool("tool_hydrate", {"tool_id": hers})).is_error


def test_a_session_is_its_openers(gateway: Guarded) -> None:
    session = gateway.post(INITIALIZE, ANN.secret).headers["mcp-session-id"]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    stolen = gateway.post(ping, BEN.secret, **{"mcp-session-id": session})
    never = gateway.post(ping, BEN.secret, **{"mcp-session-id": "0" * len(session)})
    assert (stolen.status_code, stolen.text) == (never.status_code, never.text) == (404, never.text)
    assert gateway.post(ping, ANN.secret, **{"mcp-session-id": session}).status_code == 200


@pytest.fixture(scope="module")
def passing_through(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Where tools are listed as they are."""
    settings = {
        "mode": "passthrough",
        "auth": {"tokens": [ANN.entry(), OPS.entry()]},
        "principals": {"ann": PRINCIPALS["ann"]},
        "policy": {"rules": [{"effect": "deny", "tool": "count_notes", "principal": "ann"}, {"effect": "allow"}]},
    }
    with guarded_gateway(tmp_path_factory.mktemp("passing"), **settings) as running:
        yield running


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_where_tools_are_listed_each_has_their_own_list(passing_through: Guarded, protocol: str) -> None:
    async with passing_through.client(ANN.secret, protocol) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed == ["tool_view", "search_notes", "read_note", "export_notes"]
        read = await client.call_tool("read_note", {"number": 7})
        assert read.structured_content["number"] == 7
        never = await refusal_of(client.call_tool("never_heard_of", {"number": 7}))
        for theirs in ("beta__read_note", "alpha__read_note"):
            assert await refusal_of(client.call_tool(theirs, {"number": 7})) == never
        assert (await error_of(client, "count_notes"))["error"] == "PERMISSION_DENIED"
    async with passing_through.client(OPS.secret, protocol) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert {"alpha__read_note", "beta__read_note", "beta__count_notes"} <= {*listed}


def test_each_may_ask_for_their_own_maps(gateway: Guarded) -> None:
    maps = MapFiles()
    qwen, cl100k = (maps.find(name).digest for name in ("qwen/qwen2", "openai/cl100k_base"))
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "tool_browse", "arguments": {"path": "/"}},
    }

    def answer(who: Handed, **headers: str) -> str:
        session = gateway.post(INITIALIZE, who.secret).headers["mcp-session-id"]
        return gateway.post(call, who.secret, **{"mcp-session-id": session}, **headers).text

    assert qwen in answer(BEN)
    assert CODEC_META_KEY not in answer(CARA)
    assert cl100k in answer(CARA, **{"x-codec-map": cl100k})
    refused = answer(CARA, **{"x-codec-map": qwen})
    assert "ARGS_INVALID" in refused
    assert "this gateway has no map" in refused


async def refusal_of(work: Awaitable[Any]) -> tuple[int, str]:
    with pytest.raises(MCPError) as raised:
        await work
    return raised.value.error.code, raised.value.error.message


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_resources_and_prompts_are_hidden_in_the_same_way(gateway: Guarded, protocol: str) -> None:
    async with gateway.client(OPS.secret, protocol) as client:
        (prompt, *_) = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert (await client.list_resource_templates()).resource_templates
        assert (await client.read_resource("test://static-binary")).contents
    async with gateway.client(RITA.secret, protocol) as client:
        assert await client.call_tool("resource_browse", {"path": "/"})
        names = {resource.name for resource in (await client.list_resources()).resources}
        assert names == {"static-text", "watched-resource"}
        assert not (await client.list_resource_templates()).resource_templates
        assert not (await client.list_prompts()).prompts
        assert (await client.read_resource("test://static-text")).contents
        never = await refusal_of(client.read_resource("test://never"))
        for hidden in ("test://static-binary", "test://template/7/data"):
            assert await refusal_of(client.read_resource(hidden)) == never
        assert await refusal_of(client.get_prompt(prompt)) == await refusal_of(client.get_prompt("never"))
        if protocol == "legacy":
            await client.subscribe_resource("test://watched-resource")
            never = await refusal_of(client.subscribe_resource("test://never"))
            assert await refusal_of(client.subscribe_resource("test://static-binary")) == never
    async with gateway.client(ANN.secret, protocol) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed == {"tool_browse", "tool_hydrate", "tool_execute", "tool_view"}
        assert not (await client.list_resources()).resources


# What is for operators


@pytest.mark.parametrize("path", ["/status", "/metrics", "/api/metrics", "/nothing-here"])
def test_what_is_for_operators_is_not_for_everybody(gateway: Guarded, path: str) -> None:
    assert gateway.get(path).status_code == 401
    refused = gateway.get(path, ISSUED.token())
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in challenge_of(refused)
    assert gateway.get(path, OPS.secret).status_code in (200, 404)


def test_a_browser_is_asked_for_the_token(gateway: Guarded) -> None:
    asked = gateway.get("/status").headers.get_list("www-authenticate")
    assert any(value.startswith("Basic ") for value in asked)
    password = base64.b64encode(f"whoever:{OPS.secret}".encode()).decode()
    assert gateway.get("/status", authorization=f"Basic {password}").status_code == 200
    assert gateway.post(INITIALIZE, authorization=f"Basic {password}").status_code == 400
    assert "Basic" not in challenge_of(gateway.post(INITIALIZE))


async def test_the_status_over_mcp_is_for_operators_too(gateway: Guarded) -> None:
    status = {"jsonrpc": "2.0", "id": 3, "method": "leafgate/status", "params": {}}
    for who, told in ((ISSUED.token(), False), (OPS.secret, True)):
        session = gateway.post(INITIALIZE, who).headers["mcp-session-id"]
        answer = gateway.post(status, who, **{"mcp-session-id": session})
        assert ("upstreams" in answer.text) is told


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_that_it_lives_is_told_to_everybody(gateway: Guarded, path: str) -> None:
    answer = gateway.get(path)
    assert answer.status_code == 200
    assert "alpha" not in answer.text


# Scopes


@dataclass(frozen=True)
class Scoped:
    """A gateway whose tokens have scopes, whose signing keys are at a URL, and which has servers over HTTP."""

    gateway: Guarded
    who: dict[str, Handed]
    headers_seen: Path


@pytest.fixture(scope="module")
def scoped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scoped]:
    folder = tmp_path_factory.mktemp("scoped")
    who = {"reader": handed("reader", "look"), "worker": handed("worker", "look", "work")}
    with serving_document(ISSUED.document()) as keys, header_logging_server(folder) as (url, seen):
        auth = {
            "tokens": [each.entry() for each in who.values()],
            "jwt": {"issuer": ISSUER, "audience": [AUDIENCE], "jwks": keys},
            "scopes": {"look": ["browse"], "work": ["execute", "view"], "run": ["operate"]},
        }
        own = {"Authorization": "Bearer the-servers-own"}
        servers = {"alpha": NOTES, "web": {"url": url, "headers": own}, "bare": {"url": url}}
        with guarded_gateway(folder, mcpServers=servers, auth=auth) as running:
            yield Scoped(running, who, seen)


async def test_keys_that_are_fetched_from_a_url(scoped: Scoped) -> None:
    assert scoped.gateway.post(INITIALIZE, OTHER_ISSUER.token(scope="look")).status_code == 401
    async with scoped.gateway.client(ISSUED.token(scope="look")) as client:
        assert "search_notes" in await ids_at(client, "/alpha")


async def test_scopes_allow_what_they_say(scoped: Scoped) -> None:
    gateway, who = scoped.gateway, scoped.who
    async with gateway.client(who["worker"].secret) as worker:
        found = await ids_at(worker, "/alpha")
        counted = await worker.call_tool("tool_execute", {"tool_id": found["count_notes"]})
        assert not counted.is_error
    async with gateway.client(who["reader"].secret) as reader:
        assert (await ids_at(reader, "/alpha")) == found
        with pytest.raises(MCPError):
            await reader.call_tool("tool_execute", {"tool_id": found["count_notes"]})


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "tool_execute", "arguments": {"tool_id": "x"}}),
        ("tools/call", {"name": "tool_view", "arguments": {"handle": "x"}}),
        ("tools/call", {"name": "anything"}),
        ("resources/read", {"uri": "file:///x"}),
        ("prompts/get", {"name": "x"}),
        ("something/new", {}),
    ],
)
def test_what_they_do_not_say_is_forbidden(scoped: Scoped, method: str, params: dict[str, Any]) -> None:
    gateway, who = scoped.gateway, scoped.who
    session = gateway.post(INITIALIZE, who["reader"].secret).headers["mcp-session-id"]
    body = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
    refused = gateway.post(body, who["reader"].secret, **{"mcp-session-id": session})
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in challenge_of(refused)
    assert 'scope="work"' in challenge_of(refused)


PACKED_AS: dict[str, Callable[[bytes], bytes]] = {"identity": bytes, "gzip": gzip.compress, "zstd": zstd.compress}
STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.parametrize("encoding", PACKED_AS)
@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_packed_body_is_judged_too(scoped: Scoped, encoding: str, era: str) -> None:
    """The same bytes, of somebody who may execute and of somebody who may not."""
    gateway, who = scoped.gateway, scoped.who
    async with gateway.client(who["worker"].secret) as worker:
        arguments = {"tool_id": (await ids_at(worker, "/alpha"))["count_notes"]}
    params = {"name": "tool_execute", "arguments": arguments}
    params |= {"_meta": STATELESS} if era == "stateless" else {}
    body = msgpack.packb({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
    headers = {
        "content-type": "application/x-codec-msgpack",
        "content-encoding": encoding,
        "accept": "application/json, text/event-stream",
    }
    modern = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "tool_execute"}

    def sent_by(name: str) -> httpx2.Response:
        secret = who[name].secret
        if era == "handshake":
            mine = {"mcp-session-id": gateway.post(INITIALIZE, secret).headers["mcp-session-id"]}
        else:
            mine = modern
        packed = PACKED_AS[encoding](body)
        return httpx2.post(f"{gateway.url}/mcp", content=packed, headers=headers | mine | bearer(secret), timeout=30)

    executed = sent_by("worker")
    assert executed.status_code == 200
    assert "2000" in executed.text
    refused = sent_by("reader")
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in challenge_of(refused)
    assert 'scope="work"' in challenge_of(refused)
    assert "2000" not in refused.text


@pytest.mark.parametrize(
    ("scopes", "initialized", "browsed", "status"),
    [("look", 200, 200, 403), ("look run", 200, 200, 200), ("", 200, 403, 403), ("LOOK", 200, 403, 403)],
)
def test_a_jwt_brings_its_scopes(scoped: Scoped, scopes: str, initialized: int, browsed: int, status: int) -> None:
    gateway = scoped.gateway
    token = ISSUED.token(scope=scopes)
    opened = gateway.post(INITIALIZE, token)
    assert opened.status_code == initialized
    listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
    assert gateway.post(listed, token, **session).status_code == browsed
    assert gateway.get("/status", token).status_code == status


def test_the_scopes_to_ask_for_are_told(scoped: Scoped) -> None:
    gateway = scoped.gateway
    assert 'scope="look work"' in challenge_of(gateway.post(INITIALIZE))
    told = gateway.get("/.well-known/oauth-protected-resource").json()
    assert told["scopes_supported"] == ["look", "work", "run"]
    assert told["resource"] == f"{gateway.url}/mcp"


# What the file says while the gateway runs


@dataclass(frozen=True)
class Followed:
    """A gateway and its file. Each test writes settings with tokens of its own first."""

    gateway: Guarded
    folder: Path

    def follow(self, known: Handed, **settings: Any) -> None:
        """The gateway goes by these settings, one of whose tokens is known."""
        write_settings(self.folder, **settings)
        assert soon(lambda: self.gateway.post(INITIALIZE, known.secret).status_code == 200)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    folder = tmp_path_factory.mktemp("followed")
    with guarded_gateway(folder, auth={"tokens": [handed("first").entry()]}) as running:
        yield Followed(running, folder)


def test_a_token_that_is_taken_back_is_good_no_longer(followed: Followed) -> None:
    running, (ann, ben) = followed.gateway, (handed("ann"), handed("ben"))
    followed.follow(ann, auth={"tokens": [ann.entry(), ben.entry()]})
    session = running.post(INITIALIZE, ann.secret).headers["mcp-session-id"]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert running.post(ping, ann.secret, **{"mcp-session-id": session}).status_code == 200
    write_settings(followed.folder, auth={"tokens": [ben.entry()]})
    assert soon(lambda: running.post(ping, ann.secret, **{"mcp-session-id": session}).status_code == 401)
    assert running.post(INITIALIZE, ben.secret).status_code == 200
    write_settings(followed.folder)  # to switch auth off takes a restart; until then the last tokens hold
    assert soon(lambda: "needs a restart to take effect: auth" in running.log.read_text())
    assert running.post(INITIALIZE).status_code == 401
    assert running.post(INITIALIZE, ann.secret).status_code == 401
    assert running.post(INITIALIZE, ben.secret).status_code == 200


def test_a_stream_ends_with_its_token(followed: Followed) -> None:
    running, (ann, ben) = followed.gateway, (handed("ann"), handed("ben"))
    followed.follow(ann, auth={"tokens": [ann.entry(), ben.entry()]})

    def listening(who: Handed) -> Any:
        session = running.post(INITIALIZE, who.secret).headers["mcp-session-id"]
        listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert running.post(listed, who.secret, **{"mcp-session-id": session}).status_code == 200
        headers = {"accept": "text/event-stream", "mcp-session-id": session}
        return httpx2.stream("GET", f"{running.url}/mcp", headers=headers | bearer(who.secret), timeout=60)

    with listening(ann) as hers, listening(ben) as his:
        # Ann's token goes, and something changes that both would hear of.
        servers = {"alpha": NOTES, "beta": NOTES, "gamma": NOTES}
        write_settings(followed.folder, auth={"tokens": [ben.entry()]}, mcpServers=servers)
        assert any("list_changed" in line for line in his.iter_lines())
        assert "list_changed" not in "".join(hers.iter_lines())


def test_the_way_to_a_token_follows_the_file(followed: Followed) -> None:
    running, ann = followed.gateway, handed("ann")
    (followed.folder / "jwks.json").write_text(ISSUED.document())
    where = "/.well-known/oauth-protected-resource/mcp"
    followed.follow(ann, auth={"tokens": [ann.entry()]})
    assert running.get(where).status_code == 404
    for issuer in (ISSUER, "https://another.test"):
        jwt_section = {"issuer": issuer, "audience": AUDIENCE, "jwks": "jwks.json"}
        write_settings(followed.folder, auth={"tokens": [ann.entry()], "jwt": jwt_section})
        token = ISSUED.token(iss=issuer)
        assert soon(lambda token=token: running.post(INITIALIZE, token).status_code == 200)
        assert f'resource_metadata="{running.url}{where}"' in challenge_of(running.post(INITIALIZE))
        assert running.get(where).json()["authorization_servers"] == [issuer]


async def test_a_limit_is_not_forgotten_when_the_file_changes(followed: Followed) -> None:
    running, (ann, ben) = followed.gateway, (handed("ann"), handed("ben"))
    limited = {"rate_limits": {"tool_hydrate": {"max_calls_per_session": 1}}}
    followed.follow(ann, auth={"tokens": [ann.entry()]}, principals={"ann": limited})
    async with running.client(ann.secret) as client:
        tool = (await ids_at(client, "/alpha"))["read_note"]
        assert not (await client.call_tool("tool_hydrate", {"tool_id": tool})).is_error
        principals = {"ann": limited | {"tools": {"exclude": ["beta:*"]}}}
        followed.follow(ben, auth={"tokens": [ann.entry(), ben.entry()]}, principals=principals)
        assert "beta" not in text_of(await client.call_tool("tool_browse", {"path": "/"}))
        assert (await error_of(client, "tool_hydrate", tool_id=tool))["error"] == "RATE_LIMITED"


# Strangers, other transports, other servers


def test_a_foreign_host_is_misdirected_and_a_foreign_page_forbidden(gateway: Guarded) -> None:
    for path in ("/mcp", "/health", "/status", "/.well-known/oauth-protected-resource"):
        assert gateway.get(path, ANN.secret, host="evil.example").status_code == 421
        assert gateway.get(path, ANN.secret, origin="https://evil.example").status_code == 403


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_clients_token_goes_no_further(scoped: Scoped, mode: str) -> None:
    secret = scoped.who["worker"].secret
    async with scoped.gateway.client(secret, mode) as client:
        for path in ("/web", "/bare"):
            echo = (await ids_at(client, path))["echo"]
            said = await client.call_tool("tool_execute", {"tool_id": echo, "args": {"text": "hello"}})
            assert text_of(said) == "hello"
    lines = scoped.headers_seen.read_text()
    requests = [json.loads(line) for line in lines.splitlines()]
    assert {request.get("authorization") for request in requests} == {None, "Bearer the-servers-own"}
    assert secret not in lines


async def test_sse_is_guarded_in_the_same_way(tmp_path: Path) -> None:
    ann, ben = handed("ann"), handed("ben")
    auth = {"tokens": [ann.entry(), ben.entry()]}
    with guarded_gateway(tmp_path, transport="sse", auth=auth, principals={"ann": PRINCIPALS["ann"]}) as running:
        assert "/sse" in running.announced
        assert running.get("/sse").status_code == 401
        assert running.get("/sse", handed("ann").secret).status_code == 401
        assert running.get("/sse", ann.secret, host="evil.example").status_code == 421
        assert running.get("/sse", ann.secret, origin="https://evil.example").status_code == 403
        async with running.sse_client(ann.secret) as client:
            found = await ids_at(client, "/alpha")
            counted = await client.call_tool("tool_execute", {"tool_id": found["count_notes"]})
            assert "2000" in text_of(counted)
            assert "beta" not in text_of(await client.call_tool("tool_browse", {"path": "/"}))
        with httpx2.stream("GET", f"{running.url}/sse", headers={"authorization": f"Bearer {ann.secret}"}) as stream:
            lines = stream.iter_lines()  # held on to: without it the stream ends
            endpoint = next(line for line in lines if line.startswith("data: "))[6:]
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

            def post(who: Handed) -> int:
                headers = {"authorization": f"Bearer {who.secret}"}
                return httpx2.post(f"{running.url}{endpoint}", json=ping, headers=headers).status_code

            assert (post(ben), post(ann)) == (404, 202)


async def test_sse_without_auth_keeps_clients_apart_if_the_operator_says_so(tmp_path: Path) -> None:
    with guarded_gateway(tmp_path, transport="sse", owner="session", mcpServers={"alpha": NOTES}) as running:
        async with running.sse_client(None) as one, running.sse_client(None) as two:
            exported = await one.call_tool("tool_execute", {"tool_id": (await ids_at(one, "/alpha"))["export_notes"]})
            (kept,) = exported.meta["leafgate/envelope"]["artifacts"]
            view = {"handle": kept["handle"], "selector": {"type": "lines", "start": 7, "end": 7}}
            assert text_of(await one.call_tool("tool_view", view)).startswith("7\t")
            assert (await error_of(two, "tool_view", **view))["error"] == "VIEW_FAILED"


async def test_stdio_asks_nobody(tmp_path: Path) -> None:
    file = tmp_path / "leafgate.yaml"
    settings = {
        "mcpServers": {"alpha": NOTES},
        "auth": {"tokens": [handed("ann").entry()]},
        "principals": {"*": {"tools": {"exclude": ["*"]}}},
    }
    file.write_text(json.dumps(settings))
    async with gateway_on_stdio("--config", str(file)) as client:
        found = await ids_at(client, "/alpha")
        assert not (await client.call_tool("tool_execute", {"tool_id": found["count_notes"]})).is_error


# Listening where others can reach it


@pytest.mark.parametrize(("host", "is_optional"), [("0.0.0.0", False), ("0.0.0.0", True), ("::", False)])
def test_an_open_address_wants_auth(tmp_path: Path, host: str, is_optional: bool) -> None:
    settings = {"auth": {"tokens": [ANN.entry()], "required": False}} if is_optional else {}
    with (
        pytest.raises(AssertionError, match="configure auth, or insist"),
        guarded_gateway(tmp_path, "--host", host, **settings),
    ):
        pass


@pytest.fixture(scope="module")
def open_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """A gateway that other machines can reach."""
    folder = tmp_path_factory.mktemp("open")
    settings = {"auth": {"tokens": [ANN.entry()]}, "allowed_hosts": ["gateway.test"], "mcpServers": {"alpha": NOTES}}
    with guarded_gateway(folder, "--host", "0.0.0.0", **settings) as running:
        yield Followed(running, folder)


def test_with_auth_it_listens_there(open_address: Followed) -> None:
    running = open_address.gateway
    port = running.url.rpartition(":")[2]
    for host, status in (
        ("gateway.test", 200),
        (f"gateway.test:{port}", 200),
        ("localhost", 200),
        ("gateway.test.evil.example", 421),
        ("evil.example", 421),
        (f"192.0.2.1:{port}", 421),
    ):
        assert running.get("/health", host=host).status_code == status
    assert running.get("/health", origin="https://gateway.test").status_code == 200
    assert running.get("/health", origin="https://evil.example").status_code == 403
    assert running.post(INITIALIZE).status_code == 401
    assert running.post(INITIALIZE, ANN.secret).status_code == 200
    # What is announced can be pasted: with the address, the token and the file that it takes.
    assert f'"url": "http://127.0.0.1:{port}/mcp"' in running.announced
    assert '"Authorization": "Bearer YOUR-TOKEN"' in running.announced
    assert f'"{open_address.folder / "leafgate.yaml"}"' in running.announced


def test_an_open_address_is_not_opened_to_strangers_by_a_reload(open_address: Followed) -> None:
    write_settings(open_address.folder, auth={"tokens": [ANN.entry()], "required": False})
    assert soon(lambda: "the gateway keeps the previous one" in open_address.gateway.log.read_text())
    assert open_address.gateway.post(INITIALIZE).status_code == 401


def test_an_operator_may_insist(tmp_path: Path) -> None:
    with guarded_gateway(tmp_path, "--host", "0.0.0.0", "--insecure-bind", mcpServers={"alpha": NOTES}) as running:
        assert running.get("/status").status_code == 200


def test_ipv6(tmp_path: Path) -> None:
    settings = {"auth": {"tokens": [ANN.entry()]}, "mcpServers": {"alpha": NOTES}}
    with guarded_gateway(tmp_path, "--host", "::1", **settings) as running:
        assert running.url.startswith("http://[::1]:")
        assert running.post(INITIALIZE).status_code == 401
        assert running.post(INITIALIZE, ANN.secret).status_code == 200
        assert running.get("/health", host="[::2]").status_code == 421
