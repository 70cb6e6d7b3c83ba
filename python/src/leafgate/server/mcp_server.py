"""The gateway as an MCP server: MCP requests in, MCP results out. The gateway behind it does not know the SDK.

Tool calls never raise: the runtime answers every one. Other requests fail with MCP errors whose messages are ours.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Final, get_args
from urllib.parse import unquote

from anyio import move_on_after
from mcp import MCPDeprecationWarning, MCPError, types
from mcp.server import NotificationOptions, Server, ServerRequestContext, caching
from mcp.server.caching import CacheableMethod
from mcp.server.context import CallNext, HandlerResult
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from leafgate.catalog.skills import SKILLS
from leafgate.codec.negotiate import ARGUMENTS_KEY, LEAF_EXTENSION, check_map_id, read_argument_ids
from leafgate.gateway.native import APPS, NativeOffers, shows_apps
from leafgate.gateway.result import CallResult, Failure
from leafgate.gateway.runtime import GatewayRuntime, upstream_error
from leafgate.gateway.snapshot import Snapshot
from leafgate.gateway.workload import estimate_size
from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.request import Request
from leafgate.model.tool import META_TOOLS, ExposureMode
from leafgate.ports import TASKS, CacheHint, OfferKind, Upstream, read_cache_hint
from leafgate.server.auth.capabilities import present_principal
from leafgate.server.clients import Clients, McpChannel, client_of, one_client
from leafgate.server.front import ARRIVAL, Arrival, CapabilityGate, Front
from leafgate.server.meta_tools import define_for, meta_tools, stripped_tools
from leafgate.server.tasks import TaskParams, TaskUpdateParams, check_task_request, listen_with_tasks, read_task_ids
from leafgate.upstream.raw_session import fits_template
from leafgate.version import __version__

log = logging.getLogger("leafgate.server")

STATUS_METHOD: Final = "leafgate/status"
PAGE_SIZE: Final = 200
PAGE_BYTES: Final = 4 * 1024 * 1024  # some clients refuse messages over 10 MiB
INSTRUCTIONS_SECONDS: Final = 3  # for servers that are starting: clients do not wait long for the first answer
RESOURCE_NOT_FOUND: Final = -32002
# A result without a hint may change at any time.
NEVER_FRESH: Final = {method: caching.CacheHint() for method in get_args(CacheableMethod)}
# The rights of a caller and the rules for what is read may change with the configuration.
LONGEST_READ_TTL_MS: Final = 60 * 60 * 1000
MAX_WATCHED: Final = 1_000  # resources of one client
_KIND_OF_LIST: Final[Mapping[str, OfferKind]] = {
    "resources": "resources",
    "resourceTemplates": "templates",
    "prompts": "prompts",
    "skills": "skills",
}
INSTRUCTIONS: Final[Mapping[ExposureMode, str]] = {
    ExposureMode.GATEWAY: (
        "Find a tool with tool_browse and call it with tool_execute; tool_hydrate gives schemas that tool_browse did "
        "not show. "
        "Long results are shortened; tool_view reads the rest."
    ),
    ExposureMode.TRANSPARENT: (
        "The listed tools have no schemas: get one with tool_hydrate, by the tool's name, before the first call. "
        "Long results are shortened; tool_view reads the rest."
    ),
    ExposureMode.PASSTHROUGH: "Long results are shortened; tool_view reads the rest.",
}

# Logging and subscriptions of the handshake era are deprecated, and still owed to the clients that use them.
warnings.filterwarnings("ignore", category=MCPDeprecationWarning)

Context = ServerRequestContext[Any, Any]
PageParams = types.PaginatedRequestParams | None
Entries = Callable[[NativeOffers], Iterable[Mapping[str, Any]]]
Operation = Callable[[Mapping[str, Any], Request], Awaitable[CallResult]]


@dataclass(frozen=True)
class Surface:
    """What a server shows. Servers come and go, so their names are read each time."""

    mode: ExposureMode = ExposureMode.GATEWAY
    servers: Callable[[], Sequence[str]] = tuple
    hydrate: bool = True


class GatewayServer(Server[Any]):
    """An MCP server with the gateway behind it. Speaks both eras of the protocol."""

    def __init__(
        self,
        runtime: GatewayRuntime,
        *,
        surface: Surface,
        front: Front,
        status: Callable[[], Mapping[str, Any]],
        primitives: Upstream | None = None,
        name: str = "leafgate",
    ) -> None:
        self._runtime = runtime
        self._surface = surface
        self.front = front
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
            lifespan=one_client,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,  # type: ignore[arg-type]  # plain JSON is allowed, and keeps foreign fields
            on_call_tool=self._call_tool,  # type: ignore[arg-type]  # likewise
            on_subscriptions_listen=self._listen,
            cache_hints=NEVER_FRESH,
        )
        gate = CapabilityGate(META_TOOLS[surface.mode], front.report_refusal)
        self.middleware += [gate, self._describe]
        self.add_request_handler(STATUS_METHOD, types.RequestParams, self._tell_status)
        if primitives is not None:
            self._add_native_handlers()
        if front.maps.digests:
            self.extensions[LEAF_EXTENSION] = {"forms": ["ids", "packed"]}
        if runtime.keeps_tasks:
            self.extensions[TASKS] = {}
            self.add_request_handler("tasks/get", TaskParams, self._get_task)
            self.add_request_handler("tasks/update", TaskUpdateParams, self._update_task)
            self.add_request_handler("tasks/cancel", TaskParams, self._cancel_task)

    def create_initialization_options(self, notification_options: Any = None, *args: Any, **kwargs: Any) -> Any:
        options = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(options, *args, **kwargs)

    async def _describe(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A middleware that completes how the gateway describes itself.

        A plain client gets the instructions of servers too. The SDK declares extensions to clients of 2026-07-28 only;
        hosts before that look for them.
        """
        result = await call_next(ctx)
        if ctx.method not in ("initialize", "server/discover") or not isinstance(result, dict):
            return result
        if self._surface.mode is ExposureMode.PASSTHROUGH:
            with move_on_after(INSTRUCTIONS_SECONDS):
                await self._runtime.wait_for_catalog()
            request = self._request(ctx)
            theirs = (await self._runtime.native_to(request)).instructions
            both = "\n\n".join(filter(None, (result.get("instructions"), theirs)))
            result = {**result, "instructions": await self._runtime.recheck(both, request)}
        extensions = {id: settings for id, settings in self.extensions.items() if id != TASKS}  # stateless only
        if ctx.method != "initialize" or not extensions:
            return result
        return {**result, "capabilities": {**result["capabilities"], "extensions": extensions}}

    def _add_native_handlers(self) -> None:
        def list_of(key: str, entries: Entries) -> Any:
            return types.PaginatedRequestParams, partial(self._list_native, key, entries)

        handlers: dict[str, tuple[Any, Any]] = {
            "resources/list": list_of("resources", lambda native: native.resources.values()),
            "resources/templates/list": list_of("resourceTemplates", lambda native: native.templates.values()),
            "prompts/list": list_of("prompts", lambda native: (each.definition for each in native.prompts.values())),
            "resources/read": (types.ReadResourceRequestParams, self._read_resource),
            "resources/subscribe": (types.SubscribeRequestParams, self._subscribe),
            "resources/unsubscribe": (types.UnsubscribeRequestParams, self._unsubscribe),
            "prompts/get": (types.GetPromptRequestParams, self._get_prompt),
            "completion/complete": (types.CompleteRequestParams, self._complete),
            "logging/setLevel": (types.SetLevelRequestParams, self._set_level),
            "skills/list": list_of("skills", lambda native: (each.definition for each in native.skills.values())),
            "skills/get": (types.ReadResourceRequestParams, self._get_skill),
            "resources/directory/read": (types.ReadResourceRequestParams, self._read_directory),
        }
        self.extensions[SKILLS] = {"directoryRead": True}
        if self._surface.mode is ExposureMode.PASSTHROUGH:
            self.extensions[APPS] = {}
        for method, (params, handler) in handlers.items():
            self.add_request_handler(method, params, handler)

    # Tools

    async def _list_tools(self, ctx: Context, params: PageParams) -> dict[str, Any]:
        await self._prepare_list("tools", ctx, params)
        request = self._request(ctx)
        surface = self._surface
        # Which meta-tools the gateway lists depends on the other lists too.
        others = _KIND_OF_LIST.values() if surface.mode is ExposureMode.GATEWAY else ()
        hint = self._runtime.list_hint(["tools", *others])
        view = await self._runtime.shown_to(request, with_app_tools=shows_apps(request.client))
        if view is self._runtime.snapshot:
            servers = surface.servers()
        else:  # a caller who does not see everything sees the servers of the items that it sees
            shelves = (view.tools, view.resources, view.prompts)
            servers = [*dict.fromkeys(item.server for shelf in shelves for item in shelf.catalog)]
        tools = meta_tools(view, surface.mode, servers, hydrate=surface.hydrate)
        if surface.mode is not ExposureMode.GATEWAY:
            native = (await self._runtime.native_to(request)).tools.values()
            listed = [tool for tool in native if tool.item.id in view.catalog]
            is_whole = surface.mode is ExposureMode.PASSTHROUGH
            takes_any = request.client is None or request.client.takes_any_json
            tools += [define_for(tool, takes_any) for tool in listed] if is_whole else stripped_tools(listed)
        is_for_all = view is self._runtime.snapshot and not view.has_app_tools
        page = await self._write_page("tools", tools, params, request)
        return page | self._hint_for(request, hint, is_for_all=is_for_all)

    async def _write_page(
        self, key: str, entries: Sequence[Mapping[str, Any]], params: PageParams, request: Request
    ) -> dict[str, Any]:
        """One page of a list, without the special tokens of the map of the model that reads it."""
        page = _page(key, entries, params)
        return page if request.reader_map is None else await self._runtime.recheck(page, request)

    async def _prepare_list(self, key: str, ctx: Context, params: PageParams) -> None:
        """Wait for servers that are starting: many clients list once and never again."""
        await self._runtime.wait_for_catalog()
        if params is None or params.cursor is None:
            self.clients.note_list(ctx, key, self._runtime.catalog_version)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The schema that a client saw for this tool. Without it the SDK's endpoint lists all tools at every call."""
        if self._surface.mode is not ExposureMode.PASSTHROUGH or name in META_TOOLS[self._surface.mode]:
            return None
        tool = self._runtime.native.tools.get(name)
        if tool is None or not self.front.access.rights_of(present_principal()).visibility.sees(tool.item):
            return None
        schema = tool.definition.get("inputSchema")
        return schema if isinstance(schema, Mapping) else None

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        self.clients.meet(ctx)
        arrival = self._arrival(ctx)
        request = self._request(ctx, arrival)
        try:
            if arrival.refusal is not None:
                raise arrival.refusal
            if request.map_digest is not None:  # a map that is not available is reported before the call is made
                request = replace(request, encoder=await self.front.maps.prepare(request.map_digest))
        except GatewayError as error:
            without_ids = replace(request, map_digest=None)
            return _complete((await self._runtime.refuse("tools/call", error, without_ids)).as_mcp(request.envelope))
        try:
            args, tokens = await self._read_arguments(request, params.name, params.arguments or {})
            request = replace(request, argument_tokens=tokens) if tokens is not None else request
            operation = await self._operation(params.name, request)
        except GatewayError as error:
            return _complete((await self._runtime.refuse("tools/call", error, request)).as_mcp(request.envelope))
        if operation is None:
            with _mcp_errors():
                result = await self._runtime.call_native(params.name, args, request)
                if isinstance(result, Failure) and self._is_unknown_tool(result):
                    raise result.as_exception()
                return _complete(result.as_mcp(request.envelope))
        if isinstance(args.get("tool_id"), str):
            args = {**args, "tool_id": await self._read_tool_id(args["tool_id"], request)}
        return _complete((await operation(args, request)).as_mcp(request.envelope))

    def _is_unknown_tool(self, failure: Failure) -> bool:
        """Whether a plain client gets an error of the protocol, as it does from a server that has no such tool."""
        return self._surface.mode is ExposureMode.PASSTHROUGH and failure.error.error == "HYDRATE_FAILED"

    async def _operation(self, name: str, request: Request) -> Operation | None:
        """What a name stands for: a tool of the gateway, or None for a tool of a server where those are listed."""
        own = META_TOOLS[self._surface.mode]
        if name in own:
            return self._operations[name]
        if self._surface.mode is not ExposureMode.GATEWAY:
            return None
        if (await self._runtime.seen_by(request)).catalog.get(unquote(name)) is not None:
            raise GatewayError("ARGS_INVALID", "tools of servers are called through tool_execute")
        raise GatewayError("ARGS_INVALID", f"there is no tool of this name; there are {', '.join(own)}")

    async def _read_tool_id(self, text: str, request: Request) -> str:
        """The id that a client means: it may be percent-encoded, or a name in a list without ids."""
        if self._surface.mode is ExposureMode.TRANSPARENT:
            await self._runtime.wait_for_catalog()
            tool = (await self._runtime.native_to(request)).tools.get(text)
            if tool is not None:
                return tool.item.id
        return unquote(text)

    async def _read_arguments(
        self, request: Request, name: str, args: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], int | None]:
        """The arguments, with those that came as ids decoded: all of them, or those of the tool to be executed; and
        the number of those ids, if there were any."""
        args, tokens = await self._decode(request, args)
        inner = args.get("args")
        if name != "tool_execute" or not isinstance(inner, Mapping):
            return args, tokens
        decoded, more = await self._decode(request, inner)
        return {**args, "args": decoded}, tokens if more is None else (tokens or 0) + more

    async def _decode(self, request: Request, args: Mapping[str, Any]) -> tuple[Mapping[str, Any], int | None]:
        claimed = read_argument_ids(args) if ARGUMENTS_KEY in args else None
        if claimed is None:
            return args, None
        check_map_id(claimed.map_id, self.front.maps.narrow_to(request.rights)[1])
        return await self._runtime.decode_arguments(claimed), len(claimed.ids)

    # Resources and prompts

    async def _list_native(self, key: str, entries: Entries, ctx: Context, params: PageParams) -> dict[str, Any]:
        await self._prepare_list(key, ctx, params)
        request, hint = self._request(ctx), self._runtime.list_hint([_KIND_OF_LIST[key]])
        page = await self._write_page(key, [*entries(await self._runtime.native_to(request))], params, request)
        return page | self._hint_for(request, hint)

    def _hint_for(self, request: Request, hint: CacheHint, *, is_for_all: bool = True) -> dict[str, Any]:
        """The fields of a hint, narrowed: where callers have rights of their own, nothing is the same for all."""
        has_rights = self.front.asks_for_tokens or not request.rights.visibility.is_whole
        return hint.narrow(CacheHint(LONGEST_READ_TTL_MS, is_for_all and not has_rights)).as_json()

    def _narrow_read(self, request: Request, result: Mapping[str, Any]) -> dict[str, Any]:
        """A read with its server's hint narrowed; a question to the client has none."""
        if result.get("resultType") == "input_required":
            return dict(result)
        return _complete({**result, **self._hint_for(request, read_cache_hint(result))})

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        request, uri = self._request(ctx), str(params.uri)
        with _not_found_in_era(ctx), _mcp_errors(uri=uri):
            await self._runtime.wait_for_catalog()
            if await self._server_seen(request, uri) is None:
                raise GatewayError("RESOURCE_NOT_FOUND", "no server has this resource", path=uri[:240])
            return self._narrow_read(request, await self._runtime.read_native(uri, request))

    async def _get_skill(self, ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        request = self._request(ctx)
        with _mcp_errors(uri=str(params.uri)):
            skill, hint = await self._runtime.get_skill(str(params.uri), request)
            return _complete({"skill": skill, **self._hint_for(request, hint)})

    async def _read_directory(self, ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        cursor = (ctx.params or {}).get("cursor")
        page = {} if cursor is None else {"cursor": cursor}
        request = self._request(ctx)
        with _mcp_errors(uri=str(params.uri)):
            return self._narrow_read(request, await self._runtime.read_directory(str(params.uri), page, request))

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> dict[str, Any]:
        with _mcp_errors():
            args = params.arguments or {}
            return _complete(await self._runtime.get_prompt_native(params.name, args, self._request(ctx)))

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> dict[str, Any]:
        await self._runtime.wait_for_catalog()
        request = self._request(ctx)
        fields: dict[str, Any] = {key: value for key, value in (ctx.params or {}).items() if key != "_meta"}
        ref: Mapping[str, Any] = fields["ref"] if isinstance(fields.get("ref"), Mapping) else {}
        if ref.get("type") == "ref/prompt":
            prompt = (await self._runtime.native_to(request)).prompts.get(str(ref.get("name")))
            server = None if prompt is None else prompt.server
            fields["ref"] = ref if prompt is None else {**ref, "name": prompt.upstream_name}
        else:
            uri = str(ref.get("uri"))
            templates = (await self._runtime.seen_by(request)).offers.templates
            listed = [each.server for each in templates if each.definition.get("uriTemplate") == uri]
            server = listed[0] if listed else await self._server_seen(request, uri)
        if server is None or server not in self._upstream.servers_with("completions"):
            return _complete({"completion": {"values": []}})
        with _mcp_errors():
            await self._runtime.admit_read(
                "prompt_get" if ref.get("type") == "ref/prompt" else "resource_read", request
            )
            return _complete(await self._runtime.request_native(server, "completion/complete", fields, request))

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        uri, request = str(params.uri), self._request(ctx)
        server = await self._watched_server(request, uri)
        client = self.clients.meet(ctx)
        with _mcp_errors():
            if len(client.subscriptions) >= MAX_WATCHED:
                raise GatewayError("RATE_LIMITED", f"a client may watch {MAX_WATCHED} resources")
            await self._runtime.admit_read("resource_read", request)
            await self._upstream.watch(server, uri)
        client.subscriptions.add(uri)
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        uri = str(params.uri)
        client_of(ctx).subscriptions.discard(uri)
        if not self.clients.is_watched(uri):
            server = await self._watched_server(self._request(ctx), uri)
            with _mcp_errors():
                await self._upstream.unwatch(server, uri)
        return types.EmptyResult()

    async def _listen(self, ctx: Context, params: Any) -> Any:
        """A stateless client's stream of changes; what it wants to watch is watched at the servers first.

        As a list waits for servers that are starting, so does the stream: their start is not a change.
        """
        await self._runtime.wait_for_catalog()
        request = self._request(ctx)
        uris = [*map(str, params.notifications.resource_subscriptions or ())]
        with _mcp_errors():
            if len(uris) > MAX_WATCHED:
                raise GatewayError("RATE_LIMITED", f"a client may watch {MAX_WATCHED} resources")
        for uri in uris:
            server = None if self._primitives is None else await self._server_seen(request, uri)
            if server is not None:
                with _mcp_errors():
                    await self._runtime.admit_read("resource_read", request)
                    await self._upstream.watch(server, uri)
            elif not request.rights.visibility.is_whole:
                raise _no_such_resource(uri)
        ids = [id for id in read_task_ids(params, request.client) if await self._runtime.knows_task(id, request)]
        if not ids:
            return await self.clients.listen(ctx, params)
        get_task = partial(self._runtime.get_task, request=request)
        return await listen_with_tasks(self.clients.listen, ctx, params, ids, get_task)

    async def _watched_server(self, request: Request, uri: str) -> str:
        await self._runtime.wait_for_catalog()
        server = await self._server_seen(request, uri)
        if server is None:
            raise _no_such_resource(uri)
        return server

    async def _server_seen(self, request: Request, uri: str) -> str | None:
        """The server that has a resource, as far as the caller may know of it."""
        address = await self._runtime.address_of(uri, request)
        if address is not None:
            return address[0]
        server = self._upstream.server_of_resource(uri)
        view = await self._runtime.seen_by(request)
        return server if server is not None and sees_uri(self._runtime.snapshot, view, server, uri) else None

    @property
    def _upstream(self) -> Upstream:
        assert self._primitives is not None
        return self._primitives

    # Tasks

    async def _get_task(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        arrival = self._arrival(ctx)
        request = self._task_request(ctx, params, arrival)
        with _mcp_errors():
            if arrival.refusal is not None:
                raise arrival.refusal
            return _complete(await self._runtime.get_task(params.task_id, request))

    async def _update_task(self, ctx: Context, params: TaskUpdateParams) -> dict[str, Any]:
        request = self._task_request(ctx, params)
        with _mcp_errors():
            await self._runtime.update_task(params.task_id, params.input_responses, request)
        return _complete({})

    async def _cancel_task(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        request = self._task_request(ctx, params)
        with _mcp_errors():
            await self._runtime.cancel_task(params.task_id, request)
        return _complete({})

    def _task_request(self, ctx: Context, params: TaskParams, arrival: Arrival | None = None) -> Request:
        request = self._request(ctx, arrival)
        check_task_request(ctx, request.client, params.task_id)
        return request

    # The rest

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        await self._runtime.wait_for_catalog()
        client_of(ctx).log_level = params.level
        for server in self._upstream.servers_with("logging"):
            try:
                await self._upstream.request(server, "logging/setLevel", {"level": params.level})
            except UpstreamFailure as failed:
                log.debug("[%s] does not take a log level: %s", server, failed)
        return types.EmptyResult()

    async def _tell_status(self, ctx: Context, params: types.RequestParams) -> dict[str, Any]:
        return dict(self._status())

    def _request(self, ctx: Context, arrival: Arrival | None = None) -> Request:
        """The request as it was made at the front, with the way back to its client."""
        arrival = arrival or self._arrival(ctx)
        channel = McpChannel(ctx, arrival.client, self.extensions, user=arrival.user)
        params = ctx.session.client_params
        name = "" if params is None else params.client_info.name
        return replace(arrival.request, client=channel, ask=channel.approve, client_name=name)

    def _arrival(self, ctx: Context) -> Arrival:
        """How the message arrived: through our HTTP layers, another HTTP application, or a stream of this process."""
        if ctx.request is None:
            return self.front.admit_local({"method": ctx.method, "params": ctx.params})
        arrival = ctx.request.scope.get(ARRIVAL)
        return arrival or self.front.admit(ctx.request.scope, {"method": ctx.method, "params": ctx.params})


def _no_such_resource(uri: str) -> MCPError:
    return MCPError(RESOURCE_NOT_FOUND, "no server has this resource", {"uri": uri})


_CURSOR: Final = re.compile(r"[0-9]{1,9}")  # Python refuses to read numbers of more than 4,300 digits


def _page(key: str, entries: Sequence[Mapping[str, Any]], params: PageParams) -> dict[str, Any]:
    """One page of a list; the cursor is the place to go on at."""
    cursor = params.cursor if params is not None else None
    if cursor is not None and not (_CURSOR.fullmatch(cursor) and int(cursor) <= len(entries)):
        raise MCPError(types.INVALID_PARAMS, "this cursor is not one of ours, or the list has changed")
    start = int(cursor or 0)
    end, size = start, 0
    for entry in entries[start : start + PAGE_SIZE]:
        size += estimate_size(entry, limit=PAGE_BYTES)
        if size > PAGE_BYTES and end > start:
            break
        end += 1
    page = _complete({key: [dict(entry) for entry in entries[start:end]]})
    return page | ({"nextCursor": str(end)} if end < len(entries) else {})


@contextmanager
def _not_found_in_era(ctx: Context) -> Iterator[None]:
    """A resource that no server has: -32002 in the handshake era, which a server of the stateless one writes -32602."""
    try:
        yield
    except MCPError as error:
        if error.code != types.INVALID_PARAMS or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise
        raise MCPError(RESOURCE_NOT_FOUND, error.message, error.data) from None


@contextmanager
def _mcp_errors(**about: str) -> Iterator[None]:
    """Failures of the gateway and of its servers become MCP errors in our words."""
    try:
        yield
    except GatewayError as error:
        code = types.INTERNAL_ERROR if error.body.retryable else types.INVALID_PARAMS
        raise MCPError(code, error.body.message, {**error.body.as_json(), **about}) from None
    except UpstreamFailure as failed:
        log.warning("a native request failed: %s", failed.describe())
        log.debug("a native request failed: %s", failed.detail)
        body = upstream_error(failed)
        data = failed.rpc_data if failed.rpc_data is not None else {**body.as_json(), **about}
        raise MCPError(failed.rpc_code or types.INTERNAL_ERROR, body.message, data) from None


class _Null(Enum):
    """A null that the SDK writes. It leaves out members that are None."""

    NULL = None


def _complete(result: Mapping[str, Any]) -> dict[str, Any]:
    """The mark that results of the stateless protocol carry; one that asks for input has its own."""
    is_null = "structuredContent" in result and result["structuredContent"] is None
    return {"resultType": "complete", **result, **({"structuredContent": _Null.NULL} if is_null else {})}


def sees_uri(whole: Snapshot, visible: Snapshot, server: str, uri: str) -> bool:
    """Whether a caller sees a resource: a listed one by its id, one that is not listed by the templates."""
    if whole is visible:
        return True
    if _lists(whole, server, uri):
        return _lists(visible, server, uri)
    templates = (each.definition.get("uriTemplate") for each in visible.offers.templates if each.server == server)
    return any(fits_template(template, uri) for template in templates)


def _lists(snapshot: Snapshot, server: str, uri: str) -> bool:
    return any(each.server == server and each.definition.get("uri") == uri for each in snapshot.offers.resources)
