"""Calls that need approval, in both eras and every mode: real gateways and clients, a real Redis, the command line."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from command_line import Ran, run_program
from gateways import SERVERS, HttpGateway, gateway_on_http, gateway_on_stdio, text_of
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult, InputRequiredResult
from redis_server import redis_server
from warm_python import PYTHON

from leafgate.server.auth.bearer_tokens import hash_secret, new_token

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
MODES = pytest.mark.parametrize("shown", ["gateway", "transparent", "passthrough"])
ADA, BOB, OPERATOR = new_token(), new_token(), new_token()
QUESTION = "leafgate-approval"
YES = {"action": "accept", "content": {"approve": True}}
PATIENCE = 60


@dataclass(frozen=True)
class Running:
    """A gateway, and what its server did."""

    gateway: HttpGateway
    log: Path
    shown: str = "passthrough"

    @property
    def url(self) -> str:
        return self.gateway.url

    def acts(self, mark: str) -> int:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return sum(line.split(" ")[0] == mark for line in lines)


def write_config(folder: Path, shown: str, **settings: Any) -> tuple[str, Path]:
    """A configuration in which every call needs approval, and the log of what the server does."""
    file, log = folder / "leafgate.json", folder / "acts"
    server = {"command": PYTHON, "args": [str(SERVERS / "approvable.py")], "env": {"CALL_LOG": str(log)}}
    policy = {"rules": [{"effect": "require_approval"}]}
    file.write_text(json.dumps({"mcpServers": {"acts": server}, "mode": shown, "policy": policy, **settings}))
    return str(file), log


def start(stack: ExitStack, folder: Path, *words: str, shown: str = "passthrough", **settings: Any) -> Running:
    config, log = write_config(folder, shown, **settings)
    return Running(stack.enter_context(gateway_on_http("--config", config, *words)), log, shown)


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """One gateway for each mode, started when it is first needed: clients are asked, or an operator has a minute."""
    with ExitStack() as stack:

        class Started(dict[str, Running]):
            def __missing__(self, shown: str) -> Running:
                folder = tmp_path_factory.mktemp(shown)
                self[shown] = start(stack, folder, shown=shown, approvals={"wait_seconds": 60})
                return self[shown]

        yield Started()


@pytest.fixture(scope="module")
def passthrough(gateways: dict[str, Running]) -> Running:
    return gateways["passthrough"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Running]]:
    """Two gateways with one Redis server, and three principals."""
    clients = [{"name": name, "hash": hash_secret(secret)} for name, secret in (("ada", ADA), ("bob", BOB))]
    scopes = ["browse", "execute", "view"]
    tokens = [{**client, "scopes": scopes} for client in clients]
    tokens.append({"name": "olga", "hash": hash_secret(OPERATOR), "scopes": ["operate"]})
    folder = tmp_path_factory.mktemp("pair")
    with redis_server(folder) as redis, ExitStack() as stack:
        settings = {"auth": {"tokens": tokens}, "approvals": {"wait_seconds": 60}}
        words = ("--state", redis.url)
        yield start(stack, folder, *words, **settings), start(stack, folder, *words, **settings)


@asynccontextmanager
async def connected(running: Running, token: str | None = None, **options: Any) -> AsyncIterator[Client]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{running.url}/mcp", http_client=http)
        async with Client(transport, **options) as client:
            yield client


async def call_args(client: Client, running: Running, tool: str, mark: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments with which a tool is called in this mode."""
    if running.shown != "gateway":
        return tool, {"mark": mark}
    page = text_of(await client.call_tool("tool_browse", {"path": "/acts"}))
    tool_id = next(line.split(" ")[0] for line in page.splitlines() if line.startswith(f"acts:{tool}#"))
    return "tool_execute", {"tool_id": tool_id, "args": {"mark": mark}}


class Person:
    """Answers the questions of a client: for approval with `answer`, for a word with its number."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.answer = answer or YES
        self.questions: list[str] = []

    async def __call__(self, context: Any, params: Any) -> Any:
        self.questions.append(params.message)
        if "approve" in params.requested_schema["properties"]:
            return self.answer
        return {"action": "accept", "content": {"word": f"w{len(self.questions)}"}}


def error_in(result: Any) -> dict[str, Any]:
    assert result.is_error, result
    return dict(json.loads(text_of(result)))


def reason_in(result: Any) -> str:
    error = error_in(result)
    assert error["error"] == "PERMISSION_DENIED"
    return str(error["details"]["approval"])


# The person at the client


@ERAS
@MODES
async def test_a_yes_lets_the_call_go_on_once(gateways: dict[str, Running], shown: str, mode: str) -> None:
    running, person, mark = gateways[shown], Person(), f"yes-{shown}-{mode}"
    async with connected(running, mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool(*await call_args(client, running, "act", mark))
    assert text_of(result) == f"did {mark}"
    assert running.acts(mark) == 1
    (question,) = person.questions
    assert "acts:act#" in question
    assert mark in question


@ERAS
@pytest.mark.parametrize(
    "answer",
    [{"action": "decline"}, {"action": "cancel"}, {"action": "accept", "content": {"approve": False}}],
    ids=["decline", "cancel", "no"],
)
async def test_anything_else_refuses_it(passthrough: Running, mode: str, answer: dict[str, Any]) -> None:
    async with connected(passthrough, mode=mode, elicitation_callback=Person(answer)) as client:
        assert reason_in(await client.call_tool("act", {"mark": "refused"})) == "refused"
    assert passthrough.acts("refused") == 0


@ERAS
@MODES
async def test_the_approval_holds_while_the_server_asks(gateways: dict[str, Running], shown: str, mode: str) -> None:
    running, person, mark = gateways[shown], Person(), f"rounds-{shown}-{mode}"
    async with connected(running, mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool(*await call_args(client, running, "ask_and_act", mark))
    assert text_of(result) == f"did {mark} w2 w3"
    assert [question.split(" ")[0] for question in person.questions] == ["May", "Word", "Word"]
    assert running.acts(mark) == 1


@ERAS
async def test_on_stdio_the_client_is_asked_and_no_operator_is_waited_for(tmp_path: Path, mode: str) -> None:
    config, log = write_config(tmp_path, "passthrough")
    async with gateway_on_stdio("--config", config, mode=mode, elicitation_callback=Person()) as client:
        assert text_of(await client.call_tool("act", {"mark": "yes"})) == "did yes"
    async with gateway_on_stdio("--config", config, mode=mode) as client:
        assert reason_in(await client.call_tool("act", {"mark": "no"})) == "cannot_ask"
    assert log.read_text() == "yes\n"


# The state of a stateless client


async def ask(client: Client, tool: str, mark: str, **more: Any) -> InputRequiredResult:
    result = await client.session.call_tool(tool, {"mark": mark}, allow_input_required=True, **more)
    assert isinstance(result, InputRequiredResult), result
    return result


async def answer(client: Client, tool: str, mark: str, state: str | None, **answers: Any) -> Any:
    responses = answers if answers else {QUESTION: ElicitResult.model_validate(YES)}
    return await client.session.call_tool(
        tool, {"mark": mark}, input_responses=responses, request_state=state, allow_input_required=True
    )


def word(text: str) -> ElicitResult:
    return ElicitResult(action="accept", content={"word": text})


async def test_a_state_is_good_for_one_call_once(passthrough: Running) -> None:
    async with connected(passthrough, elicitation_callback=Person()) as client:
        state = (await ask(client, "act", "once")).request_state
        assert text_of(await answer(client, "act", "once", state)) == "did once"
        assert reason_in(await answer(client, "act", "once", state)) == "invalid_state"
        for tool, mark in (("act", "other"), ("react", "mine")):
            state = (await ask(client, "act", "mine")).request_state
            assert reason_in(await answer(client, tool, mark, state)) == "invalid_state"
            assert reason_in(await answer(client, "act", "mine", state)) == "invalid_state"  # it is used up
    assert [passthrough.acts(mark) for mark in ("once", "other", "mine")] == [1, 0, 0]


async def test_a_forged_or_changed_state_is_refused(passthrough: Running) -> None:
    async with connected(passthrough, elicitation_callback=Person()) as client:
        state = (await ask(client, "act", "forged")).request_state
        assert state is not None
        last = "0" if state[-1] != "0" else "1"
        for wrong in (f"{QUESTION}:{'0' * 32}", state[:-1] + last, f"{state}:more"):
            assert reason_in(await answer(client, "act", "forged", wrong)) == "invalid_state"
        for other in (None, "a state of another kind", f"{QUESTION}:short"):  # no state of ours: the call is new
            result = await answer(client, "act", "forged", other)
            assert isinstance(result, InputRequiredResult)
    assert passthrough.acts("forged") == 0


async def test_an_answer_without_the_question_is_not_a_yes(passthrough: Running) -> None:
    async with connected(passthrough, elicitation_callback=Person()) as client:
        state = (await ask(client, "act", "silent")).request_state
        assert reason_in(await answer(client, "act", "silent", state, other=word("yes"))) == "refused"
    assert passthrough.acts("silent") == 0


async def test_the_state_of_a_later_round_is_bound_as_well(passthrough: Running) -> None:
    async with connected(passthrough, elicitation_callback=Person()) as client:

        async def approved() -> str:
            first = await ask(client, "ask_and_act", "later")
            second = await answer(client, "ask_and_act", "later", first.request_state)
            assert list(second.input_requests) == ["word"]
            return str(second.request_state)

        state = await approved()
        assert reason_in(await answer(client, "ask_and_act", "changed", state, word=word("a"))) == "invalid_state"
        state, other = await approved(), await approved()
        mixed = ":".join([*state.split(":")[:2], *other.split(":")[2:]])  # the approval of one, the rest of another
        assert reason_in(await answer(client, "ask_and_act", "later", mixed, word=word("a"))) == "invalid_state"
        bare = other.split(":", 2)[2]  # the server's own state alone is not an approval
        again = await answer(client, "ask_and_act", "later", bare, word=word("a"))
        assert list(again.input_requests) == [QUESTION]
        third = await answer(client, "ask_and_act", "later", other, word=word("a"))
        assert reason_in(await answer(client, "ask_and_act", "later", other, word=word("b"))) == "invalid_state"
        done = await answer(client, "ask_and_act", "later", third.request_state, word=word("b"))
        assert text_of(done) == "did later a b"
    assert [passthrough.acts(mark) for mark in ("later", "changed")] == [1, 0]


async def test_gateways_with_one_store_know_each_others_questions(pair: tuple[Running, Running]) -> None:
    one, two = pair
    async with (
        connected(one, ADA, elicitation_callback=Person()) as here,
        connected(two, ADA, elicitation_callback=Person()) as there,
        connected(two, BOB, elicitation_callback=Person()) as bob,
    ):
        state = (await ask(here, "act", "shared")).request_state
        assert text_of(await answer(there, "act", "shared", state)) == "did shared"
        assert reason_in(await answer(here, "act", "shared", state)) == "invalid_state"
        state = (await ask(here, "act", "adas")).request_state
        assert reason_in(await answer(bob, "act", "adas", state)) == "invalid_state"
        first = await ask(here, "ask_and_act", "rounds")
        second = await answer(there, "ask_and_act", "rounds", first.request_state)
        assert list(second.input_requests) == ["word"]
    assert [one.acts(mark) for mark in ("shared", "adas")] == [1, 0]


# Operators


async def waiting(running: Running, mark: str, token: str | None = None) -> dict[str, Any]:
    """The pending approval of the call with this mark."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    with anyio.fail_after(PATIENCE):
        async with httpx2.AsyncClient(headers=headers) as http:
            while True:
                approvals = (await http.get(f"{running.url}/api/approvals")).json()["approvals"]
                found = [each for each in approvals if mark in each["arguments"]]
                if found:
                    return dict(found[0])
                await anyio.sleep(0.05)


async def leafgate(running: Running, *words: str, token: str = "") -> Ran:
    env = {**os.environ, "LEAFGATE_URL": running.url, "LEAFGATE_TOKEN": token}
    run = partial(run_program, "approvals", *words, folder=Path.cwd(), env=env)
    return await anyio.to_thread.run_sync(run)


@asynccontextmanager
async def silent_call(
    running: Running, mark: str, token: str | None = None, **options: Any
) -> AsyncIterator[list[Any]]:
    """A call by a client that cannot be asked; at the end its result is in the list."""
    results: list[Any] = []
    progress = options.pop("progress_callback", None)

    async def call() -> None:
        async with connected(running, token, **options) as client:
            results.append(await client.call_tool("act", {"mark": mark}, progress_callback=progress))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            yield results


@ERAS
async def test_an_operator_approves_on_the_command_line(passthrough: Running, mode: str) -> None:
    mark, messages = f"cli-{mode}", []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    async with silent_call(passthrough, mark, mode=mode, progress_callback=on_progress) as results:
        pending = await waiting(passthrough, mark)
        listed = await leafgate(passthrough, "list", "--json")
        assert pending["id"] in [each["id"] for each in json.loads(listed.out)]
        table = await leafgate(passthrough, "list")
        assert pending["id"][:8] in table.out
        assert passthrough.acts(mark) == 0
        done = await leafgate(passthrough, "approve", pending["id"][:8])
        assert done.code == 0, done.err
    assert text_of(results[0]) == f"did {mark}"
    assert messages[0] == "waiting for an operator to approve this call"
    again = await leafgate(passthrough, "approve", pending["id"])
    assert again.code == 2
    assert "no call waits" in again.err


async def test_an_operator_denies(passthrough: Running) -> None:
    async with silent_call(passthrough, "denied-cli") as results:
        pending = await waiting(passthrough, "denied-cli")
        done = await leafgate(passthrough, "deny", pending["id"], "--json")
        assert json.loads(done.out) == {"id": pending["id"], "approved": False}
    assert reason_in(results[0]) == "refused"
    assert "operator" in error_in(results[0])["message"]
    assert passthrough.acts("denied-cli") == 0


async def test_an_operator_of_another_gateway_answers_over_http(pair: tuple[Running, Running]) -> None:
    one, two = pair
    url, operator = f"{two.url}/api/approvals", {"authorization": f"Bearer {OPERATOR}"}
    async with silent_call(one, "elsewhere", ADA) as results:
        pending = await waiting(two, "elsewhere", OPERATOR)
        assert (pending["principal"], pending["server"], pending["tool"]) == ("ada", "acts", "act")
        async with httpx2.AsyncClient() as http:
            for token, status in ((None, 401), (ADA, 403)):
                headers = {} if token is None else {"authorization": f"Bearer {token}"}
                assert (await http.get(url, headers=headers)).status_code == status
                sent = await http.post(f"{url}/{pending['id']}", json={"approve": True}, headers=headers)
                assert sent.status_code == status
            sent = await http.post(f"{url}/{pending['id']}", json={"approve": True}, headers=operator)
            assert sent.json() == {"id": pending["id"], "approved": True}
            again = await http.post(f"{url}/{pending['id']}", json={"approve": False}, headers=operator)
            assert again.status_code == 404
    assert text_of(results[0]) == "did elsewhere"
    refused = await leafgate(two, "list", token=ADA)
    assert (refused.code, "LEAFGATE_TOKEN" in refused.err) == (2, True)


async def test_what_a_page_of_another_site_can_send_is_refused(passthrough: Running) -> None:
    async with silent_call(passthrough, "csrf") as results:
        pending = await waiting(passthrough, "csrf")
        url, yes = f"{passthrough.url}/api/approvals/{pending['id']}", {"approve": True}
        port = passthrough.url.rpartition(":")[2]
        async with httpx2.AsyncClient() as http:
            form = {"content-type": "text/plain"}
            assert (await http.post(url, content=json.dumps(yes), headers=form)).status_code == 415
            assert (await http.post(url, data={"approve": "true"})).status_code == 415
            for origin in ("https://evil.example", f"http://localhost:{port}"):  # the second is a name of this gateway
                assert (await http.post(url, json=yes, headers={"origin": origin})).status_code == 403
            assert (await http.post(url, json=yes, headers={"sec-fetch-site": "cross-site"})).status_code == 403
            assert (await http.post(url, json=yes, headers={"host": "evil.example"})).status_code == 421
            assert (await http.get(url)).status_code == 405
            for wrong in ({}, {"approve": "yes"}, {"approve": 1}, [True], "yes"):
                assert (await http.post(url, json=wrong)).status_code == 400
            assert (await http.post(url, json={"approve": True, "x": "y" * 2000})).status_code == 413
            assert passthrough.acts("csrf") == 0
            assert (await http.post(url, json={"approve": False})).status_code == 200
    assert reason_in(results[0]) == "refused"


@ERAS
async def test_a_call_that_is_cancelled_leaves_the_list(passthrough: Running, mode: str) -> None:
    mark = f"cancelled-{mode}"
    async with connected(passthrough, mode=mode) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "act", {"mark": mark})
        pending = await waiting(passthrough, mark)
        group.cancel_scope.cancel()
    async with httpx2.AsyncClient() as http:
        for _ in range(600):
            if pending["id"] not in (await http.get(f"{passthrough.url}/api/approvals")).text:
                break
            await anyio.sleep(0.05)
        sent = await http.post(f"{passthrough.url}/api/approvals/{pending['id']}", json={"approve": True})
    assert sent.status_code == 404
    assert passthrough.acts(mark) == 0


async def test_arguments_are_shown_without_secrets_and_tricks_and_bounded(passthrough: Running) -> None:
    key, hidden = "AKIAQ3EGZ7TLK4WBXN2P", "\u202e\u200b\x1b[2J"
    async with silent_call(passthrough, f"shown {key} {hidden} {'x' * 5000}") as results:
        pending = await waiting(passthrough, "shown")
        assert key not in pending["arguments"]
        assert not any(char in pending["arguments"] for char in hidden[:3])
        assert "more characters that are not shown" in pending["arguments"]
        assert len(pending["arguments"]) < 2_200
        table = (await leafgate(passthrough, "list")).out
        assert key not in table
        await leafgate(passthrough, "deny", pending["id"])
    assert reason_in(results[0]) == "refused"


async def test_by_operator_nobody_else_is_asked_and_the_wait_ends(tmp_path: Path) -> None:
    person = Person()
    with ExitStack() as stack:
        approvals = {"by": "operator", "wait_seconds": 1}
        running = await to_thread.run_sync(lambda: start(stack, tmp_path, approvals=approvals))
        for mode in ("legacy", "auto"):
            async with connected(running, mode=mode, elicitation_callback=person) as client:
                result = await client.call_tool("act", {"mark": "late"})
            assert reason_in(result) == "timed_out"
            assert "leafgate approvals" in error_in(result)["message"]
        assert httpx2.get(f"{running.url}/api/approvals").json() == {"approvals": []}
        assert running.acts("late") == 0
    assert person.questions == []
