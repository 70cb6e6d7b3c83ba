"""Says what an exception from a live upstream means. In: any exception. Out: an UpstreamFailure with one of our codes.

Touches nothing. The exception's text is kept as detail for the log; nothing of it reaches the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import anyio
import httpx2
from mcp import MCPError
from mcp.types import CONNECTION_CLOSED, MISSING_REQUIRED_CLIENT_CAPABILITY, REQUEST_TIMEOUT

from leafgate.model.errors import ErrorCode, UpstreamFailure

# What the SDK answers with where an HTTP server refused a request without words of MCP.
_STAND_INS: Final = ("Server returned an error response", "Session terminated", "Not Found")

_BY_RPC_CODE: Final[dict[int, ErrorCode]] = {
    REQUEST_TIMEOUT: "UPSTREAM_TIMEOUT",
    CONNECTION_CLOSED: "UPSTREAM_UNAVAILABLE",
}
_BY_STATUS: Final[dict[int, ErrorCode]] = {
    401: "AUTH_FAILED",
    403: "PERMISSION_DENIED",
    404: "UPSTREAM_UNAVAILABLE",  # the session is gone, or the endpoint: both end by connecting anew
    408: "UPSTREAM_TIMEOUT",
    429: "RATE_LIMITED",
    502: "UPSTREAM_UNAVAILABLE",
    503: "UPSTREAM_UNAVAILABLE",
    504: "UPSTREAM_TIMEOUT",
}


@dataclass(frozen=True)
class SaidByServer:
    """Marks the data of an error that came over the wire: the SDK uses two of the codes for failures of its own."""

    data: Any


def classify(error: BaseException, http_status: int | None = None) -> UpstreamFailure:
    """The failure that this exception stands for. The SDK tells no HTTP status; who saw one hands it in."""
    error = _telling(error)
    if isinstance(error, UpstreamFailure):
        return error
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, MCPError):
        # A missing capability of the client is the protocol's own error, and its data the protocol's own words.
        data = error.data if error.code == MISSING_REQUIRED_CLIENT_CAPABILITY else None
        code = _BY_STATUS.get(http_status or 0) if error.message in _STAND_INS else None
        return UpstreamFailure(code or _code(error), said, rpc_code=error.code, rpc_data=data)
    return UpstreamFailure(_code(error), said)


_BY_TYPE: Final[tuple[tuple[tuple[type[BaseException], ...], ErrorCode], ...]] = (
    ((TimeoutError, httpx2.TimeoutException), "UPSTREAM_TIMEOUT"),
    ((OSError, httpx2.TransportError, anyio.ClosedResourceError, anyio.BrokenResourceError), "UPSTREAM_UNAVAILABLE"),
)


def _telling(error: BaseException) -> BaseException:
    """Of a group, the one inside that tells most: the first that has a code of its own."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inner = [_telling(each) for each in error.exceptions]
    return next((each for each in inner if _code(each) != "UPSTREAM_ERROR"), inner[0])


def _code(error: BaseException) -> ErrorCode:
    if isinstance(error, UpstreamFailure):
        return error.code
    if isinstance(error, MCPError):
        by_server = isinstance(error.data, SaidByServer)
        return "UPSTREAM_ERROR" if by_server else _BY_RPC_CODE.get(error.code, "UPSTREAM_ERROR")
    if isinstance(error, httpx2.HTTPStatusError):
        return _BY_STATUS.get(error.response.status_code, "UPSTREAM_ERROR")
    return next((code for types, code in _BY_TYPE if isinstance(error, types)), "UPSTREAM_ERROR")
