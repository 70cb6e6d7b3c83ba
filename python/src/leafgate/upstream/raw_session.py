"""Asks an MCP session for raw results. In: a ClientSession, a method, params. Out: the result's JSON, untouched.

The SDK's typed results drop unknown fields and refuse unknown content blocks, and a gateway must see both. This is the
only file that reaches into the SDK's private parts; test_supervise.py fails loudly when they move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio
import anyio.lowlevel
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.types import CLIENT_CAPABILITIES_META_KEY, REQUEST_TIMEOUT

# The SDK's clock starts when a request is written; a server that reads nothing must not hold the writer for ever.
WRITE_SECONDS: Final = 1.0
# A client that does not take its progress must not hold its result back for long.
PROGRESS_SECONDS: Final = 1.0


class _Progress:
    """Passes progress on, and knows when all of it is: the SDK starts a task for each, which the result overtakes."""

    def __init__(self, tell: ProgressFnT) -> None:
        self._tell = tell
        self._under_way = 0
        self._told = anyio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self._under_way += 1
        try:
            await self._tell(progress, total, message)
        finally:
            self._under_way -= 1
            self._told.set()

    async def passed_on(self) -> None:
        await anyio.lowlevel.checkpoint()  # tasks that were started for what came before the result begin now
        if not self._under_way:
            return
        with anyio.move_on_after(PROGRESS_SECONDS):
            while self._under_way:
                self._told = anyio.Event()
                await self._told.wait()


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
    progress = None if on_progress is None else _Progress(on_progress)
    if progress is not None:
        opts["on_progress"] = progress
    session._stamp(data, opts)
    stamped = data["params"].get("_meta", {})
    if capabilities is not None and CLIENT_CAPABILITIES_META_KEY in stamped:
        # The server of a stateless request must see what the client behind us can do, not what we can.
        stamped[CLIENT_CAPABILITIES_META_KEY] = dict(capabilities)
    try:
        with anyio.fail_after(seconds + WRITE_SECONDS):
            result = await session._dispatcher.send_raw_request(method, data["params"], opts)
    except TimeoutError:
        raise MCPError(REQUEST_TIMEOUT, f"{method} could not be written in time") from None
    if progress is not None:
        await progress.passed_on()
    return result
