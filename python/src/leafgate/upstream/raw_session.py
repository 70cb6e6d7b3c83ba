"""Asks an MCP session for raw results. In: a ClientSession, a method, params. Out: the result's JSON, untouched.

The SDK's typed results drop unknown fields and refuse unknown content blocks, and a gateway must see both. This is the
only file that reaches into the SDK's private parts; test_supervise.py fails loudly when they move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.types import CLIENT_CAPABILITIES_META_KEY, REQUEST_TIMEOUT

# The SDK's clock starts when a request is written; a server that reads nothing must not hold the writer for ever.
WRITE_SECONDS: Final = 1.0


async def raw_request(
    session: ClientSession,
    method: str,
    params: dict[str, Any],
    *,
    seconds: float,
    on_progress: ProgressFnT | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One request. Raises what the SDK raises: MCPError for error answers, timeouts and closed connections."""
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    opts: CallOptions = {"timeout": seconds}
    if on_progress is not None:
        opts["on_progress"] = on_progress
    session._stamp(data, opts)
    stamped = data["params"].get("_meta", {})
    if capabilities is not None and CLIENT_CAPABILITIES_META_KEY in stamped:
        # The server of a stateless request must see what the client behind us can do, not what we can.
        stamped[CLIENT_CAPABILITIES_META_KEY] = dict(capabilities)
    try:
        with anyio.fail_after(seconds + WRITE_SECONDS):
            return await session._dispatcher.send_raw_request(method, data["params"], opts)
    except TimeoutError:
        raise MCPError(REQUEST_TIMEOUT, f"{method} could not be written in time") from None
