"""The gateway as an MCP server. In: MCP requests. Out: MCP results. Knows the SDK; the gateway behind it does not.

Tool calls never raise across this border: the runtime answers every one. Other requests fail with MCP errors whose
words are ours.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args
from urllib.parse import quote, unquote

from anyio import to_thread
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

from leafgate.codec.negotiate import MAP_HEADER, negotiate
from leafgate.gateway.execute import Requester
from leafgate.gateway.runtime import GatewayRuntime, upstream_error
from leafgate.model.call import Asking
from leafgate.model.errors import ErrorBody, GatewayError, UpstreamFailure
from leafgate.model.mode import META_TOOLS, ExposureMode
from leafgate.ports import NativeUpstream
from leafgate.server.caller import ClientCaller
from leafgate.server.clients import Clients
from leafgate.server.meta_tools import Offered, meta_tools, stripped_tools
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
    prepare: Callable[[str], object]


@dataclass(frozen=True)
class Surface:
    """What a server shows: the mode, the servers by name, whether schemas can be asked for, how names are written."""

    mode: ExposureMode = ExposureMode.GATEWAY
    servers: Sequence[str] = ()
    hydrate: bool = True
    url_safe_names: bool = False


class GatewayServer(Server[Any]):
    """An MCP server with the gateway behind it. Speaks both eras of the protocol."""

    def __init__(
        self,
        runtime: GatewayRuntime,
        *,
        surface: Surface,
        offer: MapOffer,
        status: Callable[[], Mapping[str, Any]],
        primitives: NativeUpstream | None = None,
        name: str = "leafgate",
    ) -> None:
        self._runtime = runtime
        self._surface = surface
        self._offer = offer
        self._prepared: set[str] = set()
        self._status = status
        self._primitives = primitives
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
        return _page("tools", self._tools(), params)

    def _tools(self) -> list[Mapping[str, Any]]:
        snapshot, surface = self._runtime.snapshot, self._surface
        offered = Offered(
            servers=surface.servers,
            hydrate=surface.hydrate,
            resources=len(snapshot.resources.catalog) > 0,
            prompts=len(snapshot.prompts.catalog) > 0,
        )
        own = meta_tools(snapshot, surface.mode, offered)
        if surface.mode is ExposureMode.PASSTHROUGH:
            return [*(tool.definition for tool in self._runtime.native.tools.values()), *own]
        if surface.mode is ExposureMode.TRANSPARENT:
            return [*stripped_tools(snapshot, self._written), *own]
        return own

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The schema that a client was shown for this tool. Not told it, the SDK lists all tools at every call."""
        if self._surface.mode is not ExposureMode.PASSTHROUGH or name in META_TOOLS[self._surface.mode]:
            return None
        tool = self._runtime.native.tools.get(name)
        schema = None if tool is None else tool.definition.get("inputSchema")
        return schema if isinstance(schema, Mapping) else None

    def _written(self, tool_id: str) -> str:
        return quote(tool_id, safe="") if self._surface.url_safe_names else tool_id

    async def _call_tool(self, ctx: Context, params: CallToolRequestParams) -> dict[str, Any]:
        self.clients.meet(ctx)
        try:
            asking = await self._asking(ctx)
        except GatewayError as error:
            return _refusal(error.body)
        requester = self._requester(ctx, asking)
        args = params.arguments or {}
        is_own = params.name in META_TOOLS[self._surface.mode]
        if self._surface.mode is ExposureMode.PASSTHROUGH and not is_own:
            return await _natively(self._runtime.call_native(params.name, args, asking, requester))
        if not is_own:
            return _refusal(ErrorBody("ARGS_INVALID", self._no_such_tool(params.name)))
        if self._surface.url_safe_names and isinstance(args.get("tool_id"), str):
            args = {**args, "tool_id": unquote(args["tool_id"])}
        return _complete(await self._operations[params.name](args, asking, requester))

    def _no_such_tool(self, name: str) -> str:
        if self._runtime.snapshot.catalog.get(unquote(name)) is not None:
            return "listed tools are called through tool_execute"
        return f"there is no tool of this name; there are {', '.join(META_TOOLS[self._surface.mode])}"

    # Resources and prompts

    async def _list_resources(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        return _page("resources", [*self._runtime.native.resources.values()], params)

    async def _list_templates(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        return _page("resourceTemplates", [*self._runtime.native.templates.values()], params)

    async def _list_prompts(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        return _page("prompts", [prompt.definition for prompt in self._runtime.native.prompts.values()], params)

    async def _read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> dict[str, Any]:
        requester = self._requester(ctx, _owner_only(ctx))
        return await _natively(self._runtime.read_native(str(params.uri), requester), uri=str(params.uri))

    async def _get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> dict[str, Any]:
        requester = self._requester(ctx, _owner_only(ctx))
        return await _natively(self._runtime.get_prompt_native(params.name, params.arguments or {}, requester))

    async def _complete(self, ctx: Context, params: CompleteRequestParams) -> dict[str, Any]:
        asked = dict(ctx.params or {})
        ref = asked.get("ref") if isinstance(asked.get("ref"), Mapping) else {}
        assert isinstance(ref, Mapping)
        server = self._server_of_reference(ref)
        prompt = self._runtime.native.prompts.get(str(ref.get("name")))
        if prompt is not None and ref.get("type") == "ref/prompt":
            asked["ref"] = {**ref, "name": prompt.upstream_name}
        if server is None:
            return {COMPLETE_KEY: "complete", "completion": {"values": []}}
        asked.pop("_meta", None)
        return await _natively(self._runtime.request_native(server, "completion/complete", asked))

    def _server_of_reference(self, ref: Mapping[str, Any]) -> str | None:
        assert self._primitives is not None
        able = self._primitives.servers_with("completions")
        if ref.get("type") == "ref/prompt":
            prompt = self._runtime.native.prompts.get(str(ref.get("name")))
            found = None if prompt is None else prompt.server
        else:
            uri = str(ref.get("uri"))
            templates = self._runtime.snapshot.offers.templates
            listed = [t.server for t in templates if t.definition.get("uriTemplate") == uri]
            found = listed[0] if listed else self._primitives.server_of_resource(uri)
        return found if found in able else None

    async def _subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        uri = str(params.uri)
        server = self._watched_server(uri)
        await _natively(_nothing(self._primitives_or_fail().watch(server, uri)))
        self.clients.subscribe(ctx, uri)
        return EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        uri = str(params.uri)
        self.clients.unsubscribe(ctx, uri)
        if not self.clients.anybody_watches(uri):
            await _natively(_nothing(self._primitives_or_fail().unwatch(self._watched_server(uri), uri)))
        return EmptyResult()

    async def _listen(self, ctx: Context, params: Any) -> Any:
        """A stateless client's stream of changes; what it wants to watch is watched at the servers first."""
        for uri in params.notifications.resource_subscriptions or ():
            server = None if self._primitives is None else self._primitives.server_of_resource(str(uri))
            if server is not None:
                await _natively(_nothing(self._primitives_or_fail().watch(server, str(uri))))
        return await self.clients.listen(ctx, params)

    def _watched_server(self, uri: str) -> str:
        server = self._primitives_or_fail().server_of_resource(uri)
        if server is None:
            raise MCPError(RESOURCE_NOT_FOUND, "no server has this resource", {"uri": uri})
        return server

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

    async def _asking(self, ctx: Context) -> Asking:
        headers = getattr(ctx.request, "headers", None) or {}
        meta = (ctx.params or {}).get("_meta")
        wish = meta if isinstance(meta, Mapping) else None
        digest, form = negotiate(wish, headers.get(MAP_HEADER), self._offer.default, self._offer.digests)
        if digest is not None and digest not in self._prepared:
            await to_thread.run_sync(self._offer.prepare, digest)
            self._prepared.add(digest)
        return Asking(_owner_only(ctx).owner, digest, form)

    def _requester(self, ctx: Context, asking: Asking) -> Requester:
        caller = ClientCaller(ctx, asking.owner, self.clients.log_level(ctx))
        return Requester(owner=asking.owner, ask=caller.approve, client=caller)


def _owner_only(ctx: Context) -> Asking:
    """Artifacts belong to the MCP session; clients of the stateless protocol have none (spec 3.5)."""
    headers = getattr(ctx.request, "headers", None) or {}
    session = headers.get(SESSION_HEADER)
    return Asking(f"session:{session}" if session else "anonymous" if headers else "local")


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


def _refusal(body: ErrorBody) -> dict[str, Any]:
    text = json.dumps(body.as_json(), separators=(",", ":"))
    return {COMPLETE_KEY: "complete", "content": [{"type": "text", "text": text}], "isError": True}
