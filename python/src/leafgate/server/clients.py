"""The clients of the gateway: the one behind a request, and those that are notified of changes.

Clients with a session are notified on it; clients of the stateless protocol listen on separate streams, which the SDK
serves from a bus. A question that a server asks during a call goes to the client behind that call only.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4
from weakref import WeakSet

import anyio
from mcp import MCPError, types
from mcp.server import Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.message import ServerMessageMetadata
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from leafgate.gateway.approval import FORM, is_yes
from leafgate.model.errors import GatewayError

log = logging.getLogger("leafgate.server")

Context = ServerRequestContext[Any, Any]

# The lists that a client reads anew after each notification: of tools, prompts and resources.
LISTS: Final = (("tools",), ("prompts",), ("resources", "resourceTemplates"))


@dataclass(eq=False)
class Client:
    """What stays the same between the requests of one client: the SDK passes it with each of them.

    Notifications go through `peer`; it is known from the first request on.
    """

    peer: Connection | ServerSession | None = None
    subscriptions: set[str] = field(default_factory=set)
    log_level: str | None = None
    listed: dict[str, int] = field(default_factory=dict)  # by list: the version of the catalog


@asynccontextmanager
async def one_client(server: Server[Any]) -> AsyncIterator[Client]:
    """The lifespan of a server that is run for each connection, as on stdio."""
    yield Client()


def client_of(context: Context) -> Client:
    """The client behind a request; a new one for each request of the stateless protocol."""
    client = context.lifespan_context
    is_stateless = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return client if isinstance(client, Client) and not is_stateless else Client()


class Clients:
    """The clients with a session."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._clients: WeakSet[Client] = WeakSet()
        self.listen = ListenHandler(self._bus)

    def meet(self, context: Context) -> Client:
        """The client behind a request; if it has a session, it is notified of changes from now on."""
        client = client_of(context)
        client.peer = client.peer or context.session
        self._clients.add(client)
        return client

    def note_list(self, context: Context, key: str, version: int) -> None:
        """Remember which version of the catalog the client behind a request is about to list."""
        self.meet(context).listed[key] = version

    def is_watched(self, uri: str) -> bool:
        return any(uri in client.subscriptions for client in self._clients)

    async def announce_changes(self, version: int, *, of_start: bool = False) -> None:
        """Notify clients of this version of the catalog, unless they have listed it already.

        With `of_start`, only those with an older list are notified: the others list for the first time after it.
        """
        if not of_start:
            for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
                await self._bus.publish(event)
        for client in list(self._clients):
            peer = client.peer
            if peer is None:
                continue
            senders = (peer.send_tool_list_changed, peer.send_prompt_list_changed, peer.send_resource_list_changed)
            for lists, send in zip(LISTS, senders, strict=True):
                versions = [client.listed[key] for key in lists if key in client.listed]
                if any(each != version for each in versions) or not (versions or of_start):
                    await _notify(send)

    async def announce_update(self, uri: str) -> None:
        """Notify the clients that watch a resource."""
        await self._bus.publish(ResourceUpdated(uri))
        for client in list(self._clients):
            if client.peer is not None and uri in client.subscriptions:
                await _notify(client.peer.send_resource_updated, uri)


async def _notify(send: Any, *args: Any) -> None:
    """A client that cannot be reached does not keep the others from being notified."""
    try:
        with anyio.move_on_after(5):
            await send(*args)
    except Exception as error:
        log.debug("a client could not be notified: %s", error)


_PASSED_ON: Final = ("sampling", "elicitation", "roots")
_RESUME: Final = ("inputResponses", "requestState")
# The keys of `_meta` that are between a client and the gateway. The SDK writes those of the protocol and of traces.
_OWN_META_PREFIXES: Final = ("io.modelcontextprotocol/", "leafgate/", "ai.codec/")
_OWN_META_KEYS: Final = ("progressToken", "traceparent", "tracestate", "baggage")
_QUESTIONS: Final[Mapping[str, tuple[type[Any], type[types.Result], Mapping[str, Any]]]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult, {"elicitation": {}}),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult, {"sampling": {}}),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult, {"roots": {}}),
}


class McpChannel:
    """The ClientChannel of one request: how the server that works on it reaches the client."""

    def __init__(self, context: Context, owner: str, extensions: Collection[str] = (), *, user: str = "") -> None:
        """`extensions` are those that the gateway serves: a server sees nothing of the client's others."""
        params = context.params or {}
        meta = params.get("_meta") or {}
        level = meta.get(types.LOG_LEVEL_META_KEY)
        capabilities = context.session.client_capabilities
        self._context = context
        self.owner = owner
        self.user = user or owner
        self.takes_input_requests = self.takes_any_json = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.log_level = level if isinstance(level, str) else client_of(context).log_level
        self.resume: Mapping[str, Any] = {key: params[key] for key in _RESUME if params.get(key) is not None}
        self.meta: Mapping[str, Any] = {
            key: value
            for key, value in meta.items()
            if key not in _OWN_META_KEYS and not key.startswith(_OWN_META_PREFIXES)
        }
        declared = {} if capabilities is None else _as_json(capabilities)
        self.capabilities: Mapping[str, Any] = {name: declared[name] for name in _PASSED_ON if name in declared}
        passed_on = {id: settings for id, settings in declared.get("extensions", {}).items() if id in extensions}
        if passed_on:
            self.capabilities = {**self.capabilities, "extensions": passed_on}

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await self._context.session.report_progress(progress, total, message)

    async def log(self, params: Mapping[str, Any]) -> None:
        await self._context.session.send_log_message(
            params["level"], params.get("data"), params.get("logger"), related_request_id=self._context.request_id
        )

    async def approve(self, question: str) -> bool | None:
        """Ask the person at the client for a yes or no; None where the client cannot be asked."""
        try:
            answer = await self.ask("elicitation/create", {"message": question, "requestedSchema": FORM})
        except GatewayError:
            return None
        return is_yes(answer)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        session = self._context.session
        question = _QUESTIONS.get(method)
        if question is None:
            raise GatewayError("UPSTREAM_ERROR", "the server asked something that clients do not answer")
        request_type, result_type, capability = question
        if not session.can_send_request or not session.check_client_capability(
            types.ClientCapabilities.model_validate(capability)
        ):
            raise GatewayError("UPSTREAM_ERROR", f"the client does not take {method}")
        if params.get("mode") == "url" and "elicitationId" not in params:
            params = {**params, "elicitationId": uuid4().hex}  # only the handshake era has ids, and it requires them
        if method == "sampling/createMessage" and params.get("tools"):
            result_type = types.CreateMessageResultWithTools
        try:
            request = request_type.model_validate({"method": method, "params": dict(params)})
            related = ServerMessageMetadata(related_request_id=self._context.request_id)
            answer = await session.send_request(request, result_type, metadata=related)
        except (MCPError, ValidationError) as error:
            raise GatewayError("UPSTREAM_ERROR", f"the client did not answer {method}") from error
        return _as_json(answer)


def _as_json(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
