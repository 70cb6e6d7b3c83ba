"""Keys out of a JWKS document: public ones for signatures, and only for the signatures that they can make."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from leafgate.server.auth.signing_keys import KEY_TYPES, MAX_DOCUMENT, KeysError, KeySet, read_keys

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
