"""Tasks of two servers through real gateways: clients with and without the extension, owners, replicas, faults."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import pytest
import yaml
from gateways import SERVERS, HttpGateway, gateway_on_http, text_of
from handshake_client import HandshakeClient
from mcp import Client, MCPError
from mcp.client import ClientExtension, advertise
from mcp.client.extension import NotificationBinding, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ElicitResult,
    Request,
    RequestParams,
    Result,
)
from pydantic import BaseModel, ConfigDict
from redis_server import redis_server
from warm_python import PYTHON

from leafgate.model.envelope import ACCEPT_FULL
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.server.auth.bearer_tokens import hash_secret, new_token

pytestmark = pytest.mark.anyio

TASKS = "io.modelcontextprotocol/tasks"
ADA, BOB = new_token(), new_token()
REFERENCE = [str(SERVERS / "reference_server.py"), "--stdio"]


class TaskResult(Result):
    """A task that a call created."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"


class Anything(Result):
    model_config = ConfigDict(extra="allow")


class AnyParams(RequestParams):
    model_config = ConfigDict(extra="allow")


class TaskRequest(Request[AnyParams, str]):
    name_param = "taskId"


class TaskEvent(BaseModel):
    model_config = ConfigDict(extra="allow")


class TakesTasks(ClientExtension):
    """The extension on the side of the client, without any waiting: tests fetch results themselves."""

    identifier = TASKS

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.has_ended = anyio.Event()

    def claims(self) -> Any:
        return [ResultClaim(result_type="task", model=TaskResult, resolve=self._resolve)]

    def notifications(self) -> Any:
        return [NotificationBinding(method="notifications/tasks", params_type=TaskEvent, handler=self._note)]

    async def _resolve(self, task: TaskResult, context: Any) -> CallToolResult:
        raise AssertionError("not used")

    async def _note(self, event: TaskEvent) -> None:
        self.events.append(event.model_dump())
        if self.events[-1]["status"] == "completed":
            self.has_ended.set()


def config(folder: Path, mode: str, **keys: Any) -> str:
    server = {"command": PYTHON, "args": REFERENCE, "timeout": 20}
    hasty = {"command": PYTHON, "args": REFERENCE, "timeout": 2}
    file = folder / f"{mode}.yaml"
    early = {"command": sys.executable, "args": [str(SERVERS / "early_tasks.py")]}
    servers = {"one": server, "two": server, "hasty": hasty, "early": early}
    file.write_text(yaml.safe_dump({"mode": mode, "prefix_names": True, "mcpServers": servers, **keys}))
    return str(file)


def tokens(*secrets: tuple[str, str]) -> dict[str, Any]:
    return {"tokens": [{"name": name, "hash": hash_secret(secret)} for name, secret in secrets]}


@pytest.fixture(scope="module")
def passthrough(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    with gateway_on_http("--config", config(tmp_path_factory.mktemp("tasks"), "passthrough")) as running:
        yield running


@pytest.fixture(scope="module")
def meta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    with gateway_on_http("--config", config(tmp_path_factory.mktemp("tasks"), "gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    """A gateway that knows its callers."""
    auth = tokens(("ada", ADA), ("bob", BOB))
    file = config(tmp_path_factory.mktemp("tasks"), "passthrough", auth=auth)
    with gateway_on_http("--config", file) as running:
        yield running


@asynccontextmanager
async def connect(gateway: HttpGateway, token: str = "", extension: Any = None) -> AsyncIterator[Client]:
    """A client that takes tasks."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(
            streamable_http_client(f"{gateway.url}/mcp", http_client=http), extensions=[extension or TakesTasks()]
        ) as client,
    ):
        yield client


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request = TaskRequest(method=method, params=AnyParams(**params))
    return (await client.session.send_request(request, Anything)).model_dump(by_alias=True)


async def start(client: Client, tool: str, **args: Any) -> dict[str, Any]:
    """Call a tool that answers with a task."""
    result = await client.session.call_tool(tool, args, allow_claimed=True)
    assert isinstance(result, TaskResult), result
    return result.model_dump(by_alias=True)


async def finish(client: Client, task_id: str, status: str = "completed", **params: Any) -> dict[str, Any]:
    """Ask for a task until it has this status."""
    with anyio.fail_after(20):
        while True:
            task = await ask(client, "tasks/get", taskId=task_id, **params)
            if task["status"] == status:
                return task
            assert task["status"] in ("working", "input_required"), task
            await anyio.sleep(0.02)


def text_in(task: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in task["result"]["content"])


async def find(client: Client, tool: str) -> str:
    """The id of a tool for tool_execute."""
    server, name = tool.split("__")
    page = text_of(await client.call_tool("tool_browse", {"query": f"{server} {name}", "top_k": 20}))
    match = re.search(rf"{server}:{name}#[0-9a-f]+", page)
    assert match, page
    return match.group()


async def task_log(client: Client, server: str) -> list[str]:
    log: list[str] = json.loads(text_of(await client.call_tool(f"{server}__task_log", {})))
    return log


# Clients with the extension


async def test_the_extension_is_declared_to_stateless_clients(passthrough: HttpGateway, meta: HttpGateway) -> None:
    for gateway in (passthrough, meta):
        async with Client(f"{gateway.url}/mcp") as client:
            assert client.server_capabilities.extensions is not None
            assert client.server_capabilities.extensions[TASKS] == {}
        async with Client(f"{gateway.url}/mcp", mode="legacy") as client:
            assert TASKS not in (client.server_capabilities.extensions or {})


async def test_tasks_of_two_servers_are_kept_apart(passthrough: HttpGateway) -> None:
    """Both servers count their ids, so that theirs are equal."""
    async with connect(passthrough) as client:
        tasks = {name: await start(client, f"{name}__write_report", topic=name) for name in ("one", "two")}
        ids = {task["taskId"] for task in tasks.values()}
        assert len(ids) == 2
        assert not any("task-" in id for id in ids)
        for name, task in tasks.items():
            assert task["status"] == "working"
            assert (task["pollIntervalMs"], task["ttlMs"]) == (20, 600_000)
            done = await finish(client, task["taskId"], _meta=ACCEPT_FULL)
            assert done["taskId"] == task["taskId"]
            assert text_in(done) == f"Report on {name}."
            assert done["result"]["_meta"]["leafgate/envelope"]["provenance"]["server"] == name


async def test_a_task_through_tool_execute(meta: HttpGateway) -> None:
    async with connect(meta) as client:
        tool_id = await find(client, "two__write_report")
        task = await start(client, "tool_execute", tool_id=tool_id, args={"topic": "geese", "polls": 2})
        assert text_in(await finish(client, task["taskId"])) == "Report on geese."


async def test_a_task_in_transparent_mode(tmp_path: Path) -> None:
    with gateway_on_http("--config", config(tmp_path, "transparent", map="openai/cl100k_base")) as gateway:
        async with connect(gateway) as client:
            task = await start(client, "two__write_report", topic="ids")
            done = await finish(client, task["taskId"])
            (block,) = done["result"]["content"]
            assert block["text"] == "Report on ids."
            assert block["_meta"][CODEC_META_KEY]["ids"]  # of the gateway's map, as in the result of a call
            assert (await start(client, "one__write_report", topic="more"))["taskId"] != task["taskId"]
        calls = httpx2.get(f"{gateway.url}/status").json()["calls"]
        assert calls["tasks/get"] >= 1
        assert calls["tools/call"] == 2


async def test_a_long_result_is_shortened_and_can_be_viewed(passthrough: HttpGateway) -> None:
    async with connect(passthrough) as client:
        task = await start(client, "one__write_report", topic="the end", more=20_000)
        done = await finish(client, task["taskId"], _meta=ACCEPT_FULL)
        (artifact,) = done["result"]["_meta"]["leafgate/envelope"]["artifacts"]
        assert artifact["bytes"] > 100_000 > 10 * len(text_in(done))
        selector = {"type": "head", "chars": 200}
        view = await client.call_tool("tool_view", {"handle": artifact["handle"], "selector": selector})
        assert text_of(view).startswith("Report on the end. More.")


async def test_questions_of_a_task_are_answered_by_update(passthrough: HttpGateway) -> None:
    async with connect(passthrough) as client:
        task = await start(client, "one__multi_input")
        waiting = await finish(client, task["taskId"], "input_required")
        assert waiting["inputRequests"].keys() == {"first", "second"}
        for key in ("first", "second"):
            answer = {key: {"action": "accept", "content": {"name": key.upper()}}}
            assert "status" not in await ask(client, "tasks/update", taskId=task["taskId"], inputResponses=answer)
        assert text_in(await finish(client, task["taskId"])) == "FIRST and SECOND"


async def test_a_cancelled_task(passthrough: HttpGateway) -> None:
    async with connect(passthrough) as client:
        task = await start(client, "two__slow_compute", seconds=60)
        assert "status" not in await ask(client, "tasks/cancel", taskId=task["taskId"])
        await finish(client, task["taskId"], "cancelled")
        assert (await task_log(client, "two"))[-1].startswith("cancel task-")


async def test_errors_of_tools_and_of_the_protocol(passthrough: HttpGateway) -> None:
    async with connect(passthrough) as client:
        done = await finish(client, (await start(client, "one__failing_job"))["taskId"])
        assert done["result"]["isError"] is True
        failed = await finish(client, (await start(client, "one__protocol_error_job"))["taskId"], "failed")
        assert failed["error"]["code"] == -32050
        assert failed["error"]["data"]["error"] == "UPSTREAM_ERROR"
        assert "secret words" not in json.dumps(failed)


async def test_unknown_ids_and_wrong_requests(passthrough: HttpGateway) -> None:
    async with connect(passthrough) as client:
        task = await start(client, "one__slow_compute", seconds=60)
        for id in ("task-1", "0" * 32, task["taskId"].upper(), f"{task['taskId']} ", "x" * 5_000, "\u200b"):
            for method, more in (("get", {}), ("cancel", {}), ("update", {"inputResponses": {}})):
                with pytest.raises(MCPError) as raised:
                    await ask(client, f"tasks/{method}", taskId=id, **more)
                assert raised.value.code == INVALID_PARAMS
                assert raised.value.data["error"] == "TASK_NOT_FOUND"
        for method in ("tasks/list", "tasks/result"):
            with pytest.raises(MCPError) as raised:
                await ask(client, method, taskId=task["taskId"])
            assert raised.value.code == METHOD_NOT_FOUND
        request: Any = Request(method="tasks/get", params=AnyParams(taskId=task["taskId"]))
        with pytest.raises(MCPError) as raised:  # without the header that names the task
            await client.session.send_request(request, Anything)
        assert raised.value.code == HEADER_MISMATCH
        async with Client(f"{passthrough.url}/mcp") as plain:
            with pytest.raises(MCPError) as raised:
                await ask(plain, "tasks/get", taskId=task["taskId"])
            assert raised.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
            assert raised.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


async def test_changes_are_announced_on_the_stream(passthrough: HttpGateway) -> None:
    extension = TakesTasks()
    async with connect(passthrough, extension=extension) as client:
        task = await start(client, "one__write_report", topic="news", polls=3)
        wanted = {"taskIds": [task["taskId"], "0" * 32]}
        async with anyio.create_task_group() as group:
            group.start_soon(_listen, client, wanted)
            with anyio.fail_after(20):
                await extension.has_ended.wait()
            group.cancel_scope.cancel()
    assert {event["taskId"] for event in extension.events} == {task["taskId"]}
    assert extension.events[0]["status"] == "working"
    assert text_in(extension.events[-1]) == "Report on news."


async def _listen(client: Client, notifications: dict[str, Any]) -> None:
    request: Any = Request(method="subscriptions/listen", params=AnyParams(notifications=notifications))
    await client.session.send_request(request, Anything)


# Clients without the extension


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_gateway_waits_for_clients_that_take_no_tasks(passthrough: HttpGateway, mode: Any) -> None:
    steps: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, message))

    async with Client(f"{passthrough.url}/mcp", mode=mode) as client:
        args = {"topic": "patience", "polls": 3}
        answer = await client.call_tool("one__write_report", args, progress_callback=note)
        assert text_of(answer) == "Report on patience."
        assert [message for _, message in steps if message][:2] == ["2 more steps", "1 more steps"]
        assert [progress for progress, _ in steps] == sorted({progress for progress, _ in steps})
        assert (await task_log(client, "one"))[-1].startswith("create")
        failing = await client.call_tool("one__failing_job", {})
        assert failing.is_error
        assert text_of(failing) == "It did not work."


async def test_the_gateway_waits_in_gateway_mode_too(meta: HttpGateway) -> None:
    async with Client(f"{meta.url}/mcp") as client:
        tool_id = await find(client, "one__write_report")
        answer = await client.call_tool("tool_execute", {"tool_id": tool_id, "args": {"topic": "x", "more": 20_000}})
        assert answer.meta is not None
        assert answer.meta["leafgate/envelope"]["artifacts"]
        failed = await client.call_tool("tool_execute", {"tool_id": await find(client, "one__protocol_error_job")})
        assert json.loads(text_of(failed))["error"] == "UPSTREAM_ERROR"
        assert "secret words" not in text_of(failed)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_questions_of_a_task_reach_clients_that_take_no_tasks(passthrough: HttpGateway, mode: Any) -> None:
    async def answer(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with Client(f"{passthrough.url}/mcp", mode=mode, elicitation_callback=answer) as client:
        result = await client.call_tool("two__write_report", {"topic": "answers", "asks": True})
        assert text_of(result) == "Report on answers for Ada."


async def test_a_call_that_resumes_a_task_must_be_of_its_tool_and_owner(passthrough: HttpGateway) -> None:
    async with connect(passthrough, extension=advertise("com.example/other", {})) as client:
        args = {"topic": "theft", "asks": True}
        first: Any = await client.session.call_tool("one__write_report", args, allow_input_required=True)
        state = first.request_state
        answers = {"name": ElicitResult(action="accept", content={"name": "Eve"})}
        for tool, known in (("two__write_report", state), ("one__write_report", f"{state[:-1]}~")):
            again = await client.session.call_tool(tool, args, input_responses=answers, request_state=known)
            assert json.loads(text_of(again))["error"] == "TASK_NOT_FOUND"
        done = await client.session.call_tool("one__write_report", args, input_responses=answers, request_state=state)
        assert text_of(done) == "Report on theft for Eve."


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_task_that_takes_too_long_is_cancelled(passthrough: HttpGateway, mode: Any) -> None:
    async with Client(f"{passthrough.url}/mcp", mode=mode) as client:
        answer = await client.call_tool("hasty__slow_compute", {"seconds": 60})
        assert json.loads(text_of(answer))["error"] == "UPSTREAM_TIMEOUT"
        created, cancelled = (await task_log(client, "hasty"))[-2:]
        assert (created.split()[0], cancelled) == ("create", f"cancel {created.split()[1]}")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_that_its_client_cancels_cancels_the_task(passthrough: HttpGateway, mode: Any) -> None:
    async with Client(f"{passthrough.url}/mcp", mode=mode) as client:
        before = len(await task_log(client, "two"))
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "two__slow_compute", {"seconds": 60})
            await wait_for_log(client, before + 1)
            group.cancel_scope.cancel()
        assert (await wait_for_log(client, before + 2))[-1].startswith("cancel ")


async def wait_for_log(client: Client, lines: int) -> list[str]:
    """What happened to the tasks of a server, once these are so many lines."""
    for _ in range(400):
        log = await task_log(client, "two")
        if len(log) >= lines:
            return log
        await anyio.sleep(0.05)
    raise AssertionError("nothing happened")


async def test_requests_about_tasks_do_not_exist_in_the_handshake_era(passthrough: HttpGateway) -> None:
    client = HandshakeClient()
    client.open(passthrough.url)
    answer = client.post(passthrough.url, "tasks/get", {"taskId": "0" * 32})
    assert answer.json()["error"]["code"] == METHOD_NOT_FOUND


# Servers of the handshake era


@pytest.mark.parametrize(("mode", "name"), [("legacy", "Ada"), ("auto", "nobody")])
async def test_tasks_of_a_server_of_the_handshake_era(passthrough: HttpGateway, mode: Any, name: str) -> None:
    """Its question comes as a request, which a client of the stateless era cannot be asked."""

    async def answer(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with Client(f"{passthrough.url}/mcp", mode=mode, elicitation_callback=answer) as client:
        (tool,) = [tool for tool in (await client.list_tools()).tools if tool.name == "early__slow_report"]
        assert tool.execution is None  # a client would not call it, or want a task of that version
        assert text_of(await client.call_tool("early__slow_report", {})) == f"A report for {name}."
        with pytest.raises(MCPError) as raised:
            await client.call_tool("early__broken_report", {})
        assert raised.value.code == -32050
        assert "secret words" not in str(raised.value)


async def test_tasks_of_a_server_of_the_handshake_era_for_a_client_that_takes_tasks(passthrough: HttpGateway) -> None:
    async with connect(passthrough) as client:
        task = await start(client, "early__slow_report")
        assert (task["statusMessage"], task["ttlMs"], task["pollIntervalMs"]) == ("on it", 60_000, 20)
        assert text_in(await finish(client, task["taskId"])) == "A report for nobody."


# Hostile servers


@pytest.mark.parametrize("fault", ["number_as_id", "long_id", "unknown_status"])
async def test_a_task_that_is_none_is_an_error(passthrough: HttpGateway, fault: str) -> None:
    async with connect(passthrough) as client:
        answer = await client.call_tool("one__faulty_task", {"fault": fault})
        assert json.loads(text_of(answer))["error"] == "UPSTREAM_ERROR"


@pytest.mark.parametrize("fault", ["another_id", "nested_task", "text_as_result", "cancelled"])
async def test_a_state_that_is_none_is_an_error(passthrough: HttpGateway, fault: str) -> None:
    async with Client(f"{passthrough.url}/mcp") as client:
        answer = await client.call_tool("one__faulty_task", {"fault": fault})
        assert json.loads(text_of(answer))["error"] == "UPSTREAM_ERROR"


async def test_everything_that_is_said_of_a_task_is_cleaned(passthrough: HttpGateway) -> None:
    async with connect(passthrough) as client:
        task = await start(client, "one__faulty_task", fault="dirty")
        done = await finish(client, task["taskId"])
        for text in (task["statusMessage"], done["statusMessage"], text_in(done), json.dumps(done)):
            assert "AKIAQ3EGZ7TLK4WBXN2P" not in text
            assert "<|im_end|>" not in text
            assert "\u200b" not in text
        assert "note" not in (done["_meta"] or {})


# Owners


async def test_a_task_belongs_to_its_owner(guarded: HttpGateway) -> None:
    async with connect(guarded, ADA) as ada, connect(guarded, BOB) as bob:
        task = await start(ada, "one__write_report", topic="mine", asks=True)
        id, errors = task["taskId"], []
        for foreign in (id, "0" * 32):
            for method, more in (("get", {}), ("cancel", {}), ("update", {"inputResponses": {"name": {}}})):
                with pytest.raises(MCPError) as raised:
                    await ask(bob, f"tasks/{method}", taskId=foreign, **more)
                errors.append((raised.value.code, raised.value.message, raised.value.data))
        assert errors.count(errors[0]) == len(errors)
        await finish(ada, id, "input_required")
        log = await task_log(ada, "one")
        assert not any(line.startswith("cancel") for line in log)


# Replicas


@pytest.mark.parametrize("store", ["redis", "sqlite"])
async def test_a_task_is_found_at_every_gateway_that_shares_the_store(tmp_path: Path, store: str) -> None:
    """The server is behind a URL: a process would be another one for each gateway."""
    with ExitStack() as stack:
        state = f"sqlite:{tmp_path / 'state.db'}"
        if store == "redis":
            state = stack.enter_context(redis_server(tmp_path)).url
        bridge = stack.enter_context(gateway_on_http("--config", config(tmp_path, "passthrough")))
        shared = {"url": f"{bridge.url}/mcp"}
        own = {"command": PYTHON, "args": REFERENCE}
        file = tmp_path / "replica.yaml"
        servers = {"shared": shared, "own": own}
        auth = tokens(("ada", ADA), ("bob", BOB))
        settings = {"mode": "passthrough", "prefix_names": True, "state": state, "mcpServers": servers, "auth": auth}
        file.write_text(yaml.safe_dump(settings))
        first, second = (stack.enter_context(gateway_on_http("--config", str(file))) for _ in range(2))
        async with connect(first, ADA) as here, connect(second, ADA) as there, connect(second, BOB) as bob:
            task = await start(here, "shared__one__write_report", topic="replicas", polls=2)
            with pytest.raises(MCPError):
                await ask(bob, "tasks/get", taskId=task["taskId"])
            assert text_in(await finish(there, task["taskId"])) == "Report on replicas."
            theirs = await start(bob, "own__write_report", topic="secret")
            mine = await start(here, "own__write_report", topic="mine")
            with pytest.raises(MCPError) as raised:  # the process of the other gateway has a task with the same id
                await ask(there, "tasks/get", taskId=mine["taskId"])
            assert raised.value.code == INVALID_PARAMS
            assert text_in(await finish(bob, theirs["taskId"])) == "Report on secret."
