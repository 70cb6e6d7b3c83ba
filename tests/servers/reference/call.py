"""One call of a tool or a prompt, and what all tools share: the record of a tool, results of text, the era."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    Icon,
    LoggingLevel,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

NO_ARGUMENTS: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass
class State:
    """What the server remembers between requests. Keys of the dicts are session ids; stdio is one session, None."""

    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    log_levels: dict[str | None, LoggingLevel] = field(default_factory=dict)
    subscriptions: dict[str | None, set[str]] = field(default_factory=dict)
    extra_tool: bool = False
    extra_prompt: bool = False
    desk: Any = None  # the tasks (tasks.py)
    extra_resource: bool = False
    waiting: int = 0
    cancelled: int = 0


@dataclass(frozen=True)
class Call:
    """A request in progress."""

    ctx: ServerRequestContext
    params: CallToolRequestParams | GetPromptRequestParams
    state: State

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(self.params.arguments or {})


@dataclass(frozen=True)
class ReferenceTool:
    """A tool of the server. `run` may raise `InputNeeded` (asking.py) where the protocol lets a result ask back."""

    name: str
    description: str
    run: Callable[[Call], Awaitable[CallToolResult]]
    input_schema: dict[str, Any] = field(default_factory=lambda: NO_ARGUMENTS)
    title: str | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    output_schema: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    modern_only: bool = False  # the protocol before 2026-07-28 has no place for its results

    def declaration(self) -> Tool:
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            annotations=self.annotations,
            icons=self.icons,
            meta=self.meta,
        )


def text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


def is_modern(ctx: ServerRequestContext) -> bool:
    """Whether this request carries its own envelope (2026-07-28), with no session and no way to ask back mid-call."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def session_of(ctx: ServerRequestContext) -> str | None:
    """The id of the session of this request; None where there is no such id."""
    return None if ctx.request is None else ctx.request.headers.get("mcp-session-id")
