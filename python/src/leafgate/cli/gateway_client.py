"""A client of a gateway, for commands that use one. In: its URL, or a file to start one with. Out: a connected Client.

Touches the network, or a child process that lives as long as the connection.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from leafgate.cli.gateway_address import SSE_PATH, TOKEN_VARIABLE, is_sse, root_of, token_headers
from leafgate.model.errors import LeafgateError


@dataclass(frozen=True)
class Target:
    """A gateway that runs at a URL, or the file that one is started with."""

    url: str | None
    config: Path | None = None


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Client]:
    """A client of the gateway. LeafgateError where none answers, with what to do."""
    refusals: list[int] = []
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(await _client(target, stack, refusals))
        except (MCPError, OSError, httpx2.HTTPError, BaseExceptionGroup) as error:
            raise LeafgateError(_trouble(target, error, refusals)) from None
        yield client


async def _client(target: Target, stack: AsyncExitStack, refusals: list[int]) -> Client:
    if target.url is None:
        args = ["-m", "leafgate.cli", "serve", "--transport", "stdio", "--log-level", "error"]
        if target.config is not None:
            args += ["--config", str(target.config)]
        return Client(StdioServerParameters(command=sys.executable, args=args, env=dict(os.environ)))

    async def note(response: httpx2.Response) -> None:  # the SDK tells no HTTP status
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
        return f"the gateway at {target.url} refuses ({refusals[-1]}); put a token that it knows into {TOKEN_VARIABLE}"
    if refusals and refusals[-1] == 404 and not is_sse(target.url):
        root = root_of(target.url)
        return f"nothing is at {root}/mcp (404); a gateway that serves sse is asked with --url {root}{SSE_PATH}"
    return (
        f"no gateway answers at {target.url} ({type(error).__name__}); start one with `leafgate serve --transport "
        f"http`, or give --config FILE"
    )
