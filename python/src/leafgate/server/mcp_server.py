"""The gateway as an MCP server. In: MCP requests. Out: MCP results. Knows the SDK; the gateway behind it does not.

Tool calls never raise across this border: the runtime answers every one. Other requests fail with MCP errors whose
words are ours.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_args
from urllib.parse import quote, unquote

from mcp import MCPDeprecationWarning, MCPError
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CompleteRequestParams,
    EmptyResult,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    RequestParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from leafgate.codec.arguments import claimed_arguments
from leafgate.codec.negotiate import MAP_HEADER, negotiate, offered_map
from leafgate.gateway.execute import Requester
from leafgate.gateway.native import NativeOffers
from leafgate.gateway.rights import AS_EVERYBODY, Rights
from leafgate.gateway.runtime import GatewayRuntime, upstream_error
from leafgate.gateway.snapshot import Snapshot
from leafgate.model.call import Asking
from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.mode import META_TOOLS, ExposureMode
from leafgate.model.principal import Principal
from leafgate.ports import NativeUpstream
from leafgate.server.auth.capability_gate import CapabilityGate
from leafgate.server.auth.known_user import present_principal, principal_of
from leafgate.server.caller import ClientCaller
from leafgate.server.clients import Clients
from leafgate.server.meta_tools import Offered, meta_tools, stripped_tools
from leafgate.server.seen_resource import sees_uri
from leafgate.version import __version__

log = logging.getLogger("leafgate.server")

SESSION_HEADER: Final = "mcp-session-id"
STATUS_METHOD: Final = "leafgate/status"
PAGE_SIZE: Final = 200
COMPLETE_KEY: Final = "resultType"
RESOURCE_NOT_FOUND: Final = -32002
# What upstreams offer may change at any time.
NEVER_FRESH: Final[Mapping[CacheableMethod, CacheHint]] = {method: CacheHint() for method in get_args(CacheableMethod)}
INSTRUCTIONS: Final[Mapping[ExposureMode, str]] = {
    ExposureMode.GATEWAY: (
        "Find a tool with tool_browse, read its schema with tool_hydrate, call it with tool_execute. "
        "Long results are shortened; tool_view reads the rest."
    ),
    ExposureMode.TRANSPARENT: (
        "The listed tools have no schemas: get one with tool_hydrate, and call through tool_execute. "
        "Long results are shortened; tool_view reads the rest."
    ),
    ExposureMode.PASSTHROUGH: "Long results are shortened; tool_view reads the rest.",
}

# Logging and subscriptions of the handshake era are deprecated, and still owed to the clients that use them.
warnings.filterwarnings("ignore", category=MCPDeprecationWarning)

Context = ServerRequestContext[Any, Any]
Operation = Callable[[Mapping[str, Any], Asking, Requester], Awaitable[dict[str, Any]]]


@dataclass(frozen=True)
class MapOffer:
    """Which maps clients may ask for, and how one is made ready."""

    default: str | None
    digests: Collection[str]
    prepare: Callable[[str], Awaitable[object]]


@dataclass(frozen=True)
class Surface:
    """What a server shows: the mode, the servers by name, whether schemas can be asked for, how names are written.

    Servers come and go, so their names are asked for each time.
    """

    mode: ExposureMode = ExposureMode.GATEWAY
    servers: Callable[[], Sequence[str]] = tuple
    hydrate: bool = True
    url_safe_names: bool = False


class GatewayServer(Server[Any]):
    """An MCP server with the gateway behind it. Speaks both eras of the protocol."""

    def __init__(
        self,
        runtime: GatewayRuntime,
        *,
        surface: Surface,
        offer: Callable[[], MapOffer],
        status: Callable[[], Mapping[str, Any]],
        primitives: NativeUpstream | None = None,
        rights_of: Callable[[Principal | None], Rights] = lambda principal: AS_EVERYBODY,
        name: str = "leafgate",
    ) -> None:
        self._runtime = runtime
        self._surface = surface
        self._offer = offer
        self._status = status
        self._primitives = primitives
        self._rights_of = rights_of
        self.clients = Clients()
        self._operations: dict[str, Operation] = {
            "tool_browse": runtime.browse,
            "tool_hydrate": runtime.hydrate,
            "tool_execute": runtime.execute,
            "tool_view": runtime.view,
            "resource_browse": runtime.browse_resources,
            "resource_read": runtime.read_resource,
            "prompt_browse": runtime.browse_prompts,
            "prompt_get": runtime.get_prompt,
        }
        super().__init__(
            name,
            version=__version__,
            instructions=INSTRUCTIONS[surface.mode],
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,  # type: ignore[arg-type]  # plain JSON is allowed, and keeps foreign fields
            on_call_tool=self._call_tool,  # type: ignore[arg-type]  # likewise
            on_subscriptions_listen=self._listen,
            cache_hints=NEVER_FRESH,
        )
        self.middleware.append(CapabilityGate(META_TOOLS[surface.mode]))
        self.add_request_handler(STATUS_METHOD, RequestParams, self._tell_status)
        if primitives is not None:
            self._add_native_handlers()

    def create_initialization_options(self, notification_options: Any = None, *args: Any, **kwargs: Any) -> Any:
        told = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(told, *args, **kwargs)

    def _add_native_handlers(self) -> None:
        self.add_request_handler("resources/list", PaginatedRequestParams, self._list_resources)
        self.add_request_handler("resources/templates/list", PaginatedRequestParams, self._list_templates)
        self.add_request_handler("resources/read", ReadResourceRequestParams, self._read_resource)
        self.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        self.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)
        self.add_request_handler("prompts/list", PaginatedRequestParams, self._list_prompts)
        self.add_request_handler("prompts/get", GetPromptRequestParams, self._get_prompt)
        self.add_request_handler("completion/complete", CompleteRequestParams, self._complete)
        self.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)

    # Tools

    async def _list_tools(self, ctx: Context, params: PaginatedRequestParams | None) -> dict[str, Any]:
        self.clients.meet(ctx)
        return _page("tools", await self._tools(self._requester(ctx, _owner_only(ctx))), params)

    async def _tools(self, requester: Requester) -> list[Mapping[str, Any]]:
        shown, surface = await self._runtime.shown_to(requester), self._surface
        offered = Offered(
            servers=self._servers_of(shown),
            hydrate=surface.hydrate,
            resources=len(shown.resources.catalog) > 0,
            prompts=len(shown.prompts.catalog) > 0,
        )
        own = meta_tools(shown, surface.mode, offered)
        if surface.mode is ExposureMode.PASSTHROUGH:
            tools = (await self._runtime.native_to(requester)).tools.values()
            return [*(tool.definition for tool in tools if tool.item.id in shown.catalog), *own]
        if surface.mode is ExposureMode.TRANSPARENT:
            return [*stripped_tools(shown, self._written), *own]
        return own

    def _servers_of(self, shown: Snapshot) -> Sequence[str]:
        """The servers by name: to somebody who does not see everything, those of what they see."""
        if shown is self._runtime.snapshot:
            return self._surface.servers()
        shelves = (shown.tools, shown.resources, shown.prompts)
        return [*dict.fromkeys(item.server for shelf in shelves for item in shelf.catalog)]

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The schema that a client was shown for this tool. Not told it, the SDK lists all tools at every call."""
        if self._surface.mode is not ExposureMode.PASSTHROUGH or name in META_TOOLS[self._surface.mode]:
            return None
        tool = self._runtime.native.tools.get(name)
        if tool is None or not self._rights_of(present_principal()).visibility.sees(tool.item):
            return None
        schema = tool.definition.get("inputSchema")
        return schema if isinstance(schema, Mapping) else None

    def _written(self, tool_id: str) -> str:
        return quote(tool_id, safe="") if self._surface.url_safe_names else tool_id

    async def _call_tool(self, ctx: Context, params: CallToolRequestParams) -> dict[str, Any]:
        self.clients.meet(ctx)
        asking = _owner_only(ctx)
        requester = self._requester(ctx, asking)
        try:
            asking = await self._asking(ctx, asking.owner)
            args = await self._readable(ctx, params.name, params.arguments or {})
            operation = await self._operation(params.name, requester)
        except GatewayError as error:
            return _complete(await self._runtime.refuse("tools/call", error, asking))
        if operation is None:
            return await _natively(self._runtime.call_native(params.name, args, asking, requester))
        if self._surface.url_safe_names and isinstance(args.get("tool_id"), str):
            args = {**args, "tool_id": unquote(args["tool_id"])}
        return _complete(await operation(args, asking, requester))

    async def _operation(self, name: str, requester: Requester) -> Operation | None:
        """What a name stands for: one of our own tools, or None for a server's own where those are listed."""
        if name in META_TOOLS[self._surface.mode]:
            return self._operations[name]
        if self._surface.mode is ExposureMode.PASSTHROUGH:
            return None
        raise GatewayError("ARGS_INVALID", await self._no_such_tool(name, requester))

    async def _readable(self, ctx: Context, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments, with those that came as ids decoded: all of them, or those of the tool to be executed."""
        args = await self._decoded(ctx, args)
        inner = args.get("args")
        if name != "tool_execute" or not isinstance(inner, Mapping):
            return args
        return {**args, "args": await self._decoded(ctx, inner)}

    async def _decoded(self, ctx: Context, args: Mapping[str, Any]) -> Mapping[str, Any]:
        claimed = claimed_arguments(args)
        if claimed is None:
            return args
        offered_map(claimed.map_id, self._offer_to(ctx).digests)
        return await self._runtime.decode_arguments(claimed)

    async def _no_such_tool(self, name: str, requester: Requester) -> str:
        if (await self._runtime.seen_by(requester)).catalog.get(unquote(name)) is not None:
            return "listed tools are called through tool_execute"
        return f"there is no tool of this name; there are {', '.join(META_TOOLS[self._surface.mode])}"

    # Resources and prompts

    async def _list_resources(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        return _page("resources", [*(await self._native(ctx)).resources.values()], params)

    async def _list_templates(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        return _page("resourceTemplates", [*(await self._native(ctx)).templates.values()], params)

    async def _list_prompts(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        return _page("prompts", [prompt.definition for prompt in (await self._native(ctx)).prompts.values()], params)

    async def _read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> dict[str, Any]:
        requester = self._requester(ctx, _owner_only(ctx))
        uri = str(params.uri)

        async def read() -> dict[str, Any]:
            await self._runtime.settled()
            if await self._server_seen(ctx, uri) is None:
                raise GatewayError("RESOURCE_NOT_FOUND", "no server has this resource", path=uri[:240])
            return await self._runtime.read_native(uri, requester)

        return await _natively(read(), uri=uri)

    async def _get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> dict[str, Any]:
        requester = self._requester(ctx, _owner_only(ctx))
        return await _natively(self._runtime.get_prompt_native(params.name, params.arguments or {}, requester))

    async def _complete(self, ctx: Context, params: CompleteRequestParams) -> dict[str, Any]:
        asked = dict(ctx.params or {})
        ref = asked.get("ref") if isinstance(asked.get("ref"), Mapping) else {}
        assert isinstance(ref, Mapping)
        native = await self._native(ctx)
        server = await self._server_of_reference(ctx, native, ref)
        prompt = native.prompts.get(str(ref.get("name")))
        if prompt is not None and ref.get("type") == "ref/prompt":
            asked["ref"] = {**ref, "name": prompt.upstream_name}
        if server is None:
            return {COMPLETE_KEY: "complete", "completion": {"values": []}}
        asked.pop("_meta", None)
        return await _natively(self._runtime.request_native(server, "completion/complete", asked))

    async def _server_of_reference(self, ctx: Context, native: NativeOffers, ref: Mapping[str, Any]) -> str | None:
        assert self._primitives is not None
        able = self._primitives.servers_with("completions")
        if ref.get("type") == "ref/prompt":
            prompt = native.prompts.get(str(ref.get("name")))
            found = None if prompt is None else prompt.server
        else:
            uri = str(ref.get("uri"))
            templates = (await self._runtime.seen_by(self._requester(ctx, _owner_only(ctx)))).offers.templates
            listed = [t.server for t in templates if t.definition.get("uriTemplate") == uri]
            found = listed[0] if listed else await self._server_seen(ctx, uri)
        return found if found in able else None

    async def _subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        uri = str(params.uri)
        server = await self._watched_server(ctx, uri)
        await _natively(_nothing(self._primitives_or_fail().watch(server, uri)))
        self.clients.subscribe(ctx, uri)
        return EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        uri = str(params.uri)
        self.clients.unsubscribe(ctx, uri)
        if not self.clients.anybody_watches(uri):
            server = await self._watched_server(ctx, uri)
            await _natively(_nothing(self._primitives_or_fail().unwatch(server, uri)))
        return EmptyResult()

    async def _listen(self, ctx: Context, params: Any) -> Any:
        """A stateless client's stream of changes; what it wants to watch is watched at the servers first."""
        wanted = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        for uri in wanted:
            server = None if self._primitives is None else await self._server_seen(ctx, uri)
            if server is not None:
                await _natively(_nothing(self._primitives_or_fail().watch(server, uri)))
            elif not self._rights(ctx).visibility.is_whole:
                raise _no_such_resource(uri)
        return await self.clients.listen(ctx, params)

    async def _watched_server(self, ctx: Context, uri: str) -> str:
        server = await self._server_seen(ctx, uri)
        if server is None:
            raise _no_such_resource(uri)
        return server

    async def _server_seen(self, ctx: Context, uri: str) -> str | None:
        """The server that has a resource, as far as the one who asks may know of it."""
        server = self._primitives_or_fail().server_of_resource(uri)
        seen = await self._runtime.seen_by(self._requester(ctx, _owner_only(ctx)))
        return server if server is not None and sees_uri(self._runtime.snapshot, seen, server, uri) else None

    async def _native(self, ctx: Context) -> NativeOffers:
        return await self._runtime.native_to(self._requester(ctx, _owner_only(ctx)))

    def _primitives_or_fail(self) -> NativeUpstream:
        assert self._primitives is not None
        return self._primitives

    # The rest

    async def _set_level(self, ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
        self.clients.set_log_level(ctx, params.level)
        for server in self._primitives_or_fail().servers_with("logging"):
            try:
                await self._primitives_or_fail().request(server, "logging/setLevel", {"level": params.level})
            except UpstreamFailure as failed:
                log.debug("[%s] does not take a log level: %s", server, failed)
        return EmptyResult()

    async def _tell_status(self, ctx: Context, params: RequestParams) -> dict[str, Any]:
        return dict(self._status())

    async def _asking(self, ctx: Context, owner: str) -> Asking:
        headers = getattr(ctx.request, "headers", None) or {}
        meta = (ctx.params or {}).get("_meta")
        wish = meta if isinstance(meta, Mapping) else None
        offer = self._offer_to(ctx)
        digest, form = negotiate(wish, headers.get(MAP_HEADER), offer.default, offer.digests)
        if digest is not None:
            await offer.prepare(digest)  # a map that cannot be had is told before the call is made
        return Asking(owner, digest, form)

    def _offer_to(self, ctx: Context) -> MapOffer:
        """The maps that the one who asks may ask for."""
        offer, allowed = self._offer(), self._rights(ctx).maps
        if allowed is None:
            return offer
        default = offer.default if offer.default in allowed else None
        return replace(offer, default=default, digests=allowed.intersection(offer.digests))

    def _requester(self, ctx: Context, asking: Asking) -> Requester:
        caller = ClientCaller(ctx, _client_of(ctx), self.clients.log_level(ctx))
        principal = principal_of(ctx.request)
        return Requester(
            owner=asking.owner,
            principal=None if principal is None else principal.name,
            ask=caller.approve,
            client=caller,
            rights=self._rights(ctx),
        )

    def _rights(self, ctx: Context) -> Rights:
        """What the one who asks may have. Who starts a gateway as a child has all of it."""
        return AS_EVERYBODY if ctx.request is None else self._rights_of(principal_of(ctx.request))


def _owner_only(ctx: Context) -> Asking:
    """Artifacts belong to the principal; without one to the MCP session (spec 3.8)."""
    principal = principal_of(ctx.request)
    name = None if principal is None else principal.name
    return Asking(_client_of(ctx) if name is None else owner_of(name))


def owner_of(principal: str) -> str:
    """The owner of what a principal keeps; no session has such a name."""
    return f"principal:{principal}"


def principal_behind(owner: str) -> str | None:
    """The principal whom an owner stands for; None for a session."""
    return owner.removeprefix("principal:") if owner.startswith("principal:") else None


def _client_of(ctx: Context) -> str:
    """The same for all requests of one client, as far as that can be known."""
    if ctx.request is None:
        return "local"
    session = ctx.request.headers.get(SESSION_HEADER) or ctx.request.query_params.get("session_id")
    principal = principal_of(ctx.request)
    whose = "" if principal is None or principal.name is None else f" of {principal.name}"
    return f"session:{session}{whose}" if session else f"anonymous{whose}"


def _no_such_resource(uri: str) -> MCPError:
    return MCPError(RESOURCE_NOT_FOUND, "no server has this resource", {"uri": uri})


def _page(key: str, entries: Sequence[Mapping[str, Any]], params: PaginatedRequestParams | None) -> dict[str, Any]:
    """One page of a list; the cursor is the place to go on at."""
    cursor = params.cursor if params is not None else None
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and int(cursor) <= len(entries)):
        raise MCPError(INVALID_PARAMS, "this cursor is not one of ours, or the list has changed")
    start = int(cursor or 0)
    page: dict[str, Any] = {
        COMPLETE_KEY: "complete",
        key: [dict(entry) for entry in entries[start : start + PAGE_SIZE]],
    }
    return page | ({"nextCursor": str(start + PAGE_SIZE)} if start + PAGE_SIZE < len(entries) else {})


async def _natively(work: Awaitable[dict[str, Any]], **about: str) -> dict[str, Any]:
    """A complete result, or an MCP error in our words."""
    try:
        return _complete(await work)
    except GatewayError as error:
        raise MCPError(INVALID_PARAMS, error.body.message, {**error.body.as_json(), **about}) from None
    except UpstreamFailure as failed:
        log.warning("a native request failed: %s", failed.detail)
        body = upstream_error(failed)
        data = failed.rpc_data if failed.rpc_data is not None else {**body.as_json(), **about}
        raise MCPError(failed.rpc_code or INTERNAL_ERROR, body.message, data) from None


def _complete(result: dict[str, Any]) -> dict[str, Any]:
    """The mark that results of the stateless protocol carry; one that asks for input has its own."""
    return {COMPLETE_KEY: "complete", **result}


async def _nothing(work: Awaitable[None]) -> dict[str, Any]:
    await work
    return {}
