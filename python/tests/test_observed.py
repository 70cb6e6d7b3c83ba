"""Requests to servers are timed, named and counted; their answers and errors pass unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest

from leafgate.firewall.cleaner import make_cleaner
from leafgate.gateway.observed import ObservedPrimitives, ObservedUpstream, Watch
from leafgate.gateway.serving import UNTRACED, serving
from leafgate.model.errors import UpstreamFailure
from leafgate.telemetry.metrics import Metrics
from leafgate.upstream.primitives import StubPrimitiveUpstream
from leafgate.upstream.stub import StubUpstream

pytestmark = pytest.mark.anyio

DEFINITION = {"name": "echo", "inputSchema": {"type": "object"}}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: "today")


def watching(metrics: Metrics) -> Watch:
    return Watch(metrics, UNTRACED, make_cleaner())


def answering(answer: Any, metrics: Metrics) -> ObservedUpstream:
    return ObservedUpstream(StubUpstream([DEFINITION], answers={"echo": answer}, server="notes"), watching(metrics))


def failing(error: Exception) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    def fail(args: Mapping[str, Any]) -> Mapping[str, Any]:
        raise error

    return fail


async def test_an_answer_passes_and_is_counted(metrics: Metrics) -> None:
    answer = {"content": []}
    upstream = answering(answer, metrics)
    assert await upstream.call_tool("notes", "echo", {}) is answer
    told = metrics.summary()["upstream_calls"]["notes"]
    assert (told["calls"], told["errors"]) == (1, 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [(UpstreamFailure("UPSTREAM_TIMEOUT", "slow"), "UPSTREAM_TIMEOUT"), (KeyError("bug"), "UPSTREAM_ERROR")],
)
async def test_a_failure_passes_and_is_counted_by_its_code(metrics: Metrics, error: Exception, code: str) -> None:
    with pytest.raises(UpstreamFailure) as caught:
        await answering(failing(error), metrics).call_tool("notes", "echo", {})
    assert caught.value.code == code
    assert metrics.summary()["upstream_calls"]["notes"]["outcomes"] == {code: 1}


async def test_a_call_that_was_given_up_is_counted_and_is_no_error(metrics: Metrics) -> None:
    async def hang(args: Mapping[str, Any]) -> Mapping[str, Any]:
        await anyio.sleep_forever()
        return {}

    with anyio.move_on_after(0.01):
        await answering(hang, metrics).call_tool("notes", "echo", {})
    told = metrics.summary()["upstream_calls"]["notes"]
    assert (told["calls"], told["errors"], told["outcomes"]) == (1, 0, {"cancelled": 1})


async def test_the_report_of_a_request_names_the_server_it_went_to(metrics: Metrics) -> None:
    upstream = answering(failing(UpstreamFailure("UPSTREAM_ERROR", "x")), metrics)
    with pytest.raises(UpstreamFailure), serving("tool_execute", metrics, UNTRACED):
        await upstream.call_tool("notes", "echo", {})
    assert metrics.summary()["recent_errors"][0]["server"] == "notes"


async def test_everything_else_passes_by(metrics: Metrics) -> None:
    inner = StubUpstream([DEFINITION])
    upstream = ObservedUpstream(inner, watching(metrics))
    assert await upstream.list_tools() == await inner.list_tools()
    await upstream.settled()
    assert metrics.summary()["upstream_calls"] == {}


async def test_resources_and_prompts_are_counted_too(metrics: Metrics) -> None:
    inner = StubPrimitiveUpstream(
        resources=[{"uri": "notes://one", "name": "one"}],
        prompts=[{"name": "greet"}],
        server="notes",
    )
    upstream = ObservedPrimitives(inner, watching(metrics))
    assert await upstream.list_resources() == await inner.list_resources()
    assert upstream.server_of_resource("notes://one") == "notes"
    await upstream.read_resource("notes", "notes://one")
    await upstream.get_prompt("notes", "greet", {})
    with pytest.raises(UpstreamFailure):
        await upstream.read_resource("notes", "notes://other")
    with pytest.raises(UpstreamFailure):
        await upstream.request("notes", "completion/complete", {})
    told = metrics.summary()["upstream_calls"]["notes"]
    assert (told["calls"], told["errors"]) == (4, 2)
