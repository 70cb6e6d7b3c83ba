"""Nobody comes in unknown: the layer behind the host guard. In: requests. Out: the same with a principal, or a refusal.

Touches what its verifiers touch. Reads the Authorization header and nothing else; a token in a URL is refused, because
URLs are written down everywhere. No token outlives its request, is passed on or logged.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from leafgate.model.principal import ANONYMOUS, CLIENT_CAPABILITIES, Capability, Principal
from leafgate.server.auth.bearer_tokens import BearerTokens, TooManyGuessesError
from leafgate.server.auth.challenge import Challenge, Refused
from leafgate.server.auth.known_user import KnownUser
from leafgate.server.auth.resource_metadata import ResourceMetadata
from leafgate.server.auth.scope_grants import ScopeGrants
from leafgate.server.auth.still_known import WhileKnown
from leafgate.server.auth.verified import TokenRefusedError, Verifier

log = logging.getLogger("leafgate.server")

# Said to everybody: that the process answers, and where tokens come from.
OPEN_PATHS: Final = ("/health", "/ready")
OPEN_PREFIX: Final = "/.well-known/oauth-"
# What MCP clients talk to, and the maps that they need. Everything else is for operators.
CLIENT_PATHS: Final = ("/mcp", "/sse", "/messages")
CLIENT_PREFIX: Final = "/.well-known/codec/maps/"
MAX_SECRET: Final = 16_384
TURN_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Auth:
    """How callers prove who they are, and what their scopes allow."""

    tokens: BearerTokens
    jwt: Verifier | None = None
    grants: ScopeGrants = ScopeGrants()  # noqa: RUF009  frozen
    metadata: ResourceMetadata | None = None
    required: bool = True

    async def identify(self, secret: str) -> Principal:
        """Whose secret this is; TokenRefusedError if nobody's."""
        if self.jwt is not None and secret.startswith("eyJ") and secret.count(".") == 2:
            verified = await self.jwt.verify(secret)
            if self.tokens.has_name(verified.name):
                raise TokenRefusedError("the token has the name of somebody else")
            return Principal(verified.name, self.grants.of_jwt(verified.scopes))
        found = await self.tokens.find(secret)
        if found is None:
            raise TokenRefusedError("the token is not known")
        return Principal(found.name, self.grants.of_token(found.scopes))


class AuthLayer:
    """An ASGI layer round everything that is served. `auth` is asked anew for every request: it may be exchanged."""

    def __init__(self, app: ASGIApp, auth: Callable[[], Auth]) -> None:
        self._app = AuthContextMiddleware(app)
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and is_open(scope["path"])):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._guarded(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        auth = self._auth()
        try:
            principal = await _admitted(auth, scope)
        except TooManyGuessesError:
            busy = PlainTextResponse("too many tokens are being checked", 503, {"Retry-After": "1"})
            await busy(scope, receive, send)
        except _Refusal as refusal:
            log.info("refused at %r: %s", scope["path"], refusal.description)
            await _challenge(auth, scope, refusal).response()(scope, receive, send)
        else:
            answer = WhileKnown((scope, receive, send), self._auth, partial(self._refusal, scope, principal))
            await self._app({**scope, "user": KnownUser(principal)}, receive, answer.send)

    async def _refusal(self, scope: Scope, principal: Principal) -> Response | None:
        """What a client is told that is no longer who it was when its request came; None for one that still is."""
        auth = self._auth()
        try:
            if await _patiently(auth, scope) != principal:
                raise _Refusal("invalid_token", "the token is no longer what it was")
        except _Refusal as refusal:
            log.info("ended at %r: %s", scope["path"], refusal.description)
            return _challenge(auth, scope, refusal).response()
        return None


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


def is_for_clients(path: str) -> bool:
    return path in CLIENT_PATHS or path.startswith(CLIENT_PREFIX)


class _Refusal(Exception):
    """Ends a request."""

    def __init__(self, error: Refused | None, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description


async def _admitted(auth: Auth, scope: Scope) -> Principal:
    """Who asks, if they may ask here at all."""
    secret, for_clients = _secret(scope), is_for_clients(scope["path"])
    if secret is None and (auth.required or not for_clients):
        raise _Refusal(None, "a token is needed")
    try:
        principal = ANONYMOUS if secret is None else await auth.identify(secret)
    except TokenRefusedError as refused:
        raise _Refusal("invalid_token", str(refused)) from None
    if not for_clients and "operate" not in principal.capabilities:
        raise _Refusal("insufficient_scope", "this is for operators")
    return principal


async def _patiently(auth: Auth, scope: Scope) -> Principal:
    """The same for a request that was let in before: it waits for its turn."""
    while True:
        try:
            return await _admitted(auth, scope)
        except TooManyGuessesError:
            await anyio.sleep(TURN_SECONDS)


def _secret(scope: Scope) -> str | None:
    """The secret that a request carries, if any."""
    query = scope.get("query_string", b"").decode("latin-1")
    if any(name.lower() == "access_token" for name, _ in parse_qsl(query, keep_blank_values=True)):
        raise _Refusal("invalid_request", "a token has no place in a URL")
    given = Headers(scope=scope).getlist("authorization")
    if not given:
        return None
    scheme, _, value = given[0].partition(" ")
    value = value.strip()
    if len(given) > 1 or not value or len(value) > MAX_SECRET:
        raise _Refusal("invalid_request", "one Authorization header, with one token, is needed")
    if scheme.lower() == "bearer":
        return value
    if scheme.lower() == "basic" and _takes_basic(scope):
        return _password(value)
    raise _Refusal("invalid_request", "the Authorization header is not of the kind Bearer")


def _takes_basic(scope: Scope) -> bool:
    """Browsers send a password along unasked, with what other pages made them send too: so only where it only reads."""
    return scope["method"] in ("GET", "HEAD") and not is_for_clients(scope["path"])


def _password(value: str) -> str:
    try:
        _, separator, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        separator = password = ""
    if not separator or not password:
        raise _Refusal("invalid_request", "the Authorization header cannot be read")
    return password


def _challenge(auth: Auth, scope: Scope, refusal: _Refusal) -> Challenge:
    """The refusal, with what would be needed at this path."""
    for_clients = is_for_clients(scope["path"])
    needed: list[Capability] = sorted(CLIENT_CAPABILITIES) if for_clients else ["operate"]
    return Challenge(
        error=refusal.error,
        description=refusal.description,
        scopes=auth.grants.scopes_for(needed),
        metadata_url=None if auth.metadata is None else auth.metadata.url(scope),
        basic=_takes_basic(scope),
    )
