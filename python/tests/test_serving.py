"""One request: one id, one span, one report, however it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from leafgate.embed.runtime import ProxyRuntime
from leafgate.gateway.serving import UNTRACED, goes_to, serving
from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.served import SERVING
from leafgate.telemetry.metrics import Metrics
from leafgate.upstream.primitives import StubPrimitiveUpstream
from leafgate.upstream.stub import StubUpstream


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: "today")


def test_a_request_has_an_id_while_it_lasts(metrics: Metrics) -> None:
    with serving("tool_browse", metrics, UNTRACED) as outcome:
        served = SERVING.get()
        assert served is not None
        assert (served.correlation_id, served.operation, served.server) == (outcome.correlation_id, "tool_browse", "")
    assert SERVING.get() is None
    assert metrics.summary()["calls"] == {"tool_browse": 1}
    assert metrics.summary()["errors"] == {}


def test_two_requests_have_two_ids(metrics: Metrics) -> None:
    ids = set()
    for _ in range(100):
        with serving("tool_browse", metrics, UNTRACED) as outcome:
            ids.add(outcome.correlation_id)
    assert len(ids) == 100


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GatewayError("ARGS_INVALID", "no"), "ARGS_INVALID"),
        (UpstreamFailure("UPSTREAM_TIMEOUT", "slow"), "UPSTREAM_TIMEOUT"),
        (KeyError("bug"), "INTERNAL_ERROR"),
    ],
)
def test_an_error_that_goes_on_is_reported_by_its_code(metrics: Metrics, error: Exception, code: str) -> None:
    with pytest.raises(type(error)), serving("resources/read", metrics, UNTRACED):
        raise error
    assert metrics.summary()["errors"] == {code: 1}
    assert SERVING.get() is None


@pytest.mark.anyio
async def test_a_request_that_was_given_up_is_neither_good_nor_an_error(metrics: Metrics) -> None:
    with anyio.CancelScope() as scope, serving("tool_execute", metrics, UNTRACED):
        scope.cancel()
        await anyio.sleep_forever()
    assert metrics.requests == {("tool_execute", "cancelled"): 1}
    assert metrics.summary()["calls"] == {"tool_execute": 1}
    assert metrics.summary()["errors"] == {}
    assert metrics.summary()["recent_errors"] == []
    assert SERVING.get() is None


def test_an_error_that_became_an_answer_is_reported_once(metrics: Metrics) -> None:
    with serving("tool_execute", metrics, UNTRACED) as outcome:
        goes_to("notes")
        outcome.error = "RATE_LIMITED"
    (kept,) = metrics.summary()["recent_errors"]
    assert (kept["code"], kept["server"]) == ("RATE_LIMITED", "notes")
    assert kept["correlation_id"] == outcome.correlation_id
    assert metrics.summary()["calls"] == {"tool_execute": 1}


def failing(args: Mapping[str, Any]) -> Mapping[str, Any]:
    raise UpstreamFailure("UPSTREAM_ERROR", "what only the log may know")


@pytest.mark.anyio
async def test_the_id_in_an_answer_is_the_one_in_the_report_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    tools = [{"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}]
    runtime = ProxyRuntime(StubUpstream(tools, answers={"read": failing}, server="files"))
    await runtime.refresh_catalog()
    (item,) = runtime.catalog
    with pytest.raises(GatewayError) as raised:
        await runtime.execute(item.id)
    correlation = raised.value.body.details["correlation_id"]
    (kept,) = runtime.metrics.summary()["recent_errors"]
    assert (kept["correlation_id"], kept["server"]) == (correlation, "files")
    assert correlation in caplog.text
    assert "what only the log may know" in caplog.text


@pytest.mark.anyio
async def test_a_refusal_names_the_server_that_it_spared() -> None:
    tools = [{"name": "read", "description": "Reads.", "inputSchema": {"type": "object", "required": ["path"]}}]
    runtime = ProxyRuntime(StubUpstream(tools, server="files"))
    await runtime.refresh_catalog()
    (item,) = runtime.catalog
    with pytest.raises(GatewayError):
        await runtime.execute(item.id)
    (kept,) = runtime.metrics.summary()["recent_errors"]
    assert (kept["code"], kept["server"]) == ("ARGS_INVALID", "files")
    assert runtime.metrics.summary()["upstream_calls"] == {}


@pytest.mark.anyio
async def test_native_requests_are_reported_like_all_others() -> None:
    primitives = StubPrimitiveUpstream(resources=[{"uri": "notes://one", "name": "one"}], server="notes")
    runtime = ProxyRuntime(StubUpstream([]), primitives=primitives)
    await runtime.refresh_catalog()
    await runtime.gateway.read_native("notes://one")
    with pytest.raises(GatewayError):
        await runtime.gateway.read_native("notes://other")
    with pytest.raises(GatewayError):
        await runtime.gateway.get_prompt_native("nothing", {})
    found = runtime.metrics.summary()
    assert found["calls"] == {"resources/read": 2, "prompts/get": 1}
    assert found["errors"] == {"RESOURCE_NOT_FOUND": 1, "PROMPT_NOT_FOUND": 1}
    assert found["upstream_calls"]["notes"]["calls"] == 1


def test_outside_a_request_a_server_is_nobodys() -> None:
    goes_to("notes")
    assert SERVING.get() is None


def test_the_tracer_that_draws_nothing_is_one_object() -> None:
    with UNTRACED.stage("screen", server="notes") as span:
        span.note("name", "fact")
        span.fail("UPSTREAM_ERROR")
        assert span is UNTRACED.stage("ids")
