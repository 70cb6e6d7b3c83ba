"""A client of a gateway, for the commands that use one: its address, its token, and the connection.

A token comes from LEAFGATE_TOKEN only: every user of the machine can read a command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from leafgate.config.models import DEFAULT_HOST, DEFAULT_PORT
from leafgate.model.envelope import ACCEPT_FULL
from leafgate.model.errors import LeafgateError

DEFAULT_URL: Final = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
TOKEN_VARIABLE: Final = "LEAFGATE_TOKEN"
URL_VARIABLE: Final = "LEAFGATE_URL"
SSE_PATH: Final = "/sse"
URL_OPTION = click.option("--url", help=f"A running gateway. [default: ${URL_VARIABLE}, or {DEFAULT_URL}]")


def usual_url() -> str:
    """Return the address of the gateway where none is given: that of LEAFGATE_URL, or the default one."""
    return os.environ.get(URL_VARIABLE) or DEFAULT_URL


def token_headers(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the headers for a gateway with authentication; none without a token."""
    token = environment.get(TOKEN_VARIABLE, "")
    return {"Authorization": f"Bearer {token}"} if token else {}


def root_of(url: str) -> str:
    """Return a gateway's address without the path of its MCP endpoint."""
    return url.rstrip("/").removesuffix("/mcp").removesuffix(SSE_PATH)


def is_sse(url: str) -> bool:
    """Return whether this address is of the older transport, `serve --transport sse`."""
    return url.rstrip("/").endswith(SSE_PATH)


def request_json(address: str, needed: str, answer: Mapping[str, Any] | None = None) -> tuple[int, Any]:
    """Send a GET, or an answer with POST, to a route of a running gateway; return the status and the JSON of the body.

    LeafgateError, with what to do, if the gateway requires a token (`needed` says which) or cannot be reached. The body
    is None if it is not JSON and the status is an error.
    """
    try:
        method = "GET" if answer is None else "POST"
        response = httpx2.request(method, address, json=answer, timeout=5, headers=token_headers())
        if response.status_code in (401, 403):
            raise LeafgateError(f"{address} requires a token {needed}, in {TOKEN_VARIABLE}")
        is_json = response.is_success or "json" in response.headers.get("content-type", "")
        return response.status_code, response.json() if is_json else None
    except (httpx2.HTTPError, ValueError) as error:
        raise LeafgateError(
            f"no gateway answers at {address} ({type(error).__name__}); is `leafgate serve` running?"
        ) from None


@dataclass(frozen=True)
class Target:
    """The URL of a running gateway, or the file to start one with; the demo servers without both."""

    url: str | None
    config: Path | None = None


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Client]:
    """Connect to the gateway, or start one. LeafgateError, with what to do, if none answers."""
    refusals: list[int] = []
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(await _client(target, stack, refusals))
        except (MCPError, OSError, httpx2.HTTPError, BaseExceptionGroup) as error:
            raise LeafgateError(_trouble(target, error, refusals)) from None
        yield client


async def call_tool(
    client: Client, name: str, args: dict[str, Any], meta: Mapping[str, Any] | None = None
) -> CallToolResult:
    """Call a tool and return its result, with all that the gateway knows of it; progress is printed on standard
    error."""

    async def print_progress(progress: float, total: float | None, message: str | None) -> None:
        of = "" if total is None else f" of {total:g}"
        click.echo(f"{progress:g}{of}{f': {message}' if message else ''}", err=True)

    wishes: Any = {**ACCEPT_FULL, **(meta or {})}  # the SDK's type knows none of our keys
    result = await client.call_tool(name, args, progress_callback=print_progress, meta=wishes)
    if not isinstance(result, CallToolResult):
        raise LeafgateError(f"{name} returned no result")
    return result


def text_of(result: CallToolResult) -> str:
    """Return what a model reads; blocks that are not text are named by their type."""
    return "\n".join(block.text if block.type == "text" else f"[{block.type}]" for block in result.content)


async def _client(target: Target, stack: AsyncExitStack, refusals: list[int]) -> Client:
    if target.url is None:
        args = ["-m", "leafgate.cli", "serve", "--transport", "stdio", "--log-level", "error"]
        args += ["--demo"] if target.config is None else ["--config", str(target.config)]
        return Client(StdioServerParameters(command=sys.executable, args=args, env=dict(os.environ)))

    async def note(response: httpx2.Response) -> None:  # the SDK does not report the HTTP status
        if response.status_code >= 400:
            refusals.append(response.status_code)

    def http_client(*_: Any, **__: Any) -> httpx2.AsyncClient:
        timeout = httpx2.Timeout(10.0, read=600.0)
        return httpx2.AsyncClient(headers=token_headers(), timeout=timeout, event_hooks={"response": [note]})

    root = root_of(target.url)
    if is_sse(target.url):
        return Client(sse_client(f"{root}{SSE_PATH}", httpx_client_factory=http_client), mode="legacy")
    http = await stack.enter_async_context(http_client())
    return Client(streamable_http_client(f"{root}/mcp", http_client=http, max_sse_event_size=None))


def _trouble(target: Target, error: BaseException, refusals: Sequence[int]) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if target.url is None:
        return f"the gateway did not start ({type(error).__name__}); `leafgate doctor` says why"
    if refusals and refusals[-1] in (401, 403):
        return f"the gateway at {target.url} refuses ({refusals[-1]}); set {TOKEN_VARIABLE} to a valid token"
    if refusals and refusals[-1] == 404 and not is_sse(target.url):
        root = root_of(target.url)
        return f"there is nothing at {root}/mcp (404); for a gateway on sse give --url {root}{SSE_PATH}"
    return (
        f"no gateway answers at {target.url} ({type(error).__name__}); start one with `leafgate serve --transport "
        f"http`, or give --config FILE"
    )
