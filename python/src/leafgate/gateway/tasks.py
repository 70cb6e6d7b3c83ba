"""Tasks (SEP-2663): a server answers a call with the name of a task, and has the result when it is asked for it later.

A client that declares the extension gets the task under an id of the gateway, which leads back to the server and works
for its owner only. For other clients the gateway waits for the result itself, within the time of a call. Everything
that a server says of a task is foreign: this file reads it strictly, and `write_task` writes what a client may see.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import anyio

from leafgate.admission.retry import TRANSIENT
from leafgate.gateway.deliver import Delivery
from leafgate.gateway.dispatch import CleanClient
from leafgate.gateway.native import INVALID_PARAMS
from leafgate.gateway.result import TaskCreated
from leafgate.gateway.serving import note
from leafgate.model.envelope import Origin
from leafgate.model.errors import GatewayError, StoreError, UpstreamFailure
from leafgate.model.request import ClientChannel, Request
from leafgate.model.tool import SelectableItem
from leafgate.ports import TASKS, TaskRecord, Tasks, Upstream

log = logging.getLogger("leafgate.gateway")

TASK: Final = "task"  # the resultType of an answer that names a task
INPUT_REQUIRED: Final = "input_required"  # of one that asks for input; also the status of a task
DAY_MS: Final = 24 * 60 * 60 * 1000  # for a task without a TTL, or with a longer one
MAX_ID: Final = 1_024
MAX_STATUS_CHARS: Final = 500
# The server's interval is respected within these bounds.
SHORTEST_POLL: Final = 0.02
LONGEST_POLL: Final = 30.0
DEFAULT_POLL: Final = 1.0
CANCEL_SECONDS: Final = 2.0
MAX_ROUNDS: Final = 10  # of questions
# Before the id of a task in the `requestState` of a question, for clients without the extension.
STATE_PREFIX: Final = "leafgate-task:"

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True)
class TaskState:
    """What a server says of a task. `part` is the field that belongs to the status: result, error or questions."""

    task_id: str
    status: Status
    part: Mapping[str, Any]
    message: str = ""
    created: str = ""
    updated: str = ""
    ttl_ms: int = DAY_MS
    poll_ms: int | None = None

    @property
    def poll_seconds(self) -> float:
        """How long to wait before the next question for the state."""
        wanted = DEFAULT_POLL if self.poll_ms is None else self.poll_ms / 1000
        return min(max(wanted, SHORTEST_POLL), LONGEST_POLL)


_PARTS: Final[Mapping[Status, str]] = {"completed": "result", "failed": "error", "input_required": "inputRequests"}


def read_task(raw: Mapping[str, Any], task_id: str | None = None) -> TaskState:
    """The state in an answer. UpstreamFailure if it is not one, or not that of the task with this id.

    The answer that creates a task, whose id is not known before, has no part yet.
    """
    id = raw.get("taskId")
    status: Status | None = next((each for each in get_args(Status) if each == raw.get("status")), None)
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID or status is None:
        raise UpstreamFailure("UPSTREAM_ERROR", "the server describes a task without a usable id or status")
    if task_id is not None and id != task_id:
        raise UpstreamFailure("UPSTREAM_ERROR", "the server describes another task than the one it was asked for")
    part = raw.get(_PARTS.get(status, ""), None if status == "completed" and task_id is not None else {})
    if not isinstance(part, Mapping):
        raise UpstreamFailure("UPSTREAM_ERROR", f"the {_PARTS[status]} of a task is not an object")
    message = raw.get("statusMessage")
    ttl, poll = _read_ms(raw.get("ttlMs")), _read_ms(raw.get("pollIntervalMs"))
    return TaskState(
        id,
        status,
        part,
        message[:MAX_STATUS_CHARS] if isinstance(message, str) else "",
        _read_time(raw.get("createdAt")),
        _read_time(raw.get("lastUpdatedAt")),
        DAY_MS if ttl is None else ttl,
        poll,
    )


def _read_ms(value: object) -> int | None:
    """A number of milliseconds, a day at most; None if it is not one."""
    return min(value, DAY_MS) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _read_time(value: object) -> str:
    return value if isinstance(value, str) and _TIME.fullmatch(value) else ""


def write_task(state: TaskState, id: str, message: str) -> dict[str, Any]:
    """The fields of a task for its client: under its public id, with the cleaned message of its status."""
    fields = {
        "taskId": id,
        "status": state.status,
        "statusMessage": message,
        "createdAt": state.created,
        "lastUpdatedAt": state.updated,
        "ttlMs": state.ttl_ms,
        "pollIntervalMs": state.poll_ms,
    }
    return {name: value for name, value in fields.items() if value not in ("", None)}


def result_of(state: TaskState) -> Mapping[str, Any]:
    """The raw result of a task that has ended. UpstreamFailure if it has none."""
    if state.status == "failed":
        code = state.part.get("code")
        detail = f"the task failed: {str(dict(state.part))[:2000]}"
        rpc_code = code if isinstance(code, int) and not isinstance(code, bool) else None
        raise UpstreamFailure("UPSTREAM_ERROR", detail, message="the task failed at its server", rpc_code=rpc_code)
    if state.status != "completed":
        message = "the task was cancelled at its server"
        raise UpstreamFailure("UPSTREAM_ERROR", f"the task ended as {state.status}", message=message)
    if state.part.get("resultType", "complete") != "complete":
        raise UpstreamFailure("UPSTREAM_ERROR", "the result of a task is not a complete result")
    return state.part


def takes_tasks(client: ClientChannel | None) -> bool:
    """Whether a client declares tasks. Only the stateless era has them."""
    if client is None or not client.takes_input_requests:
        return False
    extensions = client.capabilities.get("extensions")
    return isinstance(extensions, Mapping) and TASKS in extensions


def unknown_task() -> GatewayError:
    """The one error for ids that are unknown, foreign, forged or expired."""
    return GatewayError("TASK_NOT_FOUND", "this task is unknown or has expired")


async def request_task(
    upstream: Upstream, task: TaskRecord, method: str, client: ClientChannel | None, **params: Any
) -> Mapping[str, Any]:
    """Send one of the methods `tasks/…` to the server of a task. GatewayError if it does not know the task any more."""
    if upstream.instance_of(task.server).name != task.instance:
        raise unknown_task()  # a process that was started anew may have given the id to another task
    try:
        return await upstream.request(task.server, method, {"taskId": task.task_id, **params}, client)
    except UpstreamFailure as failure:
        if failure.rpc_code == INVALID_PARAMS:
            raise unknown_task() from failure
        raise


async def get_state(upstream: Upstream, task: TaskRecord, client: ClientChannel | None) -> TaskState:
    return read_task(await request_task(upstream, task, "tasks/get", client), task.task_id)


async def cancel_task(upstream: Upstream, task: TaskRecord) -> None:
    """Cancel a task that is no longer wanted, even while the caller itself is being cancelled. Never raises."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_SECONDS):
        try:
            await request_task(upstream, task, "tasks/cancel", None)
        except (GatewayError, UpstreamFailure) as error:
            log.warning("[%s] a task could not be cancelled: %s", task.server, error)


@dataclass(frozen=True)
class TaskWait:
    """A wait for the end of a task on behalf of a client without the extension.

    Only cleaned texts may be passed on to `client`.
    """

    upstream: Upstream
    task: TaskRecord
    client: ClientChannel | None

    async def run(self, state: TaskState, answered: Collection[str] = ()) -> TaskState:
        """The state at the end of the task; or with questions for a client that takes them as a result.

        The task is cancelled if its time is over (UPSTREAM_TIMEOUT), if the caller goes away, or if the wait fails.
        `answered` are the keys of questions that the client has answered already.
        """
        seconds = self.upstream.instance_of(self.task.server).timeout
        has_ended = False
        try:
            with anyio.fail_after(seconds):
                state = await self._wait(state, set(answered))
            has_ended = True
            return state
        except TimeoutError:
            raise UpstreamFailure("UPSTREAM_TIMEOUT", f"the task has not ended within {seconds:g} s") from None
        except GatewayError as error:
            if error.code != "TASK_NOT_FOUND":
                raise
            raise UpstreamFailure("UPSTREAM_ERROR", "the server does not know its own task (any more)") from error
        finally:
            if not has_ended:
                await cancel_task(self.upstream, self.task)

    async def _wait(self, state: TaskState, answered: set[str]) -> TaskState:
        polls = 0
        if state.status != "working":  # what belongs to the status is not in the answer that created the task
            state = await get_state(self.upstream, self.task, self.client)
        for _ in range(MAX_ROUNDS + 1):
            while state.status == "working" or (state.status == INPUT_REQUIRED and answered.issuperset(state.part)):
                polls += 1
                if self.client is not None:
                    await self.client.progress(polls, None, state.message or None)
                await anyio.sleep(state.poll_seconds)
                try:
                    state = await get_state(self.upstream, self.task, self.client)
                except UpstreamFailure as failure:
                    if failure.code not in TRANSIENT:  # a server that is away for a moment is asked again
                        raise
            if state.status != INPUT_REQUIRED or (self.client is not None and self.client.takes_input_requests):
                return state
            answers = await self._ask({key: each for key, each in state.part.items() if key not in answered})
            await request_task(self.upstream, self.task, "tasks/update", self.client, inputResponses=answers)
            answered.update(answers)
        raise UpstreamFailure("UPSTREAM_ERROR", f"a task asked for input more than {MAX_ROUNDS} times")

    async def _ask(self, questions: Mapping[str, Any]) -> dict[str, Any]:
        """The client's answers to the questions of a task, one by one."""
        answers: dict[str, Any] = {}
        for key, question in questions.items():
            if self.client is None or not isinstance(question, Mapping):
                raise UpstreamFailure("UPSTREAM_ERROR", "a task needs input, and there is no client to ask")
            params = question.get("params")
            try:
                answers[key] = await self.client.ask(
                    str(question.get("method")), params if isinstance(params, Mapping) else {}
                )
            except GatewayError as error:
                raise UpstreamFailure("UPSTREAM_ERROR", f"the client did not answer: {error}") from error
        return answers


@dataclass(frozen=True)
class TaskKeeper:
    """The tasks of callers: in the store under their public ids, and at their servers.

    Without a `store` no client is given a task, and the gateway waits for each.
    """

    upstream: Upstream
    store: Tasks | None

    async def take(
        self,
        origin: Origin,
        raw: Mapping[str, Any],
        request: Request,
        delivery: Delivery,
        *,
        is_resumed: bool,
        is_native: bool,
    ) -> TaskCreated | TaskState | Mapping[str, Any]:
        """What becomes of an answer that names a task: its public id for a client that takes tasks; for others the
        state at its end, or an `input_required` result with the questions that are not answered yet.

        `is_resumed`: the call answered questions. `is_native`: its tool was called by its listed name.
        """
        state, client = read_task(raw), request.client
        answered = client.resume["inputResponses"] if is_resumed and client is not None else ()
        instance = self.upstream.instance_of(origin.server)
        task = TaskRecord(origin.server, instance.name, state.task_id, origin.tool, is_native)
        if takes_tasks(client) and self.store is not None:
            id = await self._put(self.store, task, state, request)
            return TaskCreated(
                {"resultType": TASK, **write_task(state, id, delivery.cleaner(origin).text(state.message).value)}
            )
        clean_client = None if client is None else CleanClient(client, delivery, origin.server)
        wait = TaskWait(self.upstream, task, clean_client)
        state = await wait.run(state, answered)
        if state.status != INPUT_REQUIRED:
            return state
        if self.store is None:
            await cancel_task(self.upstream, task)
            raise UpstreamFailure("UPSTREAM_ERROR", "a task needs input, and its client cannot resume it")
        id = await self._put(self.store, task, state, request)
        return {"resultType": INPUT_REQUIRED, "inputRequests": state.part, "requestState": f"{STATE_PREFIX}{id}"}

    async def find_resumed(self, request: Request) -> TaskRecord | None:
        """The task whose questions a call answers, for clients that do not take tasks."""
        state = None if request.client is None else request.client.resume.get("requestState")
        if not isinstance(state, str) or not state.startswith(STATE_PREFIX):
            return None
        return await self.load(state.removeprefix(STATE_PREFIX), request)

    async def load(self, id: str, request: Request) -> TaskRecord:
        """The caller's task with this public id."""
        try:
            task = None if self.store is None else await self.store.get(request.owner, id)
        except StoreError as error:
            log.error("the tasks cannot be read: %s", error)
            raise GatewayError("STORE_UNAVAILABLE", "what the gateway keeps cannot be reached now") from error
        if task is None:
            raise unknown_task()
        note(server=task.server, tool=task.tool)
        return task

    async def _put(self, store: Tasks, task: TaskRecord, state: TaskState, request: Request) -> str:
        """The public id of a task. One that cannot be stored is cancelled: no client could ask for it."""
        try:
            return await store.put(request.owner, task, state.ttl_ms / 1000)
        except BaseException:
            await cancel_task(self.upstream, task)
            raise


async def resume_task(
    upstream: Upstream, task: TaskRecord, item: SelectableItem, client: ClientChannel | None
) -> Mapping[str, Any]:
    """Pass on the answers that came with a second call of a tool; returns the answer that names the task again."""
    answers = None if client is None else client.resume.get("inputResponses")
    if (item.server, item.upstream_name) != (task.server, task.tool):
        raise unknown_task()
    if not isinstance(answers, Mapping):
        raise GatewayError("ARGS_INVALID", "inputResponses is an object", path=item.id)
    await request_task(upstream, task, "tasks/update", client, inputResponses=dict(answers))
    return {**await request_task(upstream, task, "tasks/get", client), "resultType": TASK}
