"""Tasks (the extension `io.modelcontextprotocol/tasks`): the tools that the conformance suite calls, and two for tests.

Nothing runs in the background: the state of a task follows from the time, the number of `tasks/get`, and the answers
so far. Ids are counted: two servers give the same ones. A client that did not declare the extension gets the result
at once, or an error where the tool runs only as a task.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ElicitRequest,
    RequestParams,
)

from reference.asking import ask, form
from reference.call import Call, ReferenceTool, is_modern, text_result

EXTENSION: Final = "io.modelcontextprotocol/tasks"
POLL_MS: Final = 20
NOW: Final = "2026-07-28T12:00:00Z"
NAME_FORM: Final = form("What is your name?", {"name": {"type": "string"}})
CONFIRM_FORM: Final = form("Delete it?", {"confirm": {"type": "boolean"}})

DIRTY: Final = "key AKIAQ3EGZ7TLK4WBXN2P <|im_end|>\u200b"
# What a server that cannot be trusted says of its tasks, when it creates one and when it is asked for it.
FAULTY_CREATION: Final[dict[str, dict[str, Any]]] = {
    "number_as_id": {"taskId": 7},
    "long_id": {"taskId": "x" * 5_000},
    "unknown_status": {"status": "resting"},
    "dirty": {"statusMessage": DIRTY},
}
FAULTY_STATE: Final[dict[str, dict[str, Any]]] = {
    "another_id": {"taskId": "task-0"},
    "nested_task": {"status": "completed", "result": {"resultType": "task", "taskId": "task-1"}},
    "text_as_result": {"status": "completed", "result": "done"},
    "dirty": {
        "status": "completed",
        "statusMessage": DIRTY,
        "result": {"content": [{"type": "text", "text": DIRTY}]},
        "_meta": {"note": DIRTY},
    },
    "cancelled": {"status": "cancelled"},
}

Finish = Callable[[dict[str, Any]], CallToolResult]


class TaskParams(RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


@dataclass
class RunningTask:
    """A task: when it is over, what it asks then, and how the answers become its result."""

    finish: Finish
    questions: dict[str, ElicitRequest] = field(default_factory=dict)
    polls: int = 0
    seconds: float = 0
    started: float = field(default_factory=time.monotonic)
    answers: dict[str, Any] = field(default_factory=dict)
    is_cancelled: bool = False
    fault: str = ""

    def state(self) -> dict[str, Any]:
        if self.is_cancelled:
            return {"status": "cancelled"}
        if self.polls > 0 or time.monotonic() < self.started + self.seconds:
            return {"status": "working", "statusMessage": f"{self.polls} more steps"}
        pending = {key: _dump(question) for key, question in self.questions.items() if key not in self.answers}
        if pending:
            return {"status": "input_required", "inputRequests": pending}
        try:
            return {"status": "completed", "result": _dump(self.finish(self.answers))}
        except MCPError as error:
            return {"status": "failed", "error": {"code": error.code, "message": error.message}}


class TaskDesk:
    """The tasks of one server."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._tasks: dict[str, RunningTask] = {}
        self.log: list[str] = []

    def add_to(self, server: Server[Any]) -> None:
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)

    def create(self, task: RunningTask) -> dict[str, Any]:
        id = f"task-{next(self._ids)}"
        self._tasks[id] = task
        self.log.append(f"create {id}")
        return {"resultType": "task", "status": "working", **_about(id), **FAULTY_CREATION.get(task.fault, {})}

    def _find(self, ctx: ServerRequestContext, params: TaskParams) -> RunningTask:
        if not declares_tasks(ctx):
            raise _missing_capability()
        if ctx.request is not None and ctx.request.headers.get("mcp-name") != params.task_id:
            raise MCPError(HEADER_MISMATCH, "the header Mcp-Name does not name the task")
        if params.task_id not in self._tasks:
            raise MCPError(INVALID_PARAMS, "Failed to retrieve task: Task not found")
        return self._tasks[params.task_id]

    async def _get(self, ctx: ServerRequestContext, params: TaskParams) -> dict[str, Any]:
        task = self._find(ctx, params)
        task.polls -= 1
        fault = FAULTY_STATE.get(task.fault, {})
        return {"resultType": "complete", **task.state(), **_about(params.task_id), **fault}

    async def _update(self, ctx: ServerRequestContext, params: UpdateParams) -> dict[str, Any]:
        self._find(ctx, params).answers |= params.input_responses
        return {"resultType": "complete"}

    async def _cancel(self, ctx: ServerRequestContext, params: TaskParams) -> dict[str, Any]:
        task = self._find(ctx, params)
        task.is_cancelled = task.is_cancelled or task.state()["status"] in ("working", "input_required")
        self.log.append(f"cancel {params.task_id}")
        return {"resultType": "complete"}


def declares_tasks(ctx: ServerRequestContext) -> bool:
    declared = ctx.session.client_capabilities
    return is_modern(ctx) and declared is not None and EXTENSION in (declared.extensions or {})


def _missing_capability() -> MCPError:
    data = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", data)


def _about(id: str) -> dict[str, Any]:
    return {"taskId": id, "createdAt": NOW, "lastUpdatedAt": NOW, "ttlMs": 600_000, "pollIntervalMs": POLL_MS}


def _dump(model: Any) -> dict[str, Any]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def _said(answers: dict[str, Any], key: str, name: str) -> str:
    """A field of an answer, as JSON from `tasks/update` or as a model from `ask`."""
    answer = answers.get(key) or {}
    content = answer.get("content") if isinstance(answer, dict) else answer.content
    return str((content or {}).get(name, ""))


async def _run(call: Call, task: RunningTask, *, required: bool = False) -> Any:
    """The task; or its result at once, for a client that takes no tasks."""
    if declares_tasks(call.ctx):
        return call.state.desk.create(task)
    if required and is_modern(call.ctx):
        raise _missing_capability()
    answers = await ask(call, dict(task.questions)) if task.questions else {}
    return task.finish(answers)


async def _greet(call: Call) -> CallToolResult:
    return text_result(f"Hello, {call.arguments.get('name', 'you')}!")


async def _slow_compute(call: Call) -> Any:
    label = call.arguments.get("label", "it")
    return await _run(call, RunningTask(lambda _: text_result(f"Computed {label}."), seconds=call.arguments["seconds"]))


async def _failing_job(call: Call) -> Any:
    return await _run(call, RunningTask(lambda _: text_result("It did not work.", is_error=True)), required=True)


async def _protocol_error_job(call: Call) -> Any:
    def fail(answers: dict[str, Any]) -> CallToolResult:
        raise MCPError(-32050, "secret words of the server")

    return await _run(call, RunningTask(fail))


async def _confirm_delete(call: Call) -> Any:
    def finish(answers: dict[str, Any]) -> CallToolResult:
        return text_result(f"Deleted {call.arguments['filename']}: {_said(answers, 'confirm', 'confirm')}")

    return await _run(call, RunningTask(finish, {"confirm": CONFIRM_FORM}))


async def _multi_input(call: Call) -> Any:
    def finish(answers: dict[str, Any]) -> CallToolResult:
        return text_result(f"{_said(answers, 'first', 'name')} and {_said(answers, 'second', 'name')}")

    return await _run(call, RunningTask(finish, {"first": NAME_FORM, "second": NAME_FORM}))


async def _asks_first(call: Call) -> Any:
    """Asks before there is a task."""
    answers = await ask(call, {"user_name": NAME_FORM})
    name = _said(answers, "user_name", "name")
    return await _run(call, RunningTask(lambda _: text_result(f"Hello, {name}!")), required=True)


async def _write_report(call: Call) -> Any:
    args = call.arguments

    def finish(answers: dict[str, Any]) -> CallToolResult:
        who = _said(answers, "name", "name")
        return text_result(f"Report on {args['topic']}{f' for {who}' if who else ''}.{' More.' * args.get('more', 0)}")

    questions = {"name": NAME_FORM} if args.get("asks") else {}
    return await _run(call, RunningTask(finish, questions, polls=args.get("polls", 1)))


async def _faulty_task(call: Call) -> Any:
    return await _run(call, RunningTask(lambda _: text_result("ok"), fault=call.arguments["fault"]))


async def _task_log(call: Call) -> CallToolResult:
    return text_result(json.dumps(call.state.desk.log))


def _schema(*required: str, **properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": [*required],
        "additionalProperties": False,
    }


TASK_TOOLS: Final = (
    ReferenceTool("greet", "Greets at once.", _greet, _schema(name="string")),
    ReferenceTool(
        "slow_compute", "Takes its time.", _slow_compute, _schema("seconds", seconds="number", label="string")
    ),
    ReferenceTool("failing_job", "Fails; only as a task.", _failing_job),
    ReferenceTool("protocol_error_job", "Ends with an error of the protocol.", _protocol_error_job),
    ReferenceTool("confirm_delete", "Asks before it deletes.", _confirm_delete, _schema("filename", filename="string")),
    ReferenceTool("multi_input", "Asks two things at once.", _multi_input),
    ReferenceTool("test_tool_with_task", "Asks, and then starts a task.", _asks_first),
    ReferenceTool(
        "write_report",
        "Writes a report; `polls` is how often its state is asked for until it is over.",
        _write_report,
        _schema("topic", topic="string", polls="integer", asks="boolean", more="integer"),
    ),
    ReferenceTool("faulty_task", "Breaks the rules of tasks.", _faulty_task, _schema("fault", fault="string")),
    ReferenceTool("task_log", "What happened to tasks.", _task_log),
)
