"""The gateway as an MCP server. In: MCP requests. Out: MCP results. Knows the SDK; the gateway behind it does not.

Nothing raises across this border: the runtime answers every call, and a wish for an unknown map is answered here.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anyio import to_thread
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    Tool,
)

from leafgate.codec.negotiate import MAP_HEADER, negotiate
from leafgate.gateway.runtime import ProxyRuntime
from leafgate.model.call import Asking
from leafgate.model.errors import ErrorBody, GatewayError
from leafgate.server.meta_tools import meta_tools
from leafgate.version import __version__

SESSION_HEADER: Final = "mcp-session-id"
STATUS_METHOD: Final = "leafgate/status"
INSTRUCTIONS: Final = (
    "Find a tool with tool_browse, read its schema with tool_hydrate, call it with tool_execute. "
    "Long results are shortened; tool_view reads the rest."
)

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True)
class MapOffer:
    """Which maps clients may ask for, and how one is made ready."""

    default: str | None
    digests: Collection[str]
    prepare: Callable[[str], object]


def make_mcp_server(
    runtime: ProxyRuntime, servers: Sequence[str], offer: MapOffer, status: Callable[[], Mapping[str, Any]]
) -> Server[Any]:
    """An MCP server with the meta-tools. Speaks both eras of the protocol."""
    operations: dict[str, Callable[[Mapping[str, Any], Asking], Awaitable[dict[str, Any]]]] = {
        "tool_browse": runtime.browse,
        "tool_hydrate": runtime.hydrate,
        "tool_execute": runtime.execute,
        "tool_view": runtime.view,
    }

    async def list_tools(ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[Tool.model_validate(tool) for tool in meta_tools(runtime.snapshot, servers)])

    async def call_tool(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        operation = operations.get(params.name)
        if operation is None:
            known = ", ".join(operations)
            return _refusal(ErrorBody("ARGS_INVALID", f"there is no tool of this name; there are {known}"))
        try:
            asking = await _asking(ctx, offer)
        except GatewayError as error:
            return _refusal(error.body)
        return CallToolResult.model_validate(await operation(params.arguments or {}, asking))

    async def tell_status(ctx: Context, params: RequestParams) -> dict[str, Any]:
        return dict(status())

    server: Server[Any] = Server(
        "leafgate",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.add_request_handler(STATUS_METHOD, RequestParams, tell_status)
    return server


async def _asking(ctx: Context, offer: MapOffer) -> Asking:
    headers = getattr(ctx.request, "headers", None) or {}
    meta = (ctx.params or {}).get("_meta")
    digest, form = negotiate(
        meta if isinstance(meta, Mapping) else None, headers.get(MAP_HEADER), offer.default, offer.digests
    )
    if digest is not None:
        await to_thread.run_sync(offer.prepare, digest)
    session = headers.get(SESSION_HEADER)
    owner = f"session:{session}" if session else "anonymous" if headers else "local"
    return Asking(owner, digest, form)


def _refusal(body: ErrorBody) -> CallToolResult:
    text = json.dumps(body.as_json(), separators=(",", ":"))
    return CallToolResult.model_validate({"content": [{"type": "text", "text": text}], "isError": True})
