"""Tasks (SEP-2663) on the side of the clients: what their requests must have, and the stream of changes of tasks.

The requests themselves (`tasks/get`, `tasks/update`, `tasks/cancel`) are answered by the gateway; see gateway/tasks.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import anyio
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.types import (
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    Notification,
    NotificationParams,
    RequestParams,
    SubscriptionsAcknowledgedNotification,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict

from leafgate.gateway.tasks import DEFAULT_POLL, LONGEST_POLL, takes_tasks
from leafgate.model.errors import LeafgateError, UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.ports import TASKS

MAX_WATCHED: Final = 32  # tasks on one stream
SHORTEST_WATCH: Final = 0.25

Context = ServerRequestContext[Any, Any]
GetTask = Callable[[str], Awaitable[Mapping[str, Any]]]


class TaskParams(RequestParams):
    """The params of `tasks/get` and `tasks/cancel`."""

    task_id: str


class TaskUpdateParams(TaskParams):
    input_responses: dict[str, Any]


class _TaskParams(NotificationParams):
    model_config = ConfigDict(extra="allow")


class _TaskNotification(Notification[_TaskParams, str]):
    method: str = "notifications/tasks"


def check_task_request(ctx: Context, client: ClientChannel | None, task_id: str) -> None:
    """Raise MCPError for a request about a task by a client without the extension, or with a header that differs."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
    if not takes_tasks(client):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", needed)
    if ctx.request is not None and decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER)) != task_id:
        raise MCPError(HEADER_MISMATCH, f"{MCP_NAME_HEADER} header does not match the taskId of the request body")


def read_task_ids(params: Any, client: ClientChannel | None) -> list[str]:
    """The tasks that a `subscriptions/listen` request names; none if the client does not declare the extension."""
    ids = (params.notifications.model_extra or {}).get("taskIds")
    if not isinstance(ids, list) or not takes_tasks(client):
        return []
    return [*dict.fromkeys(id for id in ids if isinstance(id, str))][:MAX_WATCHED]


@dataclass(frozen=True)
class _AcknowledgingSession:
    """The session of a listening request, whose acknowledgement names the tasks too. The SDK's handler drops them."""

    inner: ServerSession
    ids: Sequence[str]
    acknowledged: anyio.Event

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        if isinstance(notification, SubscriptionsAcknowledgedNotification):
            honored = notification.params.notifications.model_copy(update={"taskIds": [*self.ids]})
            notification = notification.model_copy(
                update={"params": notification.params.model_copy(update={"notifications": honored})}
            )
        await self.inner.send_notification(notification, related_request_id)
        self.acknowledged.set()


async def listen_with_tasks(
    listen: Callable[[Context, Any], Awaitable[Any]], ctx: Context, params: Any, ids: Sequence[str], get_task: GetTask
) -> Any:
    """A stream of changes, also of these tasks: their servers are asked at their own intervals until the tasks end.

    So it works with servers that send no notifications, and at each gateway that shares the store.
    """
    session = _AcknowledgingSession(ctx.session, ids, anyio.Event())

    async def follow(id: str) -> None:
        await session.acknowledged.wait()
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        last: Mapping[str, Any] = {}
        while last.get("status") not in ("completed", "failed", "cancelled"):
            try:
                task = await get_task(id)
            except UpstreamFailure:
                task = last  # its server may be back later
            except LeafgateError:
                return  # the client gets the reason when it asks for the task itself
            if task != last:
                notification = _TaskNotification(params=_TaskParams(_meta=meta, **task))
                await ctx.session.send_notification(cast("Any", notification), ctx.request_id)
            last = task
            wanted = task.get("pollIntervalMs", DEFAULT_POLL * 1000) / 1000
            await anyio.sleep(min(max(wanted, SHORTEST_WATCH), LONGEST_POLL))

    async with anyio.create_task_group() as group:
        for id in ids:
            group.start_soon(follow, id)
        result = await listen(replace(ctx, session=cast("ServerSession", session)), params)
        group.cancel_scope.cancel()
    return result
