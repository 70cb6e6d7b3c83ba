"""The HTTP layer that authenticates requests, its refusals (RFC 6750), and where tokens come from (RFC 9728).

`AuthLayer` reads the Authorization header and nothing else: a token in a URL is refused, because URLs are logged. No
token outlives its request, is passed on or logged. `WhileKnown` checks a principal again during long answers.
Refusals and metadata repeat nothing that the caller sent. Without a configured URL the gateway uses the name in the
request, which the host guard has checked.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leafgate.model.rights import ANONYMOUS, CLIENT_CAPABILITIES, Capability, Principal
from leafgate.ports import Clock
from leafgate.server.auth import capabilities
from leafgate.server.auth.bearer_tokens import BearerTokens, TooManyGuessesError
from leafgate.server.auth.capabilities import KnownUser, ScopeGrants, TokenRefusedError, is_for_clients

log = logging.getLogger("leafgate.server")

MAX_SECRET: Final = 16_384
TURN_SECONDS: Final = 0.1
ASK_AGAIN_SECONDS: Final = 5.0

Refused = Literal["invalid_request", "invalid_token", "insufficient_scope"]

# Called with the principal, if it is known, the path or method, and the reason.
ReportRefusal = Callable[[str | None, str, str], None]


def ignore_refusal(principal: str | None, where: str, reason: str) -> None:
    """For gateways without an audit file."""


STATUS_OF: Final = {None: 401, "invalid_request": 400, "invalid_token": 401, "insufficient_scope": 403}


def challenge(
    error: Refused | None,
    description: str,
    scopes: Sequence[str] = (),
    metadata_url: str | None = None,
    *,
    basic: bool = False,
) -> Response:
    """A refusal; `error` is None where the request had no token, which is not an error yet."""
    parts = {"realm": "leafgate"}
    parts |= {} if error is None else {"error": error, "error_description": description}
    parts |= {"scope": " ".join(scopes)} if scopes else {}
    parts |= {} if metadata_url is None else {"resource_metadata": metadata_url}
    body = {"error": error or "unauthorized", "error_description": description}
    response = JSONResponse(body, STATUS_OF[error], {"Cache-Control": "no-store"})
    bearer = ", ".join(f'{name}="{value}"' for name, value in parts.items())
    response.headers.append("WWW-Authenticate", f"Bearer {bearer}")
    if basic and response.status_code == 401:
        # A browser then asks its user for a name and a password, and the token is the password.
        response.headers.append("WWW-Authenticate", 'Basic realm="leafgate", charset="UTF-8"')
    return response


WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


@dataclass(frozen=True)
class ResourceMetadata:
    """The metadata of this gateway. `path` is that of the MCP endpoint."""

    authorization_servers: Sequence[str]
    scopes: Sequence[str] = ()
    resource: str | None = None
    path: str = "/mcp"

    def url(self, scope: Scope) -> str | None:
        """Where the metadata is; None where the request has no usable host."""
        resource = self.resource_for(scope)
        if resource is None:
            return None
        parts = urlsplit(resource)
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"

    def resource_for(self, scope: Scope) -> str | None:
        """What this gateway is called."""
        if self.resource is not None:
            return self.resource
        host = Headers(scope=scope).get("host", "")
        return f"{scope.get('scheme', 'http')}://{host}{self.path}" if _HOST.fullmatch(host) else None

    def document(self, scope: Scope) -> dict[str, Any]:
        document = {
            "resource": self.resource_for(scope),
            "authorization_servers": [*self.authorization_servers],
            "bearer_methods_supported": ["header"],
        }
        return document | ({"scopes_supported": [*self.scopes]} if self.scopes else {})


def metadata_routes(present: Callable[[], ResourceMetadata | None], path: str) -> list[Route]:
    """The document, made for each request, at the root and at the paths that clients make of the endpoint's URL."""

    async def show(request: Request) -> Response:
        metadata = present()
        below = request.path_params.get("below", "")
        own_path = "" if metadata is None else urlsplit(metadata.resource or "").path.rstrip("/")
        if metadata is None or below not in ("", path, own_path):
            return PlainTextResponse("Not Found", 404)
        return JSONResponse(metadata.document(request.scope), headers={"Access-Control-Allow-Origin": "*"})

    return [Route(WELL_KNOWN, show), Route(f"{WELL_KNOWN}{{below:path}}", show)]


@dataclass(frozen=True)
class Auth:
    """How callers prove who they are, and what their scopes allow."""

    tokens: BearerTokens
    jwt: capabilities.Verifier | None = None
    grants: ScopeGrants = ScopeGrants()  # noqa: RUF009  frozen
    metadata: ResourceMetadata | None = None
    required: bool = True

    async def identify(self, secret: str) -> Principal:
        """The principal of a secret; TokenRefusedError if there is none."""
        if self.jwt is not None and secret.startswith("eyJ") and secret.count(".") == 2:
            verified = await self.jwt.verify(secret)
            if self.tokens.has_name(verified.name):
                raise TokenRefusedError("the token has the name of another principal")
            return Principal(verified.name, self.grants.grant_jwt(verified.scopes))
        entry = await self.tokens.find(secret)
        if entry is None:
            raise TokenRefusedError("the token is not known")
        return Principal(entry.name, self.grants.grant_token(entry.scopes))

    def refuse(
        self, scope: Scope, error: Refused | None, description: str, needed: Iterable[Capability] | None = None
    ) -> Response:
        """The refusal of a request, with the capabilities that are needed: those of its path, if none are given."""
        if needed is None:
            needed = sorted(CLIENT_CAPABILITIES) if is_for_clients(scope["path"]) else ["operate"]
        url = None if self.metadata is None else self.metadata.url(scope)
        return challenge(error, description, self.grants.scopes_for(needed), url, basic=_takes_basic(scope))


class AuthLayer:
    """The layer around all that needs a token. `auth` is called for every request: a reload may replace it."""

    def __init__(self, app: ASGIApp, auth: Callable[[], Auth], report_refusal: ReportRefusal = ignore_refusal) -> None:
        self._app = AuthContextMiddleware(app)
        self._auth = auth
        self._report_refusal = report_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and capabilities.is_open(scope["path"])):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._authenticate(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _authenticate(self, scope: Scope, receive: Receive, send: Send) -> None:
        auth = self._auth()
        try:
            principal = await _admit(auth, scope)
        except TooManyGuessesError:
            busy = PlainTextResponse("too many tokens are being checked", 503, {"Retry-After": "1"})
            await busy(scope, receive, send)
        except _Refusal as refusal:
            log.info("refused at %r: %s", scope["path"], refusal.description)
            self._report_refusal(None, scope["path"], refusal.description)
            await auth.refuse(scope, refusal.error, refusal.description)(scope, receive, send)
        else:
            answer = WhileKnown((scope, receive, send), self._auth, partial(self._refusal, scope, principal))
            await self._app({**scope, "user": KnownUser(principal)}, receive, answer.send)

    async def _refusal(self, scope: Scope, principal: Principal) -> Response | None:
        """The refusal of a client whose token no longer holds; None where it does. Waits for its turn."""
        while True:
            auth = self._auth()
            try:
                if await _admit(auth, scope) != principal:
                    raise _Refusal("invalid_token", "the token is no longer what it was")
            except TooManyGuessesError:
                await anyio.sleep(TURN_SECONDS)
            except _Refusal as refusal:
                log.info("ended at %r: %s", scope["path"], refusal.description)
                self._report_refusal(principal.name, scope["path"], refusal.description)
                return auth.refuse(scope, refusal.error, refusal.description)
            else:
                return None


class _Refusal(Exception):
    """Ends a request."""

    def __init__(self, error: Refused | None, description: str) -> None:
        self.error = error
        self.description = description


async def _admit(auth: Auth, scope: Scope) -> Principal:
    """The principal of a request; _Refusal if it may not use this path."""
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


def _secret(scope: Scope) -> str | None:
    """The secret in a request; None if it has none."""
    query = scope.get("query_string", b"").decode("latin-1")
    if any(name.lower() == "access_token" for name, _ in parse_qsl(query, keep_blank_values=True)):
        raise _Refusal("invalid_request", "a token must not be in a URL")
    values = Headers(scope=scope).getlist("authorization")
    if not values:
        return None
    scheme, _, value = values[0].partition(" ")
    value = value.strip()
    if len(values) > 1 or not value or len(value) > MAX_SECRET:
        raise _Refusal("invalid_request", "one Authorization header, with one token, is needed")
    if scheme.lower() == "bearer":
        return value
    if scheme.lower() == "basic" and _takes_basic(scope):
        return _password(value)
    raise _Refusal("invalid_request", "the Authorization header is not of the kind Bearer")


def _takes_basic(scope: Scope) -> bool:
    """Whether a password is accepted: only for reading, because browsers also send it with requests of other sites."""
    return scope["method"] in ("GET", "HEAD") and not is_for_clients(scope["path"])


def _password(value: str) -> str:
    try:
        _, separator, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        separator = password = ""
    if not separator or not password:
        raise _Refusal("invalid_request", "the Authorization header cannot be read")
    return password


@dataclass(eq=False)
class WhileKnown:
    """Sends one answer, and checks the principal again while it is sent.

    `rules` returns the current rules: while they are the same object, and the last check is recent, nothing is checked.
    `refusal` checks the client again: None where its token still holds.
    """

    connection: tuple[Scope, Receive, Send]
    rules: Callable[[], object]
    refusal: Callable[[], Awaitable[Response | None]]
    clock: Clock = time.monotonic
    _is_stream: bool = False
    _is_over: bool = False

    def __post_init__(self) -> None:
        self._last_check = (self.rules(), self.clock())

    async def send(self, message: Message) -> None:
        if self._is_over:
            return
        starts = message["type"] == "http.response.start"
        if starts:
            # A body whose length was announced cannot be ended early; it goes out at once behind its headers.
            self._is_stream = "content-length" not in Headers(raw=message.get("headers", []))
        if starts or self._is_stream:
            rules, moment = self._last_check
            is_recent = rules is self.rules() and self.clock() - moment < ASK_AGAIN_SECONDS
            refused = None if is_recent else await self.refusal()
            self._last_check = self._last_check if is_recent else (self.rules(), self.clock())
            if refused is not None:
                self._is_over = True
                if starts:
                    await refused(*self.connection)
                    return
                # The stream ends, and the application behind notices it as it would a client that disconnected.
                message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self.connection[2](message)
