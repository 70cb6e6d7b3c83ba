import anyio
import httpx2
import pytest
from mcp import MCPError

from leafgate.model.errors import ErrorCode, UpstreamFailure
from leafgate.upstream.classify import classify


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
