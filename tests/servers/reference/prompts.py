"""The prompts, and the completion of their arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mcp.types import (
    CompleteRequestParams,
    Completion,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
    TextResourceContents,
)

from reference.asking import ask, form
from reference.call import Call
from reference.samples import PNG

_WORDS: Final = ("paris", "park", "party", "test", "tested", "testing")


@dataclass(frozen=True)
class ReferencePrompt:
    """A prompt of the server. All its arguments are required."""

    name: str
    description: str
    get: Callable[[Call], Awaitable[GetPromptResult]]
    arguments: tuple[tuple[str, str], ...] = ()

    def declaration(self) -> Prompt:
        arguments = [PromptArgument(name=name, description=text, required=True) for name, text in self.arguments]
        return Prompt(name=self.name, description=self.description, arguments=arguments or None)


def complete(params: CompleteRequestParams) -> Completion:
    """The words that begin as the argument does; with context, that too."""
    values = [word for word in _WORDS if word.startswith(params.argument.value)]
    if params.context is not None and params.context.arguments:
        values += [f"{name}={value}" for name, value in params.context.arguments.items()]
    return Completion(values=values, total=len(values), has_more=False)


def _said_by_user(*blocks: ContentBlock) -> GetPromptResult:
    return GetPromptResult(messages=[PromptMessage(role="user", content=block) for block in blocks])


async def _simple(call: Call) -> GetPromptResult:
    return _said_by_user(TextContent(text="This is a simple prompt for testing."))


async def _with_arguments(call: Call) -> GetPromptResult:
    first, second = call.arguments["arg1"], call.arguments["arg2"]
    return _said_by_user(TextContent(text=f"Prompt with arguments: arg1='{first}', arg2='{second}'"))


async def _with_resource(call: Call) -> GetPromptResult:
    contents = TextResourceContents(
        uri=call.arguments["resourceUri"], mime_type="text/plain", text="Embedded resource content for testing."
    )
    return _said_by_user(
        EmbeddedResource(resource=contents), TextContent(text="Please process the embedded resource above.")
    )


async def _with_image(call: Call) -> GetPromptResult:
    picture = ImageContent(data=PNG, mime_type="image/png")
    return _said_by_user(picture, TextContent(text="Please analyze the image above."))


async def _that_asks(call: Call) -> GetPromptResult:
    question = form("What context should the prompt use?", {"context": {"type": "string"}})
    answers = await ask(call, {"user_context": question})
    context = (answers["user_context"].content or {}).get("context", "none")
    return _said_by_user(TextContent(text=f"Use this context: {context}"))


PROMPTS: Final = (
    ReferencePrompt("test_simple_prompt", "A fixed prompt.", _simple),
    ReferencePrompt(
        "test_prompt_with_arguments",
        "A prompt with two arguments.",
        _with_arguments,
        (("arg1", "First test argument"), ("arg2", "Second test argument")),
    ),
    ReferencePrompt(
        "test_prompt_with_embedded_resource",
        "A prompt that holds a resource.",
        _with_resource,
        (("resourceUri", "URI of the resource to embed"),),
    ),
    ReferencePrompt("test_prompt_with_image", "A prompt that holds a picture.", _with_image),
    ReferencePrompt("test_input_required_result_prompt", "A prompt that asks the user first.", _that_asks),
)
EXTRA_PROMPT: Final = ReferencePrompt("test_extra_prompt", "Is there after a change of the list.", _simple)
