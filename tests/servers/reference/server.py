"""Puts the parts together into one server object that speaks both eras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import jsonschema_rs
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from reference.asking import InputNeeded
from reference.asking_tools import ASKING_TOOLS
from reference.call import Call, ReferenceTool, State, is_modern, session_of, text_result
from reference.plain_tools import EXTRA_TOOL, PLAIN_TOOLS
from reference.prompts import EXTRA_PROMPT, PROMPTS, ReferencePrompt, complete
from reference.resources import EXTRA_RESOURCE, RESOURCES, TEMPLATES, read
from reference.rich_offers import RICH_PROMPTS, RICH_RESOURCES, RICH_TEMPLATES, add_extensions, read_rich
from reference.rich_tools import RICH_TOOLS
from reference.tasks import TASK_TOOLS, TaskDesk

NAME: Final = "leafgate-reference"
INSTRUCTIONS: Final = "Use the reference tools for tests only."
PAGE_SIZE: Final = 40
_Item = TypeVar("_Item")
LISTS: Final = CacheHint(ttl_ms=60_000, scope="public")
READS: Final = CacheHint(ttl_ms=5_000, scope="private")


class ReferenceServer(Server[dict[str, Any]]):
    """A server that also tells clients of a handshake that its lists change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **kwargs: Any
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(changes, *args, **kwargs)


class _Handlers:
    """The requests of the protocol, answered from the tables of the other files."""

    def __init__(self, state: State, rich: bool) -> None:
        self.state = state
        self.rich = rich
        self.more_tools = RICH_TOOLS if rich else ()
        self.page_size = PAGE_SIZE if rich else None

    def tools(self, ctx: ServerRequestContext) -> list[ReferenceTool]:
        extra = (EXTRA_TOOL,) if self.state.extra_tool else ()
        tools = (*PLAIN_TOOLS, *ASKING_TOOLS, *TASK_TOOLS, *self.more_tools, *extra)
        return [tool for tool in tools if is_modern(ctx) or not tool.modern_only]

    def page(self, items: Sequence[_Item], params: PaginatedRequestParams | None) -> tuple[list[_Item], str | None]:
        """The items of the page that the cursor names, and the next cursor. Without a page size: all items."""
        cursor = params.cursor if params else None
        if cursor is not None and (self.page_size is None or not cursor.isdecimal() or int(cursor) >= len(items)):
            raise MCPError(INVALID_PARAMS, "Unknown cursor", {"cursor": cursor})
        start = int(cursor or 0)
        end = len(items) if self.page_size is None else start + self.page_size
        return list(items[start:end]), str(end) if end < len(items) else None

    def prompts(self) -> tuple[ReferencePrompt, ...]:
        extra = (EXTRA_PROMPT,) if self.state.extra_prompt else ()
        return (*PROMPTS, *(RICH_PROMPTS if self.rich else ()), *extra)

    async def list_tools(self, ctx: ServerRequestContext, params: PaginatedRequestParams | None) -> ListToolsResult:
        page, cursor = self.page([tool.declaration() for tool in self.tools(ctx)], params)
        return ListToolsResult(tools=page, next_cursor=cursor)

    async def call_tool(
        self, ctx: ServerRequestContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        tool = next((tool for tool in self.tools(ctx) if tool.name == params.name), None)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        wrong = [error.message for error in _validator(tool).iter_errors(params.arguments or {})]
        if wrong:
            return text_result(f"Wrong arguments: {'; '.join(wrong)}", is_error=True)
        try:
            return await tool.run(Call(ctx, params, self.state))
        except InputNeeded as needed:
            return needed.result

    async def list_resources(
        self, ctx: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        extra = (EXTRA_RESOURCE,) if self.state.extra_resource else ()
        page, cursor = self.page((*RESOURCES, *(RICH_RESOURCES if self.rich else ()), *extra), params)
        return ListResourcesResult(resources=page, next_cursor=cursor)

    async def list_templates(
        self, ctx: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        page, cursor = self.page((*TEMPLATES, *(RICH_TEMPLATES if self.rich else ())), params)
        return ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    async def read_resource(self, ctx: ServerRequestContext, params: ReadResourceRequestParams) -> ReadResourceResult:
        return (read_rich(ctx, params.uri) if self.rich else None) or read(ctx, params.uri)

    async def subscribe(self, ctx: ServerRequestContext, params: SubscribeRequestParams) -> EmptyResult:
        self.state.subscriptions.setdefault(session_of(ctx), set()).add(params.uri)
        return EmptyResult()

    async def unsubscribe(self, ctx: ServerRequestContext, params: UnsubscribeRequestParams) -> EmptyResult:
        self.state.subscriptions.get(session_of(ctx), set()).discard(params.uri)
        return EmptyResult()

    async def list_prompts(self, ctx: ServerRequestContext, params: PaginatedRequestParams | None) -> ListPromptsResult:
        page, cursor = self.page([prompt.declaration() for prompt in self.prompts()], params)
        return ListPromptsResult(prompts=page, next_cursor=cursor)

    async def get_prompt(
        self, ctx: ServerRequestContext, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        prompt = next((prompt for prompt in self.prompts() if prompt.name == params.name), None)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        missing = [name for name, _ in prompt.arguments if name not in (params.arguments or {})]
        if missing:
            raise MCPError(INVALID_PARAMS, f"Missing arguments: {', '.join(missing)}")
        try:
            return await prompt.get(Call(ctx, params, self.state))
        except InputNeeded as needed:
            return needed.result

    async def completion(self, ctx: ServerRequestContext, params: CompleteRequestParams) -> CompleteResult:
        return CompleteResult(completion=complete(params))

    async def set_level(self, ctx: ServerRequestContext, params: SetLevelRequestParams) -> EmptyResult:
        self.state.log_levels[session_of(ctx)] = params.level
        return EmptyResult()


def _validator(tool: ReferenceTool) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(tool.input_schema)


def build(rich: bool = False) -> ReferenceServer:
    """A server with a state of its own. `rich` adds the tools of the survival suite, and lists in pages."""
    desk = TaskDesk()
    state = State(desk=desk)
    handlers = _Handlers(state, rich)
    server = ReferenceServer(
        NAME,
        version="1.0.0",
        instructions=INSTRUCTIONS,
        cache_hints={
            "tools/list": LISTS,
            "prompts/list": LISTS,
            "resources/list": LISTS,
            "resources/templates/list": LISTS,
            "resources/read": READS,
        },
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=ListenHandler(state.bus),
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.completion,
        on_set_logging_level=handlers.set_level,
    )
    desk.add_to(server)
    if rich:
        add_extensions(server)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server
