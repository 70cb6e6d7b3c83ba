"""How to reach one MCP server. Nouns only: what the configuration says of an upstream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Check = Literal["canonical", "decode"]


@dataclass(frozen=True)
class StdioServer:
    """A command that speaks MCP on its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None


@dataclass(frozen=True)
class HttpServer:
    """A server behind a URL: Streamable HTTP, or the older SSE transport."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    transport: Literal["http", "sse"] = "http"


@dataclass(frozen=True)
class ServerSpec:
    """One upstream: its name, the way to it, and how long a call may take."""

    name: str
    reach: StdioServer | HttpServer
    timeout: float = 60.0
    start_timeout: float = 30.0
