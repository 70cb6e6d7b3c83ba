"""Requests to servers are timed and counted; results and errors pass unchanged; messages to clients are clean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest
from conftest import MAPS

from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.deliver import Delivery, ServerCleaning
from leafgate.gateway.dispatch import CleanClient, ObservedUpstream
from leafgate.gateway.serving import UNTRACED, observe
from leafgate.model.errors import UpstreamFailure
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.state.memory import MemoryArtifactStore
from leafgate.telemetry.metrics import Metrics
from leafgate.upstream.library import StubPrimitiveUpstream, StubUpstream

pytestmark = pytest.mark.anyio

DEFINITION = {"name": "echo", "inputSchema": {"type": "object"}}
ECHO = {"name": "echo", "arguments": {}}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: "today")


def delivery(metrics: Metrics | None = None, **more: Any) -> Delivery:
    parts: Any = {"artifacts": MemoryArtifactStore(), "count": len, "encoder_of": MAPS.load, **more}
    return Delivery(recorder=metrics or Metrics(lambda: "today"), clean=Cleaner(), **parts)


def observed(inner: StubUpstream, metrics: Metrics) -> ObservedUpstream:
    return ObservedUpstream(inner, delivery(metrics))


def answering(answer: Any, metrics: Metrics) -> ObservedUpstream:
    return observed(StubUpstream([DEFINITION], answers={"echo": answer}, server="notes"), metrics)


def failing(error: Exception) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    def fail(args: Mapping[str, Any]) -> Mapping[str, Any]:
        raise error

    return fail


async def test_an_answer_passes_and_is_counted(metrics: Metrics) -> None:
    answer = {"content": []}
    upstream = answering(answer, metrics)
    assert await upstream.request("notes", "tools/call", ECHO) is answer
    told = metrics.summary()["upstream_calls"]["notes"]
    assert (told["calls"], told["errors"]) == (1, 0)


async def test_the_error_of_a_tool_passes_and_is_counted_as_one(metrics: Metrics) -> None:
    answer = {"content": [], "isError": True}
    assert await answering(answer, metrics).request("notes", "tools/call", ECHO) is answer
    counts = metrics.summary()["upstream_calls"]["notes"]
    assert (counts["errors"], counts["tool_errors"], counts["outcomes"]) == (1, 1, {"tool_error": 1})


@pytest.mark.parametrize(
    ("error", "code"),
    [(UpstreamFailure("UPSTREAM_TIMEOUT", "slow"), "UPSTREAM_TIMEOUT"), (KeyError("bug"), "UPSTREAM_ERROR")],
)
async def test_a_failure_passes_and_is_counted_by_its_code(metrics: Metrics, error: Exception, code: str) -> None:
    with pytest.raises(UpstreamFailure) as caught:
        await answering(failing(error), metrics).request("notes", "tools/call", ECHO)
    assert caught.value.code == code
    assert metrics.summary()["upstream_calls"]["notes"]["outcomes"] == {code: 1}


async def test_a_call_that_was_given_up_is_counted_and_is_no_error(metrics: Metrics) -> None:
    async def hang(args: Mapping[str, Any]) -> Mapping[str, Any]:
        await anyio.sleep_forever()
        return {}

    with anyio.move_on_after(0.01):
        await answering(hang, metrics).request("notes", "tools/call", ECHO)
    told = metrics.summary()["upstream_calls"]["notes"]
    assert (told["calls"], told["errors"], told["outcomes"]) == (1, 0, {"cancelled": 1})


async def test_the_report_of_a_request_names_the_server_it_went_to(metrics: Metrics) -> None:
    upstream = answering(failing(UpstreamFailure("UPSTREAM_ERROR", "x")), metrics)
    with pytest.raises(UpstreamFailure), observe("tool_execute", metrics, UNTRACED):
        await upstream.request("notes", "tools/call", ECHO)
    assert metrics.summary()["recent_errors"][0]["server"] == "notes"


async def test_everything_else_passes_by(metrics: Metrics) -> None:
    inner = StubUpstream([DEFINITION])
    upstream = observed(inner, metrics)
    assert await upstream.list_offers() == await inner.list_offers()
    await upstream.wait_for_start()
    assert metrics.summary()["upstream_calls"] == {}


async def test_resources_and_prompts_are_counted_too(metrics: Metrics) -> None:
    inner = StubPrimitiveUpstream(
        resources=[{"uri": "notes://one", "name": "one"}],
        prompts=[{"name": "greet"}],
        server="notes",
    )
    upstream = observed(inner, metrics)
    assert upstream.server_of_resource("notes://one") == "notes"
    await upstream.request("notes", "resources/read", {"uri": "notes://one"})
    await upstream.request("notes", "prompts/get", {"name": "greet", "arguments": {}})
    with pytest.raises(UpstreamFailure):
        await upstream.request("notes", "resources/read", {"uri": "notes://other"})
    with pytest.raises(UpstreamFailure):
        await upstream.request("notes", "completion/complete", {})
    told = metrics.summary()["upstream_calls"]["notes"]
    assert (told["calls"], told["errors"]) == (4, 2)


# What a server sends to the client during a call

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LEAF = {CODEC_META_KEY: {"map_id": "a" * 64, "ids": [1, 2, 3]}}


class Listener:
    """A caller that remembers what it heard."""

    owner = user = "me"
    takes_input_requests = True
    takes_any_json = False
    log_level = "info"

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.resume: Mapping[str, Any] = {"requestState": "s"}
        self.capabilities: Mapping[str, Any] = {"roots": {}}
        self.meta: Mapping[str, Any] = {"example.test/note": "n"}

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append((progress, total, message))

    async def log(self, params: Mapping[str, Any]) -> None:
        self.heard.append(params)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.heard.append((method, params))
        return {"answer": SECRET}


async def test_progress_log_lines_and_questions_are_clean() -> None:
    listener = Listener()
    caller = CleanClient(listener, await delivery().cleaning_for("s", None))
    await caller.progress(1, 3, f"with {SECRET}")
    await caller.progress(2, 3, None)
    await caller.log({"level": "info", "data": {"key": SECRET, "_meta": LEAF, "n": 5}})
    question = {"message": f"{SECRET}?\x1b[2J", "url": f"https://login.example/?t={SECRET}", "_meta": LEAF}
    assert await caller.ask("elicitation/create", question) == {"answer": SECRET}  # the client's own words
    first, second, line, (method, asked) = listener.heard
    assert first[:2] == (1, 3)
    assert second == (2, 3, None)
    assert (line["level"], line["data"]["n"], method) == ("info", 5, "elicitation/create")
    assert asked["url"] == question["url"]
    told = f"{first} {line} {asked['message']}"
    assert SECRET not in told
    assert "\x1b" not in asked["message"]
    assert CODEC_META_KEY not in f"{line} {asked}"


def test_who_the_caller_is_stays() -> None:
    caller = CleanClient(Listener(), ServerCleaning(Cleaner()))
    takes = caller.takes_input_requests, caller.takes_any_json
    assert (caller.owner, takes, caller.log_level) == ("me", (True, False), "info")
    assert (caller.resume, caller.capabilities) == ({"requestState": "s"}, {"roots": {}})
    assert caller.meta == {"example.test/note": "n"}
