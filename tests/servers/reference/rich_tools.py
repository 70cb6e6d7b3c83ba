"""Tools for the survival suite: results of every kind, structured values of every JSON type, errors, echoes."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, get_args

import anyio
from mcp import MCPError
from mcp.server.subscriptions import ResourcesListChanged
from mcp.types import (
    Annotations,
    BlobResourceContents,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestURLParams,
    EmbeddedResource,
    Icon,
    ImageContent,
    LoggingLevel,
    ModelHint,
    ModelPreferences,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

from reference.asking import ask
from reference.call import Call, ReferenceTool, is_modern, session_of, text_result
from reference.samples import PNG

META_KEY: Final = "example.test/note"
ICON: Final = Icon(src=f"data:image/png;base64,{PNG}", mime_type="image/png", sizes=["1x1"])
UNICODE: Final = "naïve Ω 漢字 кириллица العربية हिन्दी 🙂 👍🏽 e\u0301 \U0001d11e tab\there\nnew line"
# What the SDK does not write: half of a surrogate pair, and a null on its own. The server writes them in place of these
# marks, in as many bytes.
MARKS: Final = {"~D83D~": "\\ud83d", '"~NULL~"': "null    "}
APP_PAGE: Final = "ui://rich/app.html"
LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)  # from the least severe on
SAMPLING: Final = CreateMessageRequestParams(
    messages=[
        SamplingMessage(role="user", content=TextContent(text=UNICODE)),
        SamplingMessage(role="assistant", content=TextContent(text="And then?")),
        SamplingMessage(role="user", content=ImageContent(data=PNG, mime_type="image/png")),
    ],
    model_preferences=ModelPreferences(hints=[ModelHint(name="small")], cost_priority=0.9, speed_priority=0.1),
    system_prompt="Answer in one word.",
    temperature=0.25,
    max_tokens=7,
    stop_sequences=["END"],
    metadata={"trace": "abc"},
)
ODD_NAMES: Final = (
    "rich.dotted.name",
    "rich/slashed/name",
    "Rich With Spaces",
    "rich_日本語",
    "rich:colon#hash@at",
    "rich_" + "x" * 115,
    "tool_view",
)
# One value of each JSON type. Values other than objects need 2026-07-28.
STRUCTURED: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    "object": (
        {"type": "object", "properties": {"count": {"type": "integer"}, "name": {"type": "string"}}},
        {"count": 3, "name": "naïve 漢字", "nested": {"list": [1, 2.5, None, True], "empty": {}}},
    ),
    "array": ({"type": "array", "items": {"type": "integer"}}, [1, 2, 3]),
    "string": ({"type": "string"}, "a text"),
    "integer": ({"type": "integer"}, 9_007_199_254_740_993),
    "number": ({"type": "number"}, 2.5),
    "boolean": ({"type": "boolean"}, False),
    "null": ({"type": "null"}, None),
}
LARGE_BLOB: Final = base64.b64encode(bytes(range(256)) * 1200).decode()
_CODES: Final = {"type": "object", "properties": {"code": {"type": "integer"}}, "required": ["code"]}
_ANY: Final = {"type": "object"}
_MARK: Final = {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"]}
_LINES: Final = {"type": "object", "properties": {"lines": {"type": "integer"}}, "required": ["lines"]}


async def _resource_link(call: Call) -> CallToolResult:
    link = ResourceLink(
        uri="test://static-text",
        name="static-text",
        title="A link",
        description="A fixed text.",
        mime_type="text/plain",
        size=48,
        annotations=Annotations(audience=["user"], priority=0.5),
    )
    return CallToolResult(content=[link])


async def _embedded_blob(call: Call) -> CallToolResult:
    contents = BlobResourceContents(uri="test://embedded-blob", mime_type="image/png", blob=PNG)
    return CallToolResult(content=[EmbeddedResource(resource=contents)])


async def _annotated(call: Call) -> CallToolResult:
    """A text block with annotations and `_meta`, in a result with `_meta` of its own."""
    block = TextContent(
        text="For the user only.",
        annotations=Annotations(audience=["user"], priority=0.9, last_modified="2026-01-02T03:04:05Z"),
        meta={META_KEY: "on the block"},
    )
    return CallToolResult(content=[block], meta={META_KEY: {"on": "the result", "n": 1}})


async def _embedded_text(call: Call) -> CallToolResult:
    contents = TextResourceContents(
        uri="test://embedded-text", mime_type="text/markdown", text=f"# {UNICODE}", meta={META_KEY: "on the resource"}
    )
    return CallToolResult(content=[EmbeddedResource(resource=contents, annotations=Annotations(priority=0.1))])


async def _unicode(call: Call) -> CallToolResult:
    return text_result(UNICODE)


async def _empty(call: Call) -> CallToolResult:
    return CallToolResult(content=[])


async def _echo_arguments(call: Call) -> CallToolResult:
    return text_result(json.dumps(call.arguments, sort_keys=True, ensure_ascii=False))


async def _echo_meta(call: Call) -> CallToolResult:
    """The keys of the request's `_meta` that belong to the client, not to the protocol."""
    meta = {key: value for key, value in (call.ctx.meta or {}).items() if key.startswith("example.test/")}
    return text_result(json.dumps(meta, sort_keys=True))


async def _protocol_error(call: Call) -> CallToolResult:
    raise MCPError(
        call.arguments["code"], "The reference server refuses.", {"why": "test", "code": call.arguments["code"]}
    )


async def _large_text(call: Call) -> CallToolResult:
    return text_result(large_text(call.arguments["lines"]))


def large_text(lines: int) -> str:
    return "\n".join(
        f"line {number}: the quick brown fox jumps over the lazy dog, {number * 37} times." for number in range(lines)
    )


async def _large_structured(call: Call) -> CallToolResult:
    rows = [{"id": number, "text": f"row {number} of the table"} for number in range(call.arguments["lines"])]
    return CallToolResult(
        content=[TextContent(text=f"{len(rows)} rows.")], structured_content={"rows": rows, "total": len(rows)}
    )


async def _detailed_progress(call: Call) -> CallToolResult:
    for done, message in ((1, "first"), (2, "zweiter: ä"), (3, "third")):
        await call.ctx.session.report_progress(done, 3, message)
        await anyio.sleep(0.01)
    return text_result("done")


async def _wait(call: Call) -> CallToolResult:
    """Waits until it is cancelled; counts how it ended."""
    call.state.waiting += 1
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        call.state.cancelled += 1
        raise
    return text_result("was not cancelled")


async def _count_waits(call: Call) -> CallToolResult:
    return text_result(json.dumps({"started": call.state.waiting, "cancelled": call.state.cancelled}))


async def _elicit_url(call: Call) -> CallToolResult:
    params = ElicitRequestURLParams(
        message="Please sign in.", url="https://example.test/sign-in?id=7", elicitation_id="sign-in-7"
    )
    answers = await ask(call, {"sign_in": ElicitRequest(params=params)})
    return text_result(f"The user answered: {answers['sign_in'].action}")


async def _resource_list_change(call: Call) -> CallToolResult:
    call.state.extra_resource = not call.state.extra_resource
    await call.state.bus.publish(ResourcesListChanged())
    if not is_modern(call.ctx):
        await call.ctx.session.send_resource_list_changed()
    return text_result("The list of resources has changed.")


def _structured(kind: str) -> Callable[[Call], Awaitable[CallToolResult]]:
    _, value = STRUCTURED[kind]

    async def run(call: Call) -> CallToolResult:
        content = [TextContent(text=json.dumps(value))]
        return CallToolResult(content=content, structured_content="~NULL~" if value is None else value)

    return run


async def _log(call: Call) -> CallToolResult:
    """One line at each level, with the mark of the caller; a session may have asked for the severe ones only."""
    ctx = call.ctx
    wanted = call.state.log_levels.get(session_of(ctx), "debug")
    for level in LEVELS:
        if is_modern(ctx) or LEVELS.index(level) >= LEVELS.index(wanted):
            data = {"mark": call.arguments["mark"], "at": level, "list": [1, "ä"]}
            await ctx.session.send_log_message(level, data, "rich.logger", related_request_id=ctx.request_id)
    return text_result("logged")


async def _sample(call: Call) -> CallToolResult:
    answers = await ask(call, {"answer": CreateMessageRequest(params=SAMPLING)})
    answer = answers["answer"]
    return text_result(f"{answer.role} {answer.model} {answer.stop_reason}: {answer.content.text}")


async def _surrogate(call: Call) -> CallToolResult:
    return text_result("before ~D83D~ after")


async def _own_name(call: Call) -> CallToolResult:
    return text_result(call.params.name)


async def _large_blob(call: Call) -> CallToolResult:
    contents = BlobResourceContents(uri="test://large-blob", mime_type="application/octet-stream", blob=LARGE_BLOB)
    return CallToolResult(content=[TextContent(text="A blob."), EmbeddedResource(resource=contents)])


async def _client_extensions(call: Call) -> CallToolResult:
    declared = call.ctx.session.client_capabilities
    return text_result(json.dumps((declared.extensions if declared else None) or {}, sort_keys=True))


RICH_TOOLS: Final = (
    ReferenceTool("rich_resource_link", "Returns a link to a resource.", _resource_link),
    ReferenceTool("rich_embedded_blob", "Returns an embedded resource of bytes.", _embedded_blob),
    ReferenceTool("rich_embedded_text", "Returns an embedded resource of text.", _embedded_text),
    ReferenceTool("rich_annotated", "Returns blocks with annotations and metadata.", _annotated),
    ReferenceTool("rich_unicode", "Returns text in many scripts.", _unicode),
    ReferenceTool("rich_empty", "Returns no content.", _empty),
    ReferenceTool("rich_echo", "Returns its arguments as JSON.", _echo_arguments, _ANY),
    ReferenceTool("rich_echo_meta", "Returns the metadata of the request.", _echo_meta),
    ReferenceTool("rich_protocol_error", "Answers with a protocol error of this code.", _protocol_error, _CODES),
    ReferenceTool("rich_large_text", "Returns so many lines of text.", _large_text, _LINES),
    ReferenceTool("rich_large_structured", "Returns so many structured rows.", _large_structured, _LINES),
    ReferenceTool("rich_progress", "Reports progress with messages.", _detailed_progress),
    ReferenceTool("rich_wait", "Waits until the call is cancelled.", _wait),
    ReferenceTool("rich_count_waits", "Says how many waits began, and how many were cancelled.", _count_waits),
    ReferenceTool("rich_elicit_url", "Asks the user to open an address.", _elicit_url),
    ReferenceTool("rich_log", "Logs at every level.", _log, _MARK),
    ReferenceTool("rich_sampling", "Asks the client's model, with every parameter.", _sample),
    ReferenceTool("rich_surrogate", "Returns half of a surrogate pair.", _surrogate),
    ReferenceTool("rich_large_blob", "Returns a large embedded resource of bytes.", _large_blob),
    ReferenceTool("rich_client_extensions", "Returns the extensions that the client declares.", _client_extensions),
    ReferenceTool("rich_app", "Has a page.", _own_name, meta={"ui": {"resourceUri": APP_PAGE}}),
    ReferenceTool("rich_resource_change", "Adds a resource, or removes it again.", _resource_list_change),
    ReferenceTool(
        "rich_described",
        "Has a title, annotations, an icon, metadata and an output schema.",
        _structured("object"),
        title="A described tool",
        annotations=ToolAnnotations(
            title="Described", read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False
        ),
        icons=[ICON],
        output_schema=STRUCTURED["object"][0],
        meta={META_KEY: "on the tool"},
    ),
    *(
        ReferenceTool(
            f"rich_structured_{kind}",
            f"Returns structured content: {kind}.",
            _structured(kind),
            output_schema=schema,
            modern_only=kind != "object",
        )
        for kind, (schema, _) in STRUCTURED.items()
    ),
    *(ReferenceTool(name, f"Odd name {number}.", _own_name) for number, name in enumerate(ODD_NAMES)),
    *(ReferenceTool(f"rich_filler_{number}", f"Tool {number}.", _own_name) for number in range(250)),
)
