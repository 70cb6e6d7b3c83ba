"""The tools that need nothing of the client but to listen: content of each kind, logs, progress, changes of lists."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import anyio
from mcp.server.subscriptions import PromptsListChanged, ResourceUpdated, ToolsListChanged
from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    LoggingLevel,
    TextContent,
    TextResourceContents,
)

from reference.call import Call, ReferenceTool, is_modern, session_of, text_result
from reference.resources import WATCHED
from reference.samples import PNG, WAV

PAUSE: Final = 0.05
_LEVELS: Final = get_args(LoggingLevel)  # from the least severe on

_SCHEMA_2020_12: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_REGION: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"region": {"type": "string", "description": "Sent in a header too.", "x-mcp-header": "Region"}},
    "required": ["region"],
    "additionalProperties": False,
}


async def _simple_text(call: Call) -> CallToolResult:
    return text_result("This is a simple text response for testing.")


async def _image(call: Call) -> CallToolResult:
    return CallToolResult(content=[ImageContent(data=PNG, mime_type="image/png")])


async def _audio(call: Call) -> CallToolResult:
    return CallToolResult(content=[AudioContent(data=WAV, mime_type="audio/wav")])


async def _embedded_resource(call: Call) -> CallToolResult:
    contents = TextResourceContents(
        uri="test://embedded-resource", mime_type="text/plain", text="This is an embedded resource content."
    )
    return CallToolResult(content=[EmbeddedResource(resource=contents)])


async def _multiple_content_types(call: Call) -> CallToolResult:
    contents = TextResourceContents(
        uri="test://mixed-content-resource",
        mime_type="application/json",
        text=json.dumps({"test": "data", "value": 123}),
    )
    return CallToolResult(
        content=[
            TextContent(text="Multiple content types test:"),
            ImageContent(data=PNG, mime_type="image/png"),
            EmbeddedResource(resource=contents),
        ]
    )


async def _error(call: Call) -> CallToolResult:
    return text_result("This tool intentionally returns an error for testing", is_error=True)


async def _logging(call: Call) -> CallToolResult:
    await _log(call, "Tool execution started")
    await anyio.sleep(PAUSE)
    await _log(call, "Tool processing data")
    await anyio.sleep(PAUSE)
    await _log(call, "Tool execution completed")
    return text_result("The tool has logged three messages.")


async def _log(call: Call, message: str) -> None:
    """At level info, unless the session wants only what is more severe. 2026-07-28 asks per request: the SDK's part."""
    ctx = call.ctx
    wanted = call.state.log_levels.get(session_of(ctx), "debug")
    if is_modern(ctx) or _LEVELS.index("info") >= _LEVELS.index(wanted):
        await ctx.session.send_log_message("info", message, "reference", related_request_id=ctx.request_id)


async def _progress(call: Call) -> CallToolResult:
    for done in (0, 50, 100):
        if done:
            await anyio.sleep(PAUSE)
        await call.ctx.session.report_progress(done, 100)
    return text_result("The tool has reported its progress.")


async def _reconnection(call: Call) -> CallToolResult:
    """Closes the stream of this call before the answer: the client has to come back for it."""
    if call.ctx.close_sse_stream is not None:
        await call.ctx.close_sse_stream()
    await anyio.sleep(4 * PAUSE)
    return text_result("The answer, after the stream was closed.")


async def _describe_arguments(call: Call) -> CallToolResult:
    return text_result(f"Called with: {json.dumps(call.arguments, sort_keys=True)}")


async def _tool_change(call: Call) -> CallToolResult:
    call.state.extra_tool = not call.state.extra_tool
    await call.state.bus.publish(ToolsListChanged())
    if not is_modern(call.ctx):
        await call.ctx.session.send_tool_list_changed()
    return text_result("The list of tools has changed.")


async def _prompt_change(call: Call) -> CallToolResult:
    call.state.extra_prompt = not call.state.extra_prompt
    await call.state.bus.publish(PromptsListChanged())
    if not is_modern(call.ctx):
        await call.ctx.session.send_prompt_list_changed()
    return text_result("The list of prompts has changed.")


async def _resource_change(call: Call) -> CallToolResult:
    await call.state.bus.publish(ResourceUpdated(uri=WATCHED))
    if WATCHED in call.state.subscriptions.get(session_of(call.ctx), ()):
        await call.ctx.session.send_resource_updated(WATCHED)
    return text_result("The watched resource has changed.")


PLAIN_TOOLS: Final = (
    # The suite takes the first tool of the list for its checks of headers: it has to work without arguments.
    ReferenceTool("test_simple_text", "Returns a text.", _simple_text),
    ReferenceTool("test_image_content", "Returns a picture.", _image),
    ReferenceTool("test_audio_content", "Returns a sound.", _audio),
    ReferenceTool("test_embedded_resource", "Returns an embedded resource.", _embedded_resource),
    ReferenceTool("test_multiple_content_types", "Returns text, picture and resource.", _multiple_content_types),
    ReferenceTool("test_error_handling", "Always fails.", _error),
    ReferenceTool("test_tool_with_logging", "Logs three messages while it runs.", _logging),
    ReferenceTool("test_logging_tool", "Logs too; must stay silent unless the request asks for logs.", _logging),
    ReferenceTool("test_tool_with_progress", "Reports progress three times.", _progress),
    ReferenceTool("test_reconnection", "Closes the stream of the call before it answers.", _reconnection),
    ReferenceTool(
        "json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", _describe_arguments, _SCHEMA_2020_12
    ),
    ReferenceTool(
        "test_custom_header", "Takes an argument that is sent in a header too.", _describe_arguments, _REGION
    ),
    ReferenceTool("test_trigger_tool_change", "Adds a tool, or takes it away again.", _tool_change),
    ReferenceTool("test_trigger_prompt_change", "Adds a prompt, or takes it away again.", _prompt_change),
    ReferenceTool("test_trigger_resource_change", f"Announces a change of {WATCHED}.", _resource_change),
)
EXTRA_TOOL: Final = ReferenceTool("test_extra_tool", "Is there after a change of the list.", _simple_text)
