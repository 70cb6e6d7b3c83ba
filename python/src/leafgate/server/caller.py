"""The client behind one request, as upstream servers may talk to it. In: the request's context. Out: a Caller.

Touches the client's connection. What a server asks in the middle of a call is asked of this client and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    LOG_LEVEL_META_KEY,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitationCapability,
    ElicitRequest,
    ElicitResult,
    ListRootsRequest,
    ListRootsResult,
    Result,
    RootsCapability,
    SamplingCapability,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from leafgate.model.errors import GatewayError

Context = ServerRequestContext[Any, Any]

_QUESTIONS: Final[Mapping[str, tuple[type[Any], type[Result], ClientCapabilities]]] = {
    "elicitation/create": (ElicitRequest, ElicitResult, ClientCapabilities(elicitation=ElicitationCapability())),
    "sampling/createMessage": (
        CreateMessageRequest,
        CreateMessageResult,
        ClientCapabilities(sampling=SamplingCapability()),
    ),
    "roots/list": (ListRootsRequest, ListRootsResult, ClientCapabilities(roots=RootsCapability())),
}


class ClientCaller:
    """Fills the Caller port for one request."""

    def __init__(self, context: Context, owner: str, session_log_level: str | None) -> None:
        self._context = context
        self._owner = owner
        self._session_log_level = session_log_level

    @property
    def owner(self) -> str:
        return self._owner

    @property
    def takes_input_requests(self) -> bool:
        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def resume(self) -> Mapping[str, Any]:
        params = self._context.params or {}
        return {key: params[key] for key in ("inputResponses", "requestState") if params.get(key) is not None}

    @property
    def capabilities(self) -> Mapping[str, Any]:
        declared = self._context.session.client_capabilities
        return {} if declared is None else declared.model_dump(by_alias=True, mode="json", exclude_none=True)

    @property
    def log_level(self) -> str | None:
        asked = ((self._context.params or {}).get("_meta") or {}).get(LOG_LEVEL_META_KEY)
        return asked if isinstance(asked, str) else self._session_log_level

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await self._context.session.report_progress(progress, total, message)

    async def log(self, params: Mapping[str, Any]) -> None:
        await self._context.session.send_log_message(
            params["level"], params.get("data"), params.get("logger"), related_request_id=self._context.request_id
        )

    async def approve(self, question: str) -> bool | None:
        """Asks the person at the client for a yes or no; None where there is no way to ask."""
        schema = {"type": "object", "properties": {"approve": {"type": "boolean"}}, "required": ["approve"]}
        try:
            answer = await self.ask("elicitation/create", {"message": question, "requestedSchema": schema})
        except GatewayError:
            return None
        content = answer.get("content")
        return answer.get("action") == "accept" and isinstance(content, Mapping) and content.get("approve") is True

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        session = self._context.session
        known = _QUESTIONS.get(method)
        if known is None:
            raise GatewayError("UPSTREAM_ERROR", "the server asked something that clients do not answer")
        request_type, result_type, capability = known
        if not session.can_send_request or not session.check_client_capability(capability):
            raise GatewayError("UPSTREAM_ERROR", f"the client does not take {method}")
        if method == "sampling/createMessage" and params.get("tools"):
            result_type = CreateMessageResultWithTools
        try:
            request = request_type.model_validate({"method": method, "params": dict(params)})
            related = ServerMessageMetadata(related_request_id=self._context.request_id)
            answer = await session.send_request(request, result_type, metadata=related)
        except (MCPError, ValidationError) as error:
            raise GatewayError("UPSTREAM_ERROR", f"the client did not answer {method}") from error
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
