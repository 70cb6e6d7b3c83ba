"""Asking the client, in either era. In: requests by key. Out: the answers by key.

Up to 2025-11-25 each request goes to the client while the call waits. From 2026-07-28 the call ends with
`InputNeeded`, and the client makes it again with the answers. A tool is written once, for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsResult,
    RootsCapability,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)

from reference.call import Call, is_modern

_ANSWERS: Final[Mapping[str, type[Any]]] = {
    "elicitation/create": ElicitResult,
    "sampling/createMessage": CreateMessageResult,
    "roots/list": ListRootsResult,
}
_CAPABILITIES: Final[Mapping[str, ClientCapabilities]] = {
    "elicitation/create": ClientCapabilities(elicitation=ElicitationCapability()),
    "sampling/createMessage": ClientCapabilities(sampling=SamplingCapability()),
    "roots/list": ClientCapabilities(roots=RootsCapability()),
}


class InputNeeded(Exception):
    """The call ends here: its result asks the client to call again with answers."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("the client has to answer first")
        self.result = result


def form(message: str, properties: dict[str, Any], required: list[str] | None = None) -> ElicitRequest:
    """A form for the user. All fields are required unless said otherwise."""
    needed = list(properties) if required is None else required
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if needed:
        schema["required"] = needed
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str, max_tokens: int) -> CreateMessageRequest:
    """A question for the client's model."""
    message = SamplingMessage(role="user", content=TextContent(text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def can_answer(call: Call, request: InputRequest) -> bool:
    """Whether the client has declared that it takes requests of this kind."""
    return call.ctx.session.check_client_capability(_CAPABILITIES[request.method])


def require(call: Call, *requests: InputRequest) -> None:
    """Refuse the call unless the client takes all these kinds of requests."""
    missing: dict[str, Any] = {}
    for request in requests:
        if not can_answer(call, request):
            missing |= _CAPABILITIES[request.method].model_dump(by_alias=True, mode="json", exclude_none=True)
    if missing:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"The client has not declared: {', '.join(missing)}",
            {"requiredCapabilities": missing},
        )


async def ask(call: Call, requests: dict[str, InputRequest], *, state: str | None = None) -> dict[str, Any]:
    """The answers to these requests. Raises `InputNeeded` where they can only come with the next call.

    With a `state`, answers count only together with it: it shows that this server asked for them.
    """
    require(call, *requests.values())
    if is_modern(call.ctx):
        answers = call.params.input_responses or {}
        asked = state is None or call.params.request_state == state
        if asked and all(_fits(request, answers.get(key)) for key, request in requests.items()):
            return {key: answers[key] for key in requests}
        raise InputNeeded(InputRequiredResult(input_requests=requests, request_state=state))
    beside_this_call = ServerMessageMetadata(related_request_id=call.ctx.request_id)
    return {
        key: await call.ctx.session.send_request(request, _ANSWERS[request.method], metadata=beside_this_call)
        for key, request in requests.items()
    }


def _fits(request: InputRequest, answer: object) -> bool:
    """Whether this is an answer to that request; a form that was accepted holds all required fields."""
    if not isinstance(answer, _ANSWERS[request.method]):
        return False
    if isinstance(answer, ElicitResult) and answer.action == "accept":
        asked = request.params
        required = asked.requested_schema.get("required", []) if isinstance(asked, ElicitRequestFormParams) else []
        return all(name in (answer.content or {}) for name in required)
    return True
