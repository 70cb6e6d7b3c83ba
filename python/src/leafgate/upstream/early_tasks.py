"""Tasks of the handshake era (2025-11-25, part of the core then) in the form of the extension that followed them.

There the caller asks for a task, with `task` in the params of a call, and fetches the result by `tasks/result`. What a
task asks comes as a request of the server while its result is waited for. The gateway asks for a task where a tool runs
only as one; other tools are called directly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import anyio
from mcp import MCPError
from mcp.types import ServerCapabilities

from leafgate.upstream.raw_session import classify

TTL_MS: Final = 60 * 60 * 1000  # for how long a server is asked to hold a task
# Seconds to wait for the result of a task whose questions no client can answer: the answers are refused.
REFUSAL_SECONDS: Final = 2.0
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"

Send = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


def has_early_tasks(capabilities: ServerCapabilities) -> bool:
    """Whether a server declares tasks of this era for calls of tools."""
    requests = None if capabilities.tasks is None else capabilities.tasks.requests
    return requests is not None and requests.tools is not None and requests.tools.call is not None


def runs_as_task(definitions: Sequence[Mapping[str, Any]], name: object) -> bool:
    """Whether the tool of this name runs only as a task."""
    executions = [each.get("execution") for each in definitions if each.get("name") == name]
    return any(isinstance(each, Mapping) and each.get("taskSupport") == "required" for each in executions)


async def call_as_task(send: Send, params: dict[str, Any]) -> dict[str, Any]:
    """Call a tool as a task; returns the answer that names the task."""
    raw = await send("tools/call", {**params, "task": {"ttl": TTL_MS}})
    task = raw.get("task")
    return {"resultType": "task", **_translate(task)} if isinstance(task, Mapping) else raw


async def get_early_task(send: Send, params: dict[str, Any], *, can_ask: bool) -> dict[str, Any]:
    """The state of a task, with its result once it has ended. `can_ask`: a client is there to answer its questions."""
    state = _translate(await send("tasks/get", params))
    if state.get("status") not in ("completed", "failed", "input_required"):
        return state
    is_waiting = state["status"] == "input_required"
    with anyio.move_on_after(REFUSAL_SECONDS if is_waiting and not can_ask else None):
        try:
            result = await send("tasks/result", params)
        except MCPError as error:
            if classify(error).code != "UPSTREAM_ERROR":
                raise
            return {**state, "status": "failed", "error": {"code": error.code, "message": error.message}}
        meta = {key: value for key, value in (result.get("_meta") or {}).items() if key != RELATED_TASK}
        return {**state, "status": "completed", "result": {**result, "_meta": meta}}
    return {**state, "status": "working"}


def _translate(task: Mapping[str, Any]) -> dict[str, Any]:
    names = ("taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt")
    times = {"ttlMs": task.get("ttl"), "pollIntervalMs": task.get("pollInterval")}
    return {**{name: task[name] for name in names if name in task}, **times}
