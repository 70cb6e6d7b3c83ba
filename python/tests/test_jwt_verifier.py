"""JWTs: one good one, and the many ways to be a bad one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from leafgate.server.auth.jwt_verifier import (
    LEEWAY_SECONDS,
    MAX_TOKEN,
    JwtRules,
    JwtVerifier,
)
from leafgate.server.auth.signing_keys import KeySet, read_keys
from leafgate.server.auth.verified import TokenRefusedError, VerifiedToken

pytestmark = pytest.mark.anyio

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
KEYS = read_keys(
    json.dumps(
        {
            "keys": [
                {**json.loads(RSAAlgorithm.to_jwk(RSA.public_key())), "kid": "r"},
                {**json.loads(ECAlgorithm.to_jwk(EC.public_key())), "kid": "e"},
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
        lambda now: token(EC, "ES256", {"kid": "e"}),
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
        token(EC, "ES256"),
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
