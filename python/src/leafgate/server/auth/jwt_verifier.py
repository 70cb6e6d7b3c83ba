"""Is this JWT one that our authorization server gave out for us? In: a token. Out: its name and scopes, or a refusal.

Touches what its key source touches. The algorithm is the operator's choice, never the token's; a token for somebody
else's server is refused even if all else is right (RFC 8707, RFC 9068).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from jwt.exceptions import ExpiredSignatureError, PyJWTError

from leafgate.model.principal import is_principal_name
from leafgate.server.auth.jwks_source import KeySource
from leafgate.server.auth.verified import TokenRefusedError, VerifiedToken

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


class JwtVerifier:
    """A Verifier by one set of rules."""

    def __init__(self, rules: JwtRules, keys: KeySource) -> None:
        self._rules = rules
        self._keys = keys

    async def verify(self, token: str) -> VerifiedToken:
        """What the token says; TokenRefusedError unless everything about it is right."""
        algorithm, kid = self._header(token)
        key = (await self._keys.keys()).find(kid, algorithm)
        if key is None:
            key = (await self._keys.keys(again=True)).find(kid, algorithm)
        if key is None:
            raise TokenRefusedError("the token is signed with a key that is not known")
        return self._verified(self._claims(token, key.key, algorithm))

    def _header(self, token: str) -> tuple[str, str | None]:
        if len(token) > MAX_TOKEN:
            raise TokenRefusedError("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError:
            raise TokenRefusedError("the token is not a JWT") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self._rules.algorithms:
            raise TokenRefusedError("the token is not signed with an algorithm that is taken here")
        if "crit" in header or not isinstance(kid, str | None) or not _is_for_access(header.get("typ", "JWT")):
            raise TokenRefusedError("the token has a header that is not understood")
        return str(algorithm), kid

    def _claims(self, token: str, key: Any, algorithm: str) -> Mapping[str, Any]:
        rules = self._rules
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=[*rules.audience],
                issuer=rules.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", rules.principal_claim]},
            )
        except ExpiredSignatureError:
            raise TokenRefusedError("the token has expired") from None
        except (PyJWTError, ValueError, TypeError, OverflowError):
            # Which of its parts was wrong is told to nobody who has no good token.
            raise TokenRefusedError("the token is not valid here") from None

    def _verified(self, claims: Mapping[str, Any]) -> VerifiedToken:
        name = claims[self._rules.principal_claim]
        if not is_principal_name(name):
            raise TokenRefusedError("the token names nobody")
        return VerifiedToken(name, _scopes(claims))


def _is_for_access(kind: object) -> bool:
    """Issuers sign other things with the same keys (logout tokens, proofs, events), and say so in `typ` (RFC 8725)."""
    return isinstance(kind, str) and re.fullmatch(r"(application/)?(([a-z-]+-)?at\+)?jwt", kind.lower()) is not None


def _scopes(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """RFC 8693 has `scope` as one text; some servers write `scp`, or lists."""
    given = claims.get("scope", claims.get("scp", ""))
    if isinstance(given, str):
        return tuple(given.split())
    return tuple(scope for scope in given if isinstance(scope, str)) if isinstance(given, list) else ()
