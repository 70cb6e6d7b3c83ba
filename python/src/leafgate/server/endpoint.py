"""The MCP endpoint over HTTP, for both eras of the protocol: checks what arrives, and passes it on.

A request that names a version without a handshake is answered by itself. All others belong to a session: POST brings
its messages, GET opens a stream of messages to the client or resumes one, DELETE ends the session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from anyio.abc import TaskGroup
from mcp import types
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner
from mcp.server.streamable_http import LAST_EVENT_ID_HEADER, check_accept_headers
from mcp.shared import inbound
from mcp.shared.inbound import InboundLadderRejection, InboundModernRoute
from pydantic import ValidationError
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leafgate.ports import Sessions
from leafgate.server.auth.capabilities import principal_in
from leafgate.server.exchange import Exchange, Outlet, dump, error_body
from leafgate.server.front import ARRIVAL, CALL_METHOD, NOT_JSON, SESSION_HEADER, is_stateless
from leafgate.server.session_events import MemoryEvents
from leafgate.server.sessions import Session, SessionTable

_PARAM_PREFIX: Final = inbound.MCP_PARAM_HEADER_PREFIX.lower()


class McpEndpoint:
    """An ASGI application. `_group` takes care of long calls while it runs."""

    _group: TaskGroup

    def __init__(self, server: Server[Any], sessions: Sessions | None, events: MemoryEvents | None = None) -> None:
        self._server = server
        self._sessions = SessionTable(server, sessions, events)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Requests are answered inside this context."""
        async with self._sessions.run() as self._group:
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive)
        try:
            if is_stateless(scope):
                await self._serve_stateless(request, send)
            elif request.method == "POST":
                await self._post(request, send)
            else:
                await self._get_or_delete(request, send)
        except _Ended as end:
            await end.response(scope, receive, send)

    # The stateless era

    async def _serve_stateless(self, request: HttpRequest, send: Send) -> None:
        """Answer a request. A notification is acknowledged, and has no effect."""
        if request.method != "POST":
            raise _Ended(Response(status_code=405, headers={"Allow": "POST"}))
        rpc = _read_message(request)
        if isinstance(rpc, types.JSONRPCNotification):
            version = request.headers.get(inbound.MCP_PROTOCOL_VERSION_HEADER, "")
            unsupported = inbound.unsupported_protocol_version_rejection(version)
            raise _Ended(Response(status_code=202)) if unsupported is None else _rejection(None, unsupported)
        if not isinstance(rpc, types.JSONRPCRequest):
            raise _refusal(400, "The body must be a request or a notification")
        route = self._route(request, request.scope[ARRIVAL].message)
        if isinstance(route, InboundLadderRejection):
            raise _rejection(rpc.id, route)
        connection = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
        runner = ServerRunner(self._server, connection, None)
        await Exchange(request, rpc, Outlet(request, send)).run(runner.on_request, self._group)

    def _route(self, request: HttpRequest, message: dict[str, Any]) -> InboundModernRoute | InboundLadderRejection:
        """The version, the client and its capabilities that a request declares; or what is wrong with its headers."""
        duplicate = inbound.find_duplicated_routing_header(request.headers.items())
        if duplicate is not None:
            return InboundLadderRejection(
                code=types.HEADER_MISMATCH, message=f"{duplicate} header appears more than once"
            )
        route = inbound.classify_inbound_request(message, headers=dict(request.headers))
        if isinstance(route, InboundLadderRejection) or message.get("method") != CALL_METHOD:
            return route
        return self._parameter_rejection(request, message.get("params")) or route

    def _parameter_rejection(self, request: HttpRequest, params: Any) -> InboundLadderRejection | None:
        """A call whose `Mcp-Param-*` headers do not say what its arguments say, where the tool's schema wants them."""
        find_schema = self._server.get_tool_input_schema
        name = params.get("name") if isinstance(params, Mapping) else None
        arguments = (params.get("arguments") or {}) if isinstance(params, Mapping) else {}
        if find_schema is None or not isinstance(name, str) or not isinstance(arguments, Mapping):
            return None
        if not arguments and not any(header.startswith(_PARAM_PREFIX) for header in request.headers):
            return None
        schema = find_schema(name)
        return None if schema is None else inbound.validate_mcp_param_headers(schema, arguments, request.headers)

    # Sessions

    async def _post(self, request: HttpRequest, send: Send) -> None:
        """Serve a message of a session, or the one that opens it."""
        session = await self._find_session(request)
        message = _read_message(request)
        rpc = message if isinstance(message, types.JSONRPCRequest) else None
        if session is None:
            if rpc is None or rpc.method != "initialize":
                raise _refusal(400, "Bad Request: Missing session ID")
            if self._sessions.is_full:
                raise _refusal(503, "Too many open sessions")
            await self._sessions.open(_user_of(request), request, rpc, Outlet(request, send))
        elif rpc is None:
            await session.take(request, message)
            raise _Ended(Response(status_code=202))
        elif str(rpc.id) in session.calls:  # two answers with one id are ambiguous
            raise _refusal(400, "Bad Request: a request with this id is still being answered")
        else:
            await session.answer(request, rpc, Outlet(request, send, session.headers), self._group)

    async def _get_or_delete(self, request: HttpRequest, send: Send) -> None:
        """Open or resume a stream of messages to the client, or end the session."""
        session = await self._find_session(request)
        if request.method not in ("GET", "DELETE"):
            raise _refusal(405, "Method Not Allowed", {"Allow": "GET, POST, DELETE"})
        if session is None:
            raise _refusal(400, "Bad Request: Missing session ID")
        if request.method == "DELETE":
            await self._sessions.end(session)
            raise _Ended(Response())
        if not check_accept_headers(request)[1]:
            raise _refusal(406, "Not Acceptable: Client must accept text/event-stream")
        since = request.headers.get(LAST_EVENT_ID_HEADER)
        if since is None and session.standalone.has_client:
            raise _refusal(409, "Conflict: Only one SSE stream is allowed per session")
        await session.listen(Outlet(request, send, session.headers), since)

    async def _find_session(self, request: HttpRequest) -> Session | None:
        """The session that a request names, which must be one of its user's; None if it names none."""
        id = request.headers.get(SESSION_HEADER)
        session = None if id is None else await self._sessions.find(id, _user_of(request))
        if id is not None and session is None:
            raise _refusal(404, "Session not found")
        return session


class _Ended(Exception):
    """Ends a request with a response that is not the answer of the MCP server."""

    def __init__(self, response: Response) -> None:
        self.response = response


def _user_of(request: HttpRequest) -> str:
    """The user of a session; empty without authentication."""
    arrival = request.scope.get(ARRIVAL)
    principal = principal_in(request.scope) if arrival is None else arrival.principal
    return "" if principal is None else f"user {principal.name or ''}"


def _read_message(request: HttpRequest) -> types.JSONRPCMessage:
    """The message of a POST, of the kind that its keys say."""
    if not request.headers.get("content-type", "").lower().startswith("application/json"):
        raise _Ended(Response("Invalid Content-Type header", 400))
    if not all(check_accept_headers(request)):
        raise _refusal(406, "Not Acceptable: Client must accept both application/json and text/event-stream")
    message = request.scope[ARRIVAL].message
    if message is NOT_JSON:
        raise _rejection(None, types.ErrorData(code=types.PARSE_ERROR, message="Parse error"))
    try:
        if not isinstance(message, dict) or "method" not in message:
            return types.jsonrpc_message_adapter.validate_python(message, by_name=False)
        kind = types.JSONRPCRequest if "id" in message else types.JSONRPCNotification
        return kind.model_validate(message, by_name=False)
    except ValidationError:
        raise _refusal(400, "The body must be one JSON-RPC message") from None


def _refusal(status: int, reason: str, headers: Mapping[str, str] | None = None) -> _Ended:
    body = error_body(None, types.ErrorData(code=types.INVALID_REQUEST, message=reason))
    return _Ended(Response(dump(body), status, headers, media_type="application/json"))


def _rejection(request_id: types.RequestId | None, error: types.ErrorData | InboundLadderRejection) -> _Ended:
    """The end of a message that is not in order, with the status that belongs to its error."""
    data = types.ErrorData(code=error.code, message=error.message, data=error.data)
    status = inbound.ERROR_CODE_HTTP_STATUS.get(error.code, 200)
    return _Ended(Response(dump(error_body(request_id, data)), status, media_type="application/json"))
