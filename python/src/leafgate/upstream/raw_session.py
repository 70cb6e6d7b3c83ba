"""Asks an MCP session for raw results. In: a ClientSession, a method, params. Out: the result's JSON, untouched.

The SDK's typed results drop unknown fields and refuse unknown content blocks, and a gateway must see both. This is the
only file that reaches into the SDK's private parts; test_raw_session.py fails loudly when they move.
"""

from __future__ import annotations

from typing import Any

from mcp import ClientSession
from mcp.shared.dispatcher import CallOptions


async def raw_request(session: ClientSession, method: str, params: dict[str, Any], *, seconds: float) -> dict[str, Any]:
    """One request. Raises what the SDK raises: MCPError for error answers, timeouts and closed connections."""
    data: dict[str, Any] = {"method": method, "params": params}
    opts: CallOptions = {"timeout": seconds}
    session._stamp(data, opts)
    return await session._dispatcher.send_raw_request(method, data["params"], opts)
