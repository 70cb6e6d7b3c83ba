"""The keys that an authorization server signs with. In: a JWKS document. Out: the public key that a JWT names.

Touches nothing. Only public keys for signatures are taken: a symmetric key in a published document is no secret, and
a short RSA key is no lock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

MAX_DOCUMENT: Final = 256 * 1024
MAX_KEYS: Final = 64
MIN_RSA_BITS: Final = 2_048

# Which keys can make which signatures. A signature that needs a shared secret is in no row.
KEY_TYPES: Final[Mapping[str, tuple[str, str | None]]] = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}


class KeysError(Exception):
    """A document that holds no usable keys."""


@dataclass(frozen=True)
class SigningKey:
    """One public key; `algorithm` is set where the document ties the key to one."""

    kid: str | None
    kind: str
    curve: str | None
    algorithm: str | None
    key: Any = field(repr=False)

    def makes(self, algorithm: str) -> bool:
        kind, curve = KEY_TYPES[algorithm]
        return self.kind == kind and curve in (None, self.curve) and self.algorithm in (None, algorithm)


@dataclass(frozen=True)
class KeySet:
    """The keys of one document."""

    keys: tuple[SigningKey, ...] = ()

    def find(self, kid: str | None, algorithm: str) -> SigningKey | None:
        """The one key of this name that makes such signatures; without a name, the only one that makes them.

        Where two would do, it is not known which is meant, and none is.
        """
        able = [key for key in self.keys if key.makes(algorithm) and (kid is None or key.kid == kid)]
        return able[0] if len(able) == 1 else None


def read_keys(document: bytes) -> KeySet:
    """The usable keys of a JWKS document; KeysError where there are none."""
    if len(document) > MAX_DOCUMENT:
        raise KeysError(f"the document is larger than {MAX_DOCUMENT} bytes")
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        raise KeysError("the document is not JSON") from None
    listed = parsed.get("keys") if isinstance(parsed, Mapping) else None
    if not isinstance(listed, list):
        raise KeysError("the document has no list of keys")
    keys = tuple(key for key in map(_read_key, listed[:MAX_KEYS]) if key is not None)
    if not keys:
        raise KeysError("the document has no public key that signatures can be checked with")
    return KeySet(keys)


def _read_key(document: object) -> SigningKey | None:
    if not isinstance(document, Mapping) or document.get("use", "sig") != "sig":
        return None
    kind, curve, algorithm = document.get("kty"), document.get("crv"), document.get("alg")
    fitting = [name for name, need in KEY_TYPES.items() if need[0] == kind and need[1] in (None, curve)]
    if not fitting or (algorithm is not None and algorithm not in fitting):
        return None
    try:
        key = PyJWK(dict(document), algorithm=algorithm or fitting[0]).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    public = key.public_key() if hasattr(key, "public_key") else key
    if isinstance(public, RSAPublicKey) and public.key_size < MIN_RSA_BITS:
        return None
    kid = document.get("kid")
    return SigningKey(
        kid if isinstance(kid, str) else None, str(kind), curve if isinstance(curve, str) else None, algorithm, public
    )
