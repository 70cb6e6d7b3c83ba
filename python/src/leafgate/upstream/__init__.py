"""How to reach one MCP server, and what it may do: an upstream of the configuration, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal


@dataclass(frozen=True)
class StdioServer:
    """A command that speaks MCP on its standard input and output. Its arguments and variables may be secrets."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None


@dataclass(frozen=True)
class HttpServer:
    """A server behind a URL: Streamable HTTP, or the older SSE transport."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    transport: Literal["http", "sse"] = "http"


@dataclass(frozen=True)
class ServerSpec:
    """One upstream: its name, the way to it, and what it may do.

    `include` and `exclude` are globs on tool names; `concurrency` bounds the calls under way at once; a gateway
    does not start without a `required` server.
    """

    name: str
    reach: StdioServer | HttpServer
    timeout: float = 60.0
    start_timeout: float = 30.0
    namespace: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    concurrency: int | None = None
    required: bool = False

    @property
    def label(self) -> str:
        """The name under which its tools appear."""
        return self.namespace or self.name

    def offers_tool(self, name: object) -> bool:
        """Whether the globs show a tool of this name. Without `include`, they show all that are not excluded."""
        tool = str(name)
        is_excluded = any(fnmatchcase(tool, glob) for glob in self.exclude)
        return not is_excluded and (not self.include or any(fnmatchcase(tool, glob) for glob in self.include))
