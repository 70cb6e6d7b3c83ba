"""JWTs of an authorization server: its signing keys, where they are loaded from, and the check of a token.

The algorithm is the operator's choice, never the token's; a token for another audience is refused even if all else is
right (RFC 8707, RFC 9068). The libraries take a while to load: only gateways that accept JWTs import this file.
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt
from anyio import to_thread
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import ExpiredSignatureError, PyJWTError

from leafgate.model.errors import ConfigError
from leafgate.model.rights import is_principal_name
from leafgate.ports import Clock
from leafgate.server.auth.capabilities import TokenRefusedError, VerifiedToken
from leafgate.server.host_guard import is_loopback

log = logging.getLogger("leafgate.server")

FETCH_SECONDS: Final = 5.0
FRESH_SECONDS: Final = 600.0
FILE_FRESH_SECONDS: Final = 1.0
ASK_AGAIN_SECONDS: Final = 30.0
STALE_SECONDS: Final = 86_400.0
MAX_DOCUMENT: Final = 256 * 1024
MAX_KEYS: Final = 64
MIN_RSA_BITS: Final = 2_048

# The keys of each algorithm. Algorithms with a shared secret are not supported.
KEY_TYPES: Final[Mapping[str, tuple[str, str | None]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}


class KeysError(Exception):
    """The document has no usable keys; the message says why."""


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
        """The one key (of this name) that makes such signatures; None where two would do."""
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
    kid, curve = (value if isinstance(value, str) else None for value in (document.get("kid"), curve))
    return SigningKey(kid, str(kind), curve, algorithm, public)


class KeySource(Protocol):
    """Returns the current keys; `again`: a token names a key that is not among them."""

    async def keys(self, *, again: bool = False) -> KeySet: ...


@dataclass(eq=False)
class KeptKeys:
    """Keys that `read` loads, cached while they are fresh, loaded by one request at a time."""

    where: str
    read: Callable[[], Awaitable[bytes]]
    fresh: float
    ask_again: float
    clock: Clock
    _keys: KeySet = KeySet()
    _requested_at: float = -math.inf
    _loaded_at: float = -math.inf
    _one_at_a_time: anyio.Lock = field(default_factory=anyio.Lock)

    async def keys(self, *, again: bool = False) -> KeySet:
        if self._is_due(again):
            async with self._one_at_a_time:
                if self._is_due(again):
                    await self._renew()
        return self._keys if self.clock() - self._loaded_at <= STALE_SECONDS else KeySet()

    def _is_due(self, again: bool) -> bool:
        now = self.clock()
        return (again or now - self._loaded_at >= self.fresh) and now - self._requested_at >= self.ask_again

    async def _renew(self) -> None:
        self._requested_at = self.clock()
        try:
            self._keys = read_keys(await self.read())
            self._loaded_at = self.clock()
        except (KeysError, OSError, httpx2.HTTPError, TimeoutError) as error:
            log.warning("the signing keys at %s cannot be read: %s", self.where, str(error) or type(error).__name__)


def keys_of_file(path: Path, *, clock: Clock = time.monotonic) -> KeySource:
    """The keys in a file, which is read again every second, so that a removed key stops working."""

    def read() -> bytes:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT + 1)

    in_thread = partial(to_thread.run_sync, read)
    return KeptKeys(path.name, in_thread, fresh=FILE_FRESH_SECONDS, ask_again=FILE_FRESH_SECONDS, clock=clock)


def keys_of_url(url: str, *, clock: Clock = time.monotonic) -> KeySource:
    """The keys at a URL: https, or http on this machine."""
    parts = urlsplit(url)
    is_here = is_loopback(parts.hostname or "")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_here):
        raise ConfigError("auth.jwt.jwks: an https URL; http only for this machine itself")
    if not parts.hostname or parts.username is not None:
        raise ConfigError("auth.jwt.jwks: a URL with a host and without a user")

    async def fetch() -> bytes:
        with anyio.fail_after(FETCH_SECONDS):
            async with (
                httpx2.AsyncClient(follow_redirects=False, trust_env=not is_here, timeout=FETCH_SECONDS) as client,
                client.stream("GET", url, headers={"accept": "application/json"}) as response,
            ):
                if response.status_code != 200:
                    raise KeysError(f"the answer is {response.status_code}")
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_DOCUMENT:
                        raise KeysError(f"the document is larger than {MAX_DOCUMENT} bytes")
                return bytes(body)

    where = f"{parts.scheme}://{parts.netloc}{parts.path}"
    return KeptKeys(where, fetch, fresh=FRESH_SECONDS, ask_again=ASK_AGAIN_SECONDS, clock=clock)


MAX_TOKEN: Final = 16_384
LEEWAY_SECONDS: Final = 30
DEFAULT_ALGORITHMS: Final = ("RS256", "ES256")


@dataclass(frozen=True)
class JwtRules:
    """Who issues tokens, for whom, signed how, and which claim names the principal."""

    issuer: str
    audience: tuple[str, ...]
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS
    principal_claim: str = "sub"


@dataclass(frozen=True)
class JwtVerifier:
    """A Verifier by one set of rules."""

    rules: JwtRules
    keys: KeySource

    async def verify(self, token: str) -> VerifiedToken:
        algorithm, kid = self._header(token)
        key = (await self.keys.keys()).find(kid, algorithm)
        if key is None:
            key = (await self.keys.keys(again=True)).find(kid, algorithm)
        if key is None:
            raise TokenRefusedError("the token is signed with a key that is not known")
        claims = self._claims(token, key.key, algorithm)
        name = claims[self.rules.principal_claim]
        if not is_principal_name(name):
            raise TokenRefusedError("the token names no principal")
        return VerifiedToken(name, _scopes(claims))

    def _header(self, token: str) -> tuple[str, str | None]:
        if len(token) > MAX_TOKEN:
            raise TokenRefusedError("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError:
            raise TokenRefusedError("the token is not a JWT") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self.rules.algorithms:
            raise TokenRefusedError("the token is not signed with an algorithm that is accepted here")
        if "crit" in header or not isinstance(kid, str | None) or not _is_for_access(header.get("typ", "JWT")):
            raise TokenRefusedError("the token has a header that is not understood")
        return str(algorithm), kid

    def _claims(self, token: str, key: Any, algorithm: str) -> Mapping[str, Any]:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=[*self.rules.audience],
                issuer=self.rules.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", self.rules.principal_claim]},
            )
        except ExpiredSignatureError:
            raise TokenRefusedError("the token has expired") from None
        except (PyJWTError, ValueError, TypeError, OverflowError):
            # A caller without a good token does not learn which part was wrong.
            raise TokenRefusedError("the token is not valid here") from None


def _is_for_access(kind: object) -> bool:
    """Issuers sign other things with the same keys (logout tokens, proofs, events), and say so in `typ` (RFC 8725)."""
    return isinstance(kind, str) and re.fullmatch(r"(application/)?(([a-z-]+-)?at\+)?jwt", kind.lower()) is not None


def _scopes(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """RFC 8693 has `scope` as one text; some servers write `scp`, or lists."""
    scopes = claims.get("scope", claims.get("scp", ""))
    if isinstance(scopes, str):
        return tuple(scopes.split())
    return tuple(scope for scope in scopes if isinstance(scope, str)) if isinstance(scopes, list) else ()
