"""Resources, templates and prompts of the survival suite: every field and kind of content, lists of hundreds,
skills, the page of an app, and an extension of a vendor."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from mcp.server import Server, ServerRequestContext
from mcp.types import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)
from pydantic import ConfigDict

from reference.call import Call
from reference.prompts import ReferencePrompt
from reference.rich_tools import APP_PAGE, ICON, META_KEY, UNICODE, large_text
from reference.samples import PNG, WAV

FILLERS: Final = 250  # more than one page of any list
LARGE_LINES: Final = 13_000  # about 1 MB
APP_HTML: Final = "<!doctype html><p>An app.</p><script>let s = '<|im_end|>'</script>"
APP_TYPE: Final = "text/html;profile=mcp-app"
SKILLS: Final = "io.modelcontextprotocol/skills"
SKILL_URI: Final = "skill://refunds/SKILL.md"
SKILL_TEXT: Final = "---\nname: refunds\ndescription: Refund customers by the policy.\n---\n\n# Refunds\n"
VENDOR: Final = "com.example/echo"
VENDOR_METHOD: Final = "example/echo"

RICH_RESOURCES: Final = (
    Resource(
        uri="test://rich",
        name="rich",
        title="A described resource",
        description=f"Has every field: {UNICODE}",
        mime_type="text/markdown",
        size=4096,
        icons=[ICON],
        annotations=Annotations(audience=["assistant"], priority=0.3, last_modified="2026-01-02T03:04:05Z"),
        meta={META_KEY: "on the resource"},
    ),
    Resource(uri="test://large", name="large", description="About 1 MB of text.", mime_type="text/plain"),
    Resource(uri="test://request-meta", name="request-meta", description="The metadata of the request."),
    *(
        Resource(uri=f"test://filler/{number}", name=f"filler-{number}", description=f"Resource {number}.")
        for number in range(FILLERS)
    ),
)
RICH_TEMPLATES: Final = (
    ResourceTemplate(
        uri_template="test://described/{city}",
        name="described-template",
        title="A described template",
        description="Has every field.",
        mime_type="text/plain",
        icons=[ICON],
        annotations=Annotations(priority=0.4),
        meta={META_KEY: "on the template"},
    ),
    *(
        ResourceTemplate(
            uri_template=f"test://filler-{number}/{{id}}", name=f"template-{number}", description=f"Template {number}."
        )
        for number in range(FILLERS)
    ),
)
EVERY_KIND: Final[tuple[tuple[str, ContentBlock], ...]] = (
    ("user", TextContent(text=UNICODE, annotations=Annotations(priority=0.2), meta={META_KEY: "on a block"})),
    ("assistant", TextContent(text="Said by the assistant.")),
    ("user", ImageContent(data=PNG, mime_type="image/png")),
    ("user", AudioContent(data=WAV, mime_type="audio/wav")),
    ("user", ResourceLink(uri="test://static-text", name="static-text", title="A link", size=48)),
    (
        "user",
        EmbeddedResource(
            resource=TextResourceContents(uri="test://embedded-text", mime_type="text/markdown", text="# Embedded")
        ),
    ),
    (
        "user",
        EmbeddedResource(
            resource=BlobResourceContents(uri="test://embedded-blob", mime_type="image/png", blob=PNG),
        ),
    ),
)


@dataclass(frozen=True)
class RichPrompt(ReferencePrompt):
    """A prompt with every field. Its argument `city` is required, `tone` is not."""

    def declaration(self) -> Prompt:
        return Prompt(
            name=self.name,
            title="A described prompt",
            description=self.description,
            arguments=[
                PromptArgument(name="city", title="City", description="Which city.", required=True),
                PromptArgument(name="tone", description="Which tone.", required=False),
            ],
            icons=[ICON],
            meta={META_KEY: "on the prompt"},
        )


async def _every_kind(call: Call) -> GetPromptResult:
    messages = [PromptMessage(role=role, content=block) for role, block in EVERY_KIND]  # type: ignore[arg-type]
    description = f"For {call.arguments['city']}, {call.arguments.get('tone', 'plain')}."
    return GetPromptResult(description=description, messages=messages, meta={META_KEY: "on the result"})


async def _request_meta(call: Call) -> GetPromptResult:
    content = TextContent(text=json.dumps(client_meta(call.ctx)))
    return GetPromptResult(messages=[PromptMessage(role="user", content=content)])


async def _filler(call: Call) -> GetPromptResult:
    return GetPromptResult(messages=[PromptMessage(role="user", content=TextContent(text=call.params.name))])


RICH_PROMPTS: Final = (
    RichPrompt("rich_every_kind", "Has every kind of content.", _every_kind, (("city", "Which city."),)),
    ReferencePrompt("rich_request_meta", "The metadata of the request.", _request_meta),
    *(ReferencePrompt(f"rich_filler_{number}", f"Prompt {number}.", _filler) for number in range(FILLERS)),
)


def client_meta(ctx: ServerRequestContext) -> dict[str, Any]:
    """The keys of a request's `_meta` that belong to the client, not to the protocol."""
    return {key: value for key, value in (ctx.meta or {}).items() if key.startswith("example.test/")}


def read_rich(ctx: ServerRequestContext, uri: str) -> ReadResourceResult | None:
    """What this URI holds; None if it is not one of this file."""
    plain = {
        "test://large": lambda: large_text(LARGE_LINES),
        "test://request-meta": lambda: json.dumps(client_meta(ctx)),
        SKILL_URI: lambda: SKILL_TEXT,
    }
    if uri in plain:
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="text/plain", text=plain[uri]())])
    if uri == APP_PAGE:
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=APP_TYPE, text=APP_HTML)])
    if uri == "test://rich":
        text = TextResourceContents(
            uri=uri, mime_type="text/markdown", text=UNICODE, meta={META_KEY: "on the contents"}
        )
        blob = BlobResourceContents(uri="test://rich/picture", mime_type="image/png", blob=PNG)
        return ReadResourceResult(contents=[text, blob], meta={META_KEY: "on the read"})
    if uri.startswith(("test://filler", "test://described/")):
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, text=f"The content of {uri}.")])
    return None


class AnyParams(RequestParams):
    """Params of any fields."""

    model_config = ConfigDict(extra="allow")


async def _list_skills(ctx: ServerRequestContext, params: Any) -> dict[str, Any]:
    return {"resultType": "complete", "skills": [_skill()], "ttlMs": 60_000, "cacheScope": "public"}


async def _get_skill(ctx: ServerRequestContext, params: ReadResourceRequestParams) -> dict[str, Any]:
    return {"resultType": "complete", "skill": _skill(), "ttlMs": 60_000, "cacheScope": "public"}


def _skill() -> dict[str, Any]:
    data = SKILL_TEXT.encode()
    file = {"uri": SKILL_URI, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
    frontmatter = {"name": "refunds", "description": "Refund customers by the policy."}
    return {"uri": SKILL_URI, "frontmatter": frontmatter, "resources": [file]}


async def _vendor_echo(ctx: ServerRequestContext, params: AnyParams) -> dict[str, Any]:
    return {"resultType": "complete", "echo": (params.model_extra or {}).get("text")}


def add_extensions(server: Server[Any]) -> None:
    """Declare skills and the vendor's extension, and answer their methods."""
    server.extensions[SKILLS] = {}
    server.extensions[VENDOR] = {"version": 1}
    server.add_request_handler("skills/list", RequestParams, _list_skills)
    server.add_request_handler("skills/get", ReadResourceRequestParams, _get_skill)
    server.add_request_handler(VENDOR_METHOD, AnyParams, _vendor_echo)
