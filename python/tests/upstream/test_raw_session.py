from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.server import Server
from mcp.types import ErrorData, JSONRPCError

from leafgate.model.errors import ErrorCode, UpstreamFailure
from leafgate.upstream.raw_session import classify, list_kind, mark_server_error, raw_request


def status(code: int) -> httpx2.HTTPStatusError:
    request = httpx2.Request("POST", "http://127.0.0.1/mcp")
    return httpx2.HTTPStatusError("no", request=request, response=httpx2.Response(code, request=request))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MCPError(-32001, "Request timed out"), "UPSTREAM_TIMEOUT"),
        (MCPError(-32000, "Connection closed"), "UPSTREAM_UNAVAILABLE"),
        (MCPError(-32603, "Internal error"), "UPSTREAM_ERROR"),
        (TimeoutError(), "UPSTREAM_TIMEOUT"),
        (FileNotFoundError("no such command"), "UPSTREAM_UNAVAILABLE"),
        (ConnectionRefusedError(), "UPSTREAM_UNAVAILABLE"),
        (anyio.ClosedResourceError(), "UPSTREAM_UNAVAILABLE"),
        (httpx2.ConnectError("refused"), "UPSTREAM_UNAVAILABLE"),
        (httpx2.ReadTimeout("slow"), "UPSTREAM_TIMEOUT"),
        (status(401), "AUTH_FAILED"),
        (status(403), "PERMISSION_DENIED"),
        (status(429), "RATE_LIMITED"),
        (status(503), "UPSTREAM_UNAVAILABLE"),
        (status(500), "UPSTREAM_ERROR"),
        (ValueError("odd"), "UPSTREAM_ERROR"),
        (BaseExceptionGroup("many", [ValueError("odd"), status(401)]), "AUTH_FAILED"),
        (UpstreamFailure("RATE_LIMITED", "slow down"), "RATE_LIMITED"),
    ],
)
def test_every_exception_has_a_code(error: BaseException, code: ErrorCode) -> None:
    assert classify(error).code == code


def test_of_a_group_the_one_that_tells_most_is_told() -> None:
    inner = BaseExceptionGroup("more", [httpx2.ConnectError("refused")])
    told = classify(BaseExceptionGroup("many", [ValueError("odd"), inner]))
    assert str(told) == "UPSTREAM_UNAVAILABLE: ConnectError: refused"
    assert str(classify(BaseExceptionGroup("many", [ValueError("odd")]))) == "UPSTREAM_ERROR: ValueError: odd"


@pytest.mark.anyio
async def test_the_private_names_of_the_sdk_are_where_raw_session_uses_them() -> None:
    """A new version of the SDK that moves them fails here first."""
    async with Client(Server("bare"), cache=None) as client:
        assert callable(client.session._stamp)
        assert callable(client.session._dispatcher.send_raw_request)
        assert client.session._x_mcp_header_maps == {}
        result = await raw_request(client.session, "server/discover", {}, seconds=5)
        assert "capabilities" in result


@pytest.mark.anyio
async def test_arguments_that_a_server_wants_in_headers_are_noted_with_its_list() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(60):
        deep = {"type": "object", "properties": {"a": deep}}
    region = {"type": "string", "x-mcp-header": "Region"}
    schemas = {
        "plain": {"type": "object"},
        "marked": {"type": "object", "properties": {"region": region, "n": {"type": "integer"}}},
        "twice": {"type": "object", "properties": {"a": region, "b": region}},  # not valid: the name must be unique
        "deep": deep,
    }

    async def list_tools(ctx: Any, params: Any) -> dict[str, Any]:
        tools = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools}

    async with Client(Server("marking", on_list_tools=list_tools), cache=None) as client:
        definitions, _ = await list_kind(client.session, "tools", client.server_capabilities, 5)
        assert len(definitions) == 4
        assert client.session._x_mcp_header_maps == {"marked": {("region",): "Region"}}


def test_an_error_of_a_server_with_a_code_of_the_sdk_is_not_one_of_the_sdk() -> None:
    answer = JSONRPCError(jsonrpc="2.0", id=1, error=ErrorData(code=-32001, message="no"))
    error = mark_server_error(answer, (-32001,)).error
    assert classify(MCPError(error.code, error.message, error.data)).code == "UPSTREAM_ERROR"
    assert mark_server_error(answer, (-32000,)) is answer
