"""The front of the gateway: who sends a request, with which rights, and in which tokenizer map it is answered.

`Front` holds the settings that decide this; a reload replaces them between two requests. `RequestLayer` reads the body
of each message to the MCP endpoint once, refuses what the caller's scopes do not allow, and puts an `Arrival` into the
scope: the message and the `Request` made of it. Everything behind takes it from there.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast, get_args
from uuid import uuid4

import pydantic_core
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.types import INVALID_REQUEST
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leafgate.codec.negotiate import ACCEPT_META_KEY, MAP_HEADER, negotiate, wants_packed
from leafgate.model.envelope import ACCEPT_KEY
from leafgate.model.errors import ErrorBody, GatewayError
from leafgate.model.request import LOCAL, EnvelopeForm, Form, Request, TextEncoder
from leafgate.model.rights import CLIENT_CAPABILITIES, Principal, Rights
from leafgate.server.auth.capabilities import is_for_clients, needed_for, principal_in
from leafgate.server.auth.layer import Auth, ReportRefusal, ignore_refusal

ANSWER_HEADER: Final = "Codec-Tokenizer-Map"
SESSION_HEADER: Final = "mcp-session-id"
CALL_METHOD: Final = "tools/call"
_WITH_IDS: Final = (CALL_METHOD, "tasks/get")  # the methods whose answers may hold ids
MCP_PATH: Final = "/mcp"
_VERSION: Final = MCP_PROTOCOL_VERSION_HEADER.encode()
_HANDSHAKE: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)
OTHERS: Final = "*"
MAX_BODY: Final = 4 * 1024 * 1024  # the SDK's own limit

# The key of an Arrival in a scope.
ARRIVAL: Final = "leafgate.arrival"
_PRINCIPAL: Final = "principal:"  # before the name of a principal that owns something; no session has such a name
NOT_JSON: Final = object()


@dataclass(frozen=True)
class Access:
    """Who may use the gateway (without `auth`: all callers), the rights of each, and the bytes of their artifacts.

    `is_one_user`: all callers without a name own their artifacts together; otherwise each session owns its own.
    """

    auth: Auth | None = None
    rights: Mapping[str, Rights] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)
    is_one_user: bool = True

    def rights_of(self, principal: Principal | None) -> Rights:
        """The rights of a caller over HTTP; callers without a name, or without an entry, have those of `*`."""
        others = self.rights.get(OTHERS) or Rights()
        return others if principal is None or principal.name is None else self.rights.get(principal.name, others)

    def artifact_quota_of(self, name: str | None) -> int | None:
        """The bytes that the artifacts of a principal may take; None: the store's own limit."""
        others = self.quotas.get(OTHERS)
        return others if name is None else self.quotas.get(name, others)


async def _is_ready(digest: str) -> None:
    """For maps that need no preparation."""


@dataclass(frozen=True)
class MapOffer:
    """Which maps clients may ask for, which one is the default, and how one is loaded."""

    default: str | None = None
    digests: Collection[str] = ()
    prepare: Callable[[str], Awaitable[TextEncoder | None]] = _is_ready

    def narrow_to(self, rights: Rights) -> tuple[str | None, Collection[str]]:
        """The default map of a caller, and the maps that the caller may ask for."""
        if rights.maps is None:
            return self.default, self.digests
        return self.default if self.default in rights.maps else None, rights.maps.intersection(self.digests)


@dataclass(frozen=True)
class Arrival:
    """A message as it arrived: its JSON, its sender, and the Request made of it.

    `client` is the same for all requests of one client, `user` for all clients of one user, as far as that is known.
    `refusal` says why the caller cannot have the map or the envelope it asks for.
    """

    message: Any
    principal: Principal | None
    request: Request
    client: str = "local"
    user: str = LOCAL.owner
    refusal: GatewayError | None = None


class Front:
    """The settings that requests are judged by."""

    def __init__(
        self,
        access: Access | None = None,
        maps: MapOffer | None = None,
        own_tools: Collection[str] = (),
        envelope: EnvelopeForm = "lean",
        report_refusal: ReportRefusal = ignore_refusal,
    ) -> None:
        """`report_refusal` is called for each request that is refused before it reaches the gateway."""
        self.report_refusal = report_refusal
        self.access = access or Access()
        self.maps = maps or MapOffer()
        self.envelope = envelope
        self.own_tools = own_tools
        self._auth = self.access.auth

    def adopt(self, access: Access, maps: MapOffer, envelope: EnvelopeForm) -> None:
        """Use other settings from now on. Switching authentication off waits for a restart: the last one stays."""
        self.access = access
        self.maps = maps
        self.envelope = envelope
        self._auth = access.auth or self._auth

    @property
    def asks_for_tokens(self) -> bool:
        return self._auth is not None

    def present_auth(self) -> Auth:
        assert self._auth is not None
        return self._auth

    def artifact_quota_of(self, owner: str) -> int | None:
        """The bytes that the artifacts of an owner may take: of a principal, a session, or the local user."""
        name = owner.removeprefix(_PRINCIPAL) if owner.startswith(_PRINCIPAL) else None
        return self.access.artifact_quota_of(name)

    def admit(self, scope: Scope, message: Any) -> Arrival:
        """The arrival of one message over HTTP."""
        principal = principal_in(scope)
        name = None if principal is None else principal.name
        headers = Headers(scope=scope)
        session = _session_of(scope, headers)
        client = (f"session:{session}" if session else "anonymous") + ("" if name is None else f" of {name}")
        rights = self.access.rights_of(principal)
        if name is not None:
            request = Request(f"{_PRINCIPAL}{name}", name, rights)
        else:
            request = Request(LOCAL.owner if self.access.is_one_user else client, None, rights, session=client)
        # Callers without a name and a session may be anybody: none of them is the same user as another.
        is_anybody = name is None and session is None and not self.access.is_one_user
        user = f"anonymous {uuid4().hex}" if is_anybody else request.owner
        return self._negotiate(Arrival(message, principal, request, client, user), headers.get(MAP_HEADER))

    def admit_local(self, message: Any) -> Arrival:
        """The arrival of a message from the process that started the gateway: it has all rights."""
        return self._negotiate(Arrival(message, None, LOCAL), None)

    def _negotiate(self, arrival: Arrival, header: str | None) -> Arrival:
        """The arrival of a call with the map and form of its ids, and its envelope; or with a refusal where the caller
        asks for what it cannot have. Of other messages, the map of the reader is known too."""
        message, request = arrival.message, arrival.request
        if not isinstance(message, Mapping):
            return arrival
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, Mapping) else None
        wishes: Mapping[str, Any] = meta if isinstance(meta, Mapping) else {}
        default, digests = self.maps.narrow_to(request.rights)
        form: Form = "both"
        is_packed = False
        try:
            envelope = _read_envelope_form(wishes[ACCEPT_KEY]) if ACCEPT_KEY in wishes else self.envelope
            if header is not None or ACCEPT_META_KEY in wishes:
                default, form = negotiate(wishes, header, default, digests)
                is_packed = wants_packed(wishes)
        except GatewayError as error:
            if message.get("method") not in _WITH_IDS:
                return arrival
            return replace(arrival, refusal=error, request=replace(request, envelope=self.envelope))
        if message.get("method") not in _WITH_IDS:
            return replace(arrival, request=replace(request, reader_map=default))
        known = replace(request, map_digest=default, reader_map=default, form=form, envelope=envelope)
        return replace(arrival, request=replace(known, is_packed=is_packed) if is_packed else known)


def is_stateless(scope: Scope) -> bool:
    """Whether a request names a version of the protocol without a handshake; one that is not known is refused there."""
    version = next((value for name, value in scope["headers"] if name == _VERSION), None)
    return version is not None and version not in _HANDSHAKE


def _session_of(scope: Scope, headers: Headers) -> str | None:
    """The session that a request belongs to: the endpoint refuses one that it does not know.

    A stateless request has none, whatever it says: else a caller would have new limits with each name that it makes up.
    """
    if scope["path"] == MCP_PATH:
        return None if is_stateless(scope) else headers.get(SESSION_HEADER)
    return QueryParams(scope.get("query_string", b"")).get("session_id")


@dataclass(frozen=True)
class RequestLayer:
    """The innermost HTTP layer, behind the one that unpacks bodies."""

    app: ASGIApp
    front: Front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not is_for_clients(scope["path"]):
            await self.app(scope, receive, send)
            return
        try:
            body = await read_body(scope, receive, MAX_BODY)
        except BodyTooLargeError:
            await PlainTextResponse("Request body too large", 413)(scope, receive, send)
            return
        except ClientGoneError:
            return
        arrival = self.front.admit(scope, read_json(body))
        refusal = self._refusal(scope, arrival)  # reported where it is made
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        if scope["path"] == MCP_PATH and self.front.maps.digests:
            send = _with_map_header(send, arrival.request.map_digest)
        await self.app({**scope, ARRIVAL: arrival}, replay_body(body, receive), send)

    def _refusal(self, scope: Scope, arrival: Arrival) -> Response | None:
        """403 for a message that the caller's scopes do not allow. The gate of the MCP server checks it again."""
        principal = arrival.principal
        if principal is None or principal.capabilities >= CLIENT_CAPABILITIES:
            return None
        needed = (needed_for(method, params, self.front.own_tools) for method, params in _requests(arrival.message))
        missing = next((one for one in needed if one is not None and one not in principal.capabilities), None)
        if missing is None:
            return None
        description = f"this needs the capability {missing}"
        self.front.report_refusal(principal.name, scope["path"], description)
        return self.front.present_auth().refuse(scope, "insufficient_scope", description, [missing])


@dataclass(frozen=True)
class CapabilityGate:
    """A middleware of the MCP server: it checks every message of every transport, also of the gateway's own methods."""

    own_tools: Collection[str]
    report_refusal: ReportRefusal = ignore_refusal

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        scope = {} if ctx.request is None else ctx.request.scope
        principal = scope[ARRIVAL].principal if ARRIVAL in scope else principal_in(scope)
        needed = None if principal is None else needed_for(ctx.method, ctx.params, self.own_tools)
        if principal is not None and needed is not None and needed not in principal.capabilities:
            self.report_refusal(principal.name, ctx.method, f"this needs the capability {needed}")
            body = ErrorBody("PERMISSION_DENIED", f"your token's scopes do not allow this: it needs {needed}")
            raise MCPError(INVALID_REQUEST, body.message, body.as_json())
        return await call_next(ctx)


def _read_envelope_form(wish: object) -> EnvelopeForm:
    form = wish.get("envelope", "full") if isinstance(wish, Mapping) else None
    if form not in get_args(EnvelopeForm):
        raise GatewayError("ARGS_INVALID", f'{ACCEPT_KEY} is {{"envelope": "full"}} or {{"envelope": "lean"}}')
    return cast(EnvelopeForm, form)


class BodyTooLargeError(Exception):
    """The body of a request is larger than its limit."""


class ClientGoneError(Exception):
    """The client disconnected before its request was complete."""


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body of a request."""
    announced = Headers(scope=scope).get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise BodyTooLargeError
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > limit:
            raise BodyTooLargeError
        if not message.get("more_body", False):
            return bytes(body)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """The body first, then what the client does next, which is to disconnect."""
    rest: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def next_message() -> Message:
        return next(rest, None) or await receive()

    return next_message


def read_json(body: bytes) -> Any:
    """The message of a body; NOT_JSON where there is none."""
    try:
        return pydantic_core.from_json(body)
    except ValueError:  # the fast reader does not take lone surrogates, nor deep nesting
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return NOT_JSON


def _requests(message: Any) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    for each in message if isinstance(message, list) else [message]:
        method = each.get("method") if isinstance(each, Mapping) else None
        if isinstance(method, str):
            params = each.get("params")
            yield method, params if isinstance(params, Mapping) else None


def _with_map_header(send: Send, digest: str | None) -> Send:
    """Names the map of the ids in the answer. Caches must look at the request's own header."""

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.add_vary_header(MAP_HEADER)
            if digest is not None and message["status"] == 200:
                headers[ANSWER_HEADER] = digest
        await send(message)

    return send_with_header
