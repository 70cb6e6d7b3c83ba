"""The last word on scopes, for every MCP message, on whatever transport it came. In: a request. Out: its result.

Touches nothing. On stdio, and over HTTP without authentication, nobody is asked and everything passes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.types import INVALID_REQUEST

from leafgate.model.errors import ErrorBody
from leafgate.server.auth.known_user import principal_of
from leafgate.server.auth.needed_capability import needed_for


class CapabilityGate:
    """A middleware of the SDK's server."""

    def __init__(self, own_tools: Collection[str]) -> None:
        self._own_tools = own_tools

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        principal = principal_of(ctx.request)
        needed = needed_for(ctx.method, ctx.params, self._own_tools)
        if principal is not None and needed is not None and needed not in principal.capabilities:
            body = ErrorBody("PERMISSION_DENIED", f"your token's scopes do not allow this: it needs {needed}")
            raise MCPError(INVALID_REQUEST, body.message, body.as_json())
        return await call_next(ctx)
