"""Keys out of a JWKS document: public ones for signatures, and only for the signatures that they can make."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from leafgate.model.errors import ConfigError
from leafgate.server.auth import jwt_verifier
from leafgate.server.auth.capabilities import TokenRefusedError, VerifiedToken
from leafgate.server.auth.jwt_verifier import (
    ASK_AGAIN_SECONDS,
    FRESH_SECONDS,
    KEY_TYPES,
    LEEWAY_SECONDS,
    MAX_DOCUMENT,
    MAX_TOKEN,
    STALE_SECONDS,
    JwtRules,
    JwtVerifier,
    KeysError,
    KeySet,
    KeySource,
    keys_of_file,
    keys_of_url,
    read_keys,
)

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SHORT = rsa.generate_private_key(public_exponent=65537, key_size=1024)


def rsa_key(key: Any = RSA, **more: Any) -> dict[str, Any]:
    return {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": "r", **more}


EC = {**json.loads(ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key())), "kid": "e"}
ED = {**json.loads(OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key())), "kid": "d"}
SHARED = {"kty": "oct", "kid": "o", "k": "c2VjcmV0", "alg": "HS256"}


def read(*keys: Any) -> KeySet:
    return read_keys(json.dumps({"keys": [*keys]}).encode())


@pytest.mark.parametrize(
    ("key", "makes"),
    [
        (rsa_key(), {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
        (rsa_key(alg="PS256"), {"PS256"}),
        (rsa_key(use="sig"), {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
        (EC, {"ES256"}),
        (ED, {"EdDSA"}),
    ],
)
def test_a_key_makes_what_it_can(key: dict[str, Any], makes: set[str]) -> None:
    keys = read(key)
    assert {name for name in KEY_TYPES if keys.find(key["kid"], name)} == makes
    assert keys.find("another", next(iter(makes))) is None


def test_a_private_key_is_reduced_to_its_public_half() -> None:
    document = {**json.loads(RSAAlgorithm.to_jwk(RSA)), "kid": "r"}
    found = read(document).find("r", "RS256")
    assert found is not None
    assert found.key.public_numbers() == RSA.public_key().public_numbers()
    assert not hasattr(found.key, "private_numbers")


@pytest.mark.parametrize(
    "key",
    [
        SHARED,
        rsa_key(use="enc"),
        rsa_key(alg="HS256"),
        rsa_key(alg="none"),
        rsa_key(alg="ES256"),
        rsa_key(alg=["RS256"]),
        rsa_key(SHORT),
        rsa_key(n="!!!"),
        rsa_key(n=7),
        {**EC, "crv": "secp256k1"},
        {**EC, "crv": "P-384"},
        {**EC, "x": "AAAA"},
        {"kty": "RSA"},
        {"kty": ["RSA"]},
        "RSA",
        None,
    ],
)
def test_other_keys_are_passed_over(key: Any) -> None:
    assert read(key, {**ED, "kid": "good"}).keys[0].kid == "good"
    with pytest.raises(KeysError):
        read(key)


def test_without_a_name_only_an_only_key_will_do() -> None:
    assert read(EC, rsa_key()).find(None, "ES256") is not None
    assert read(rsa_key(), rsa_key(kid="s")).find(None, "RS256") is None
    assert read(rsa_key(), rsa_key()).find("r", "RS256") is None


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b"\xff", b"[" * 100_000, b" " * (MAX_DOCUMENT + 1)],
)
def test_no_document(document: bytes) -> None:
    with pytest.raises(KeysError):
        read_keys(document)


pytestmark = pytest.mark.anyio


def document(*kids: str) -> bytes:
    public = json.loads(OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key()))
    return json.dumps({"keys": [{**public, "kid": kid} for kid in kids]}).encode()


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Server:
    """What it answers with next, and how often it was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.asked, self.headers = 200, document("one"), 0, {}
        self.url = ""


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked += 1
            self.send_response(server.status)
            for name, value in server.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(server.body)))
            self.end_headers()
            self.wfile.write(server.body)

        def log_message(self, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}/jwks"
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


async def kids(source: KeySource, *, again: bool = False) -> list[str | None]:
    return [key.kid for key in (await source.keys(again=again)).keys]


async def test_a_url_is_asked_once_while_its_keys_are_fresh() -> None:
    time = Time()
    with serving() as server:
        source = keys_of_url(server.url, clock=time)
        for _ in range(3):
            assert await kids(source) == ["one"]
        assert server.asked == 1
        server.body = document("two")
        time.now += FRESH_SECONDS
        assert await kids(source) == ["two"]
        assert server.asked == 2


async def test_an_unknown_key_makes_it_ask_again_but_not_often() -> None:
    time = Time()
    with serving() as server:
        source = keys_of_url(server.url, clock=time)
        await source.keys()
        server.body = document("one", "two")
        for _ in range(20):
            assert await kids(source, again=True) == ["one"]
        assert server.asked == 1
        time.now += ASK_AGAIN_SECONDS
        for _ in range(20):
            assert await kids(source, again=True) == ["one", "two"]
        assert server.asked == 2


async def test_many_at_once_ask_once() -> None:
    with serving() as server:
        source = keys_of_url(server.url)
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(source.keys)
        assert server.asked == 1


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (500, b"", {}),
        (302, b"", {"location": "/elsewhere"}),
        (200, b"<html>", {}),
        (200, b'{"keys": []}', {}),
        (200, b" " * (MAX_DOCUMENT + 1), {}),
    ],
)
async def test_a_failure_leaves_the_known_keys_for_a_day(status: int, body: bytes, headers: dict[str, str]) -> None:
    time = Time()
    with serving() as server:
        source = keys_of_url(server.url, clock=time)
        await source.keys()
        server.status, server.body, server.headers = status, body, headers
        time.now += FRESH_SECONDS
        assert await kids(source) == ["one"]
        assert server.asked == 2
        time.now += STALE_SECONDS
        assert await kids(source) == []


async def test_a_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt_verifier, "FETCH_SECONDS", 0.2)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        assert await kids(keys_of_url(f"http://127.0.0.1:{port}/jwks")) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/jwks",
        "http://10.0.0.1/jwks",
        "http://localhost.evil.example/jwks",
        "ftp://127.0.0.1/jwks",
        "https:///jwks",
        "https://user:secret@issuer.example/jwks",
    ],
)
def test_a_url_that_others_could_answer_for_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"auth\.jwt\.jwks") as raised:
        keys_of_url(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["https://issuer.example/jwks", "http://localhost:1/x", "http://[::1]:1/x"])
def test_a_url_that_is_taken(url: str) -> None:
    assert keys_of_url(url)


async def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    time, file = Time(), tmp_path / "jwks.json"
    file.write_bytes(document("one"))
    source = keys_of_file(file, clock=time)
    assert await kids(source) == ["one"]
    file.write_bytes(document("two"))
    assert await kids(source) == ["one"]
    time.now += 1
    assert await kids(source) == ["two"]
    file.write_bytes(b"half a docu")
    time.now += 1
    assert await kids(source) == ["two"]
    file.unlink()
    time.now += 1
    assert await kids(source) == ["two"]


async def test_a_file_that_is_not_there_opens_nothing(tmp_path: Path) -> None:
    assert await kids(keys_of_file(tmp_path / "none.json")) == []


EC_KEY = ec.generate_private_key(ec.SECP256R1())
KEYS = read_keys(
    json.dumps(
        {
            "keys": [
                {**json.loads(RSAAlgorithm.to_jwk(RSA.public_key())), "kid": "r"},
                {**json.loads(ECAlgorithm.to_jwk(EC_KEY.public_key())), "kid": "e"},
            ]
        }
    ).encode()
)
A_DAY = 86_400  # tokens are made when the tests are collected, and that may be long before they are run
RULES = JwtRules("https://issuer.test", ("https://gateway.test/mcp", "gateway"))


class Known:
    """A source whose keys come on the second asking, if told so."""

    def __init__(self, *, late: bool = False) -> None:
        self.late = late
        self.asked: list[bool] = []

    async def keys(self, *, again: bool = False) -> KeySet:
        self.asked.append(again)
        return KeySet() if self.late and not again else KEYS


def token(key: Any = RSA, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **changed: Any) -> str:
    now = int(time.time())
    claims = {"iss": "https://issuer.test", "aud": "gateway", "sub": "ann", "exp": now + 3600} | changed
    given = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(given, key, algorithm, headers={"kid": "r", **(headers or {})})


async def verified(given: str, rules: JwtRules = RULES) -> VerifiedToken:
    return await JwtVerifier(rules, Known()).verify(given)


@pytest.mark.parametrize(
    "make",
    [
        lambda now: token(),
        lambda now: token(aud="https://gateway.test/mcp"),
        lambda now: token(aud=["else", "gateway"]),
        lambda now: token(EC_KEY, "ES256", {"kid": "e"}),
        lambda now: token(exp=now - LEEWAY_SECONDS // 2),
        lambda now: token(nbf=now + LEEWAY_SECONDS // 2),
    ],
)
async def test_a_good_token(make: Callable[[int], str]) -> None:
    assert (await verified(make(int(time.time())))).name == "ann"


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "look work"}, ("look", "work")),
        ({"scope": ["look", 7, "work"]}, ("look", "work")),
        ({"scp": "look"}, ("look",)),
        ({"scp": ["look"]}, ("look",)),
        ({"scope": "", "scp": "look"}, ()),
        ({"scope": 7}, ()),
        ({}, ()),
    ],
)
async def test_scopes(claims: dict[str, Any], scopes: tuple[str, ...]) -> None:
    assert (await verified(token(**claims))).scopes == scopes


async def test_the_claim_that_names() -> None:
    by_mail = JwtRules(RULES.issuer, RULES.audience, principal_claim="email")
    assert (await verified(token(email="ann@example.org"), by_mail)).name == "ann@example.org"
    with pytest.raises(TokenRefusedError):
        await verified(token(), by_mail)


@pytest.mark.parametrize(
    "given",
    [
        token(exp=int(time.time()) - LEEWAY_SECONDS - 5),
        token(exp=None),
        token(exp="tomorrow"),
        token(exp=1e400),
        token(nbf=int(time.time()) + A_DAY),
        token(iat=int(time.time()) + A_DAY),
        token(iss="https://issuer.test/"),
        token(iss=None),
        token(aud="GATEWAY"),
        token(aud=[]),
        token(aud=None),
        token(aud=["else"]),
        token(sub=None),
        token(sub=""),
        token(sub=" ann"),
        token(sub="ann\n"),
        token(algorithm="RS512"),
        token(algorithm="PS256"),
        token(headers={"kid": "e"}),
        token(headers={"kid": "none"}),
        token(headers={"crit": ["b64"], "b64": False}),
        token(EC_KEY, "ES256"),
        token("k" * 64, "HS256"),
        token("", "none"),
        token(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        token()[:-8] + "AAAAAAAA",
        token().replace(".", "..", 1),
        token(extra="x" * MAX_TOKEN),
        "",
        "a.b.c",
        "....",
        "e30.e30.e30",
        "bnVsbA.bnVsbA.bnVsbA",
        "é.é.é",
    ],
)
async def test_a_bad_token(given: str) -> None:
    with pytest.raises(TokenRefusedError) as raised:
        await verified(given)
    assert not given or given not in str(raised.value)


async def test_a_key_that_is_not_known_yet_is_asked_for_once() -> None:
    source = Known(late=True)
    assert (await JwtVerifier(RULES, source).verify(token())).name == "ann"
    assert source.asked == [False, True]


async def test_a_token_that_cannot_be_ours_asks_for_no_key() -> None:
    source = Known()
    with pytest.raises(TokenRefusedError):
        await JwtVerifier(RULES, source).verify(token("", "none"))
    assert not source.asked


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+JWT", "application/okta-internal-at+jwt"])
async def test_a_token_for_access_may_say_so(kind: str) -> None:
    assert (await verified(token(headers={"typ": kind}))).name == "ann"


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt", "secevent+jwt", "JWE", "x", "cat+jwt", "id-jwt", "jwt+x"])
async def test_what_was_signed_for_something_else_opens_nothing(kind: str) -> None:
    with pytest.raises(TokenRefusedError, match="not understood"):
        await verified(token(headers={"typ": kind}))
