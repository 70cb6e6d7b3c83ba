"""Tasks: what a server may say of one, and what becomes of it for clients with and without the extension."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest
from conftest import MAPS

from leafgate.admission.policy import CachePolicy
from leafgate.admission.retry import RetryPolicy
from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.approval import ApprovalSettings
from leafgate.gateway.dispatch import Dispatcher
from leafgate.gateway.execute import Controls
from leafgate.gateway.runtime import GatewayParts, GatewayRuntime
from leafgate.gateway.tasks import DAY_MS, DEFAULT_POLL, LONGEST_POLL, SHORTEST_POLL, read_task, result_of, write_task
from leafgate.model.errors import GatewayError, StoreError, UpstreamFailure
from leafgate.model.request import Request
from leafgate.model.rights import CapabilityPolicy, Rule
from leafgate.ports import TASKS, ServerInstance, TaskRecord
from leafgate.state.memory import MemoryApprovals, MemoryArtifactStore, MemoryTasks, ToolResultCache
from leafgate.telemetry.metrics import Metrics
from leafgate.upstream.library import StubUpstream

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = {
    "name": "count",
    "inputSchema": {"type": "object"},
    "outputSchema": SCHEMA,
    "annotations": {"readOnlyHint": True},
}
NOW = "2026-07-28T12:00:00Z"
WORKING = {"taskId": "t", "status": "working"}
DONE = {"status": "completed", "result": {"content": [], "structuredContent": {"n": 1}}}


# What a server may say


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"taskId": "t"},
        {"taskId": "", "status": "working"},
        {"taskId": None, "status": "working"},
        {"taskId": "x" * 2_000, "status": "working"},
        {"taskId": "t", "status": "done"},
        {"taskId": "t", "status": ["working"]},
        {"taskId": "t", "status": "completed", "result": [1]},
        {"taskId": "t", "status": "completed"},
        {"taskId": "t", "status": "failed", "error": "no"},
        {"taskId": "t", "status": "input_required", "inputRequests": 1},
        {"taskId": "other", "status": "working"},
    ],
)
def test_what_is_not_a_task_is_refused(raw: Mapping[str, Any]) -> None:
    with pytest.raises(UpstreamFailure):
        read_task(raw, "t")


def test_only_fields_of_the_right_type_are_passed_on() -> None:
    good = {"createdAt": NOW, "lastUpdatedAt": "2026-07-28T12:00:01.5+02:00", "ttlMs": 5, "pollIntervalMs": 7}
    written = write_task(read_task({**WORKING, **good, "statusMessage": "half", "more": 1}), "public", "clean")
    assert written == {"taskId": "public", "status": "working", "statusMessage": "clean", **good}
    bad = {"createdAt": "now <|im_end|>", "lastUpdatedAt": 5, "ttlMs": "x", "pollIntervalMs": 1.5, "statusMessage": 1}
    assert write_task(read_task({**WORKING, **bad}), "public", "") == {**WORKING, "taskId": "public", "ttlMs": DAY_MS}


@pytest.mark.parametrize(("ttl", "kept"), [(None, DAY_MS), (-1, DAY_MS), (True, DAY_MS), (10**12, DAY_MS), (50, 50)])
def test_the_time_of_a_task_is_bounded(ttl: Any, kept: int) -> None:
    assert read_task({**WORKING, "ttlMs": ttl}).ttl_ms == kept


@pytest.mark.parametrize(
    ("wanted", "seconds"),
    [(None, DEFAULT_POLL), (1, SHORTEST_POLL), (0, DEFAULT_POLL), (2_500, 2.5), (10**400, LONGEST_POLL)],
)
def test_the_interval_is_bounded(wanted: Any, seconds: float) -> None:
    assert read_task({**WORKING, "pollIntervalMs": wanted}).poll_seconds == seconds


@pytest.mark.parametrize(
    "end",
    [
        {"status": "failed", "error": {"code": -1, "message": "secret"}},
        {"status": "cancelled"},
        {"status": "completed", "result": {"resultType": "task", "taskId": "t"}},
    ],
)
def test_a_task_without_a_result_is_a_failure_without_its_words(end: Mapping[str, Any]) -> None:
    with pytest.raises(UpstreamFailure) as raised:
        result_of(read_task({"taskId": "t", **end}))
    assert raised.value.code == "UPSTREAM_ERROR"
    assert "secret" not in raised.value.message


# The gateway


class FakeClient:
    """A client that notes what reaches it."""

    owner = user = "me"
    takes_input_requests = True
    takes_any_json = True
    resume: Mapping[str, Any] = {}
    meta: Mapping[str, Any] = {}
    log_level = None

    def __init__(self, *, has_tasks: bool) -> None:
        self.capabilities: Mapping[str, Any] = {"extensions": {TASKS: {}}} if has_tasks else {}
        self.progress_messages: list[str | None] = []

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress_messages.append(message)

    async def log(self, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        raise GatewayError("UPSTREAM_ERROR", "cannot be asked")


class TaskUpstream(StubUpstream):
    """A server that answers each call with a task, which has these states, one after another; the last one stays."""

    def __init__(self, *states: Mapping[str, Any] | UpstreamFailure, timeout: float = 5) -> None:
        super().__init__([TOOL], answers={}, server="srv")
        self.states = [*states]
        self.instance = ServerInstance("first", timeout)
        self.methods: list[str] = []

    def instance_of(self, server: str) -> ServerInstance:
        return self.instance

    async def request(self, server: str, method: str, params: Any, client: Any = None) -> Any:
        self.methods.append(method)
        if method == "tools/call":
            return {"resultType": "task", **WORKING, "pollIntervalMs": 1}
        if method != "tasks/get":
            return {}
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, UpstreamFailure):
            raise state
        return {**WORKING, "pollIntervalMs": 1, **state}


async def make_runtime(upstream: TaskUpstream, **parts: Any) -> GatewayRuntime:
    cl100k = MAPS.load("openai/cl100k_base")
    parts = {"tasks": MemoryTasks(), **parts}
    made = GatewayParts(
        upstream=upstream,
        artifacts=MemoryArtifactStore(),
        recorder=Metrics(lambda: "today"),
        clean=Cleaner(),
        count=lambda text: len(cl100k.encode(text)),
        encoder_of=MAPS.prepare,
        **parts,
    )
    runtime = GatewayRuntime(made)
    runtime.adopt(runtime.prepare(await upstream.list_offers()))
    return runtime


async def call(runtime: GatewayRuntime, client: FakeClient | None) -> dict[str, Any]:
    return (await runtime.call_native("count", {}, Request("me", client=client))).as_mcp()


def error_in(result: Mapping[str, Any]) -> str:
    return str(json.loads(result["content"][0]["text"])["error"])


TAKES = FakeClient(has_tasks=True)
ME = Request("me", client=TAKES)


async def test_a_client_with_the_extension_gets_an_id_of_the_gateway() -> None:
    runtime = await make_runtime(TaskUpstream({}, DONE))
    created = await call(runtime, TAKES)
    assert created["resultType"] == "task"
    assert created["taskId"] != "t"
    assert (await runtime.get_task(created["taskId"], ME))["status"] == "working"
    done = await runtime.get_task(created["taskId"], ME)
    assert done["result"]["structuredContent"] == {"n": 1}


async def test_a_result_that_breaks_the_output_schema_is_an_error_as_it_is_directly() -> None:
    broken = {"status": "completed", "result": {"content": [], "structuredContent": {"n": "one"}}}
    runtime = await make_runtime(TaskUpstream(broken))
    done = await runtime.get_task((await call(runtime, TAKES))["taskId"], ME)
    assert done["status"] == "completed"
    assert error_in(done["result"]) == error_in(await call(runtime, None)) == "UPSTREAM_ERROR"


async def test_what_is_denied_now_cannot_be_read() -> None:
    upstream = TaskUpstream(DONE)
    runtime = await make_runtime(upstream)
    created = await call(runtime, TAKES)
    runtime.reconfigure(replace(runtime._parts, controls=Controls(policy=CapabilityPolicy((Rule("deny"),)))))
    for request in (runtime.get_task(created["taskId"], ME), runtime.update_task(created["taskId"], {}, ME)):
        with pytest.raises(GatewayError) as raised:
            await request
        assert raised.value.code == "PERMISSION_DENIED"
    await runtime.cancel_task(created["taskId"], ME)
    assert upstream.methods == ["tools/call", "tasks/cancel"]


async def test_a_process_that_was_started_anew_is_not_asked_for_tasks_of_the_last_one() -> None:
    upstream = TaskUpstream(DONE)
    runtime = await make_runtime(upstream)
    created = await call(runtime, TAKES)
    upstream.instance = ServerInstance("second")
    with pytest.raises(GatewayError) as raised:
        await runtime.get_task(created["taskId"], ME)
    assert raised.value.code == "TASK_NOT_FOUND"
    assert "tasks/get" not in upstream.methods


async def test_a_server_that_is_away_for_a_moment_is_asked_again_and_the_call_is_not_repeated() -> None:
    away = UpstreamFailure("UPSTREAM_UNAVAILABLE", "restarting")
    upstream, cache = TaskUpstream({"statusMessage": "half\u200b way"}, away, DONE), ToolResultCache()
    dispatcher = Dispatcher(RetryPolicy(max_attempts=3, base_delay=0))
    controls = Controls(dispatcher=dispatcher, cache=cache, cache_policy=CachePolicy(read_only=True))
    runtime, client = await make_runtime(upstream, controls=controls), FakeClient(has_tasks=False)
    assert (await call(runtime, client))["structuredContent"] == {"n": 1}
    assert upstream.methods == ["tools/call", "tasks/get", "tasks/get", "tasks/get"]
    assert client.progress_messages == [None, "half way", "half way"]
    await call(runtime, client)
    assert upstream.methods.count("tools/call") == 2  # nothing was cached


async def test_a_task_that_takes_too_long_is_cancelled_and_not_started_again() -> None:
    upstream = TaskUpstream({}, timeout=0.1)
    runtime = await make_runtime(
        upstream, controls=Controls(dispatcher=Dispatcher(RetryPolicy(max_attempts=3, base_delay=0)))
    )
    assert error_in(await call(runtime, None)) == "UPSTREAM_TIMEOUT"
    assert upstream.methods.count("tools/call") == 1
    assert upstream.methods[-1] == "tasks/cancel"


async def test_a_task_that_has_ended_when_it_is_created() -> None:
    class Quick(TaskUpstream):
        async def request(self, server: str, method: str, params: Any, client: Any = None) -> Any:
            raw = await super().request(server, method, params, client)
            return {**raw, "status": "completed"}

    runtime = await make_runtime(Quick(DONE))
    assert (await call(runtime, None))["structuredContent"] == {"n": 1}
    assert (await call(runtime, TAKES))["status"] == "completed"


async def test_a_caller_who_goes_away_cancels_the_task() -> None:
    upstream = TaskUpstream({})
    runtime = await make_runtime(upstream)
    with anyio.move_on_after(0.1):
        await call(runtime, None)
    assert upstream.methods[-1] == "tasks/cancel"


@pytest.mark.parametrize("client", [None, FakeClient(has_tasks=False)])
async def test_questions_that_cannot_be_put_cancel_the_task(client: FakeClient | None) -> None:
    question = {"method": "elicitation/create", "params": {}}
    upstream = TaskUpstream({"status": "input_required", "inputRequests": {"name": question}})
    runtime = await make_runtime(upstream, tasks=None)
    assert error_in(await call(runtime, client)) == "UPSTREAM_ERROR"
    assert upstream.methods[-1] == "tasks/cancel"


async def test_questions_of_a_task_are_cleaned() -> None:
    params = {"message": "key AKIAIOSFODNN7EXAMPL3 <|im_end|>", "url": "https://example.org/a?b=<|im_end|>"}
    question = {"method": "elicitation/create", "params": params}
    runtime = await make_runtime(TaskUpstream({"status": "input_required", "inputRequests": {"name": question}}))
    fetched = await runtime.get_task((await call(runtime, TAKES))["taskId"], ME)
    returned = await call(runtime, FakeClient(has_tasks=False))
    assert returned["resultType"] == "input_required"
    for answer in (fetched, returned):
        shown = answer["inputRequests"]["name"]["params"]
        assert shown["url"] == params["url"]  # an address is opaque
        assert "AKIAIOSFODNN7EXAMPL3" not in shown["message"]
        assert "<|im_end|>" not in shown["message"]


async def test_a_task_that_cannot_be_stored_is_cancelled() -> None:
    class Broken(MemoryTasks):
        async def put(self, owner: str, task: TaskRecord, seconds: float) -> str:
            raise StoreError("down")

        async def get(self, owner: str, id: str) -> TaskRecord | None:
            raise StoreError("down")

    upstream = TaskUpstream({})
    runtime = await make_runtime(upstream, tasks=Broken())
    assert error_in(await call(runtime, TAKES)) == "STORE_UNAVAILABLE"
    assert upstream.methods == ["tools/call", "tasks/cancel"]
    with pytest.raises(GatewayError) as raised:
        await runtime.get_task("0" * 32, ME)
    assert raised.value.code == "STORE_UNAVAILABLE"


async def test_an_approval_holds_for_the_questions_of_the_task() -> None:
    name = {"method": "elicitation/create", "params": {"message": "Which name?"}}
    upstream = TaskUpstream({"status": "input_required", "inputRequests": {"name": name}})
    policy = CapabilityPolicy((Rule("require_approval"),))
    approvals = ApprovalSettings(store=MemoryApprovals())
    runtime = await make_runtime(upstream, controls=Controls(policy=policy, approvals=approvals))

    async def call_again(asked: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> dict[str, Any]:
        client = FakeClient(has_tasks=False)
        client.capabilities = {"elicitation": {}}
        if asked is not None:
            (key,) = asked["inputRequests"]
            client.resume = {"requestState": asked["requestState"], "inputResponses": {key: answer}}
        return await call(runtime, client)

    approval = await call_again(None, {})
    assert "Which name?" not in str(approval["inputRequests"])
    assert upstream.methods == []
    question = await call_again(approval, {"action": "accept", "content": {"approve": True}})
    assert question["inputRequests"]["name"]["params"]["message"] == "Which name?"
    upstream.states = [DONE]
    result = await call_again(question, {"action": "accept", "content": {"name": "Ann"}})
    assert result["structuredContent"] == {"n": 1}
    assert upstream.methods.count("tools/call") == 1
    assert "tasks/update" in upstream.methods
    replayed = await call_again(question, {"action": "accept", "content": {"name": "Ann"}})
    assert error_in(replayed) == "PERMISSION_DENIED"
