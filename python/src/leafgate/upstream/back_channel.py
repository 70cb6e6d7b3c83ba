"""What a server says to clients during a call: questions and log lines. In: MCP callbacks. Out: to the caller.

Touches no server itself. A server's question has no address: it goes to the one client with a call under way there.
With none or several clients at it, it is refused, because one client's question must never reach another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from mcp.client.session import ClientRequestContext
from mcp.types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    LoggingMessageNotificationParams,
)
from pydantic import BaseModel

from leafgate.model.errors import GatewayError
from leafgate.ports import Caller

Answer = TypeVar("Answer", bound=BaseModel)


class BackChannel:
    """The callers at one server, and the way from it to them."""

    def __init__(self) -> None:
        self._callers: list[Caller] = []

    @contextmanager
    def open_to(self, caller: Caller | None) -> Iterator[None]:
        """The server may talk to this caller inside this context."""
        if caller is None:
            yield
            return
        self._callers.append(caller)
        try:
            yield
        finally:
            self._callers.remove(caller)

    async def sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        if params.tools:
            return await self._ask("sampling/createMessage", params, CreateMessageResultWithTools)
        return await self._ask("sampling/createMessage", params, CreateMessageResult)

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        return await self._ask("elicitation/create", params, ElicitResult)

    async def list_roots(self, context: ClientRequestContext) -> ListRootsResult | ErrorData:
        return await self._ask("roots/list", None, ListRootsResult)

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        said = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        for caller in {caller.owner: caller for caller in self._callers}.values():
            await caller.log(said)

    async def _ask(self, method: str, params: BaseModel | None, kind: type[Answer]) -> Answer | ErrorData:
        owners = {caller.owner for caller in self._callers}
        if len(owners) != 1:
            return ErrorData(code=INVALID_REQUEST, message="no single client can be asked")
        asked: Mapping[str, Any] = (
            {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        )
        try:
            return kind.model_validate(await self._callers[-1].ask(method, asked))
        except GatewayError as error:
            return ErrorData(code=INVALID_REQUEST, message=error.body.message)
