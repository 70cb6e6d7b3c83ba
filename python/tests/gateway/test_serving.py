"""One request: one id, one span, one report, however it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from conftest import MAPS

from leafgate.clean.cleaner import Cleaner
from leafgate.embed.runtime import ProxyRuntime
from leafgate.gateway.execute import Controls
from leafgate.gateway.runtime import GatewayParts, GatewayRuntime
from leafgate.gateway.serving import UNTRACED, note, observe, set_server
from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.request import SERVING, Request, Served
from leafgate.model.rights import CapabilityPolicy, Rule
from leafgate.ports import CallEnd
from leafgate.state.memory import MemoryArtifactStore
from leafgate.telemetry.metrics import Metrics
from leafgate.tokens.encoder import Encoder
from leafgate.upstream.library import StubPrimitiveUpstream, StubUpstream


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: "today")


def test_a_request_has_an_id_while_it_lasts(metrics: Metrics) -> None:
    with observe("tool_browse", metrics, UNTRACED) as outcome:
        served = SERVING.get()
        assert served is not None
        assert (served.correlation_id, served.operation, served.server) == (outcome.correlation_id, "tool_browse", "")
    assert SERVING.get() is None
    assert metrics.summary()["calls"] == {"tool_browse": 1}
    assert metrics.summary()["errors"] == {}


def test_two_requests_have_two_ids(metrics: Metrics) -> None:
    ids = set()
    for _ in range(100):
        with observe("tool_browse", metrics, UNTRACED) as outcome:
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
    with pytest.raises(type(error)), observe("resources/read", metrics, UNTRACED):
        raise error
    assert metrics.summary()["errors"] == {code: 1}
    assert SERVING.get() is None


@pytest.mark.anyio
async def test_a_request_that_was_given_up_is_neither_good_nor_an_error(metrics: Metrics) -> None:
    with anyio.CancelScope() as scope, observe("tool_execute", metrics, UNTRACED):
        scope.cancel()
        await anyio.sleep_forever()
    assert {name: counts.outcomes for name, counts in metrics.operations.items()} == {"tool_execute": {"cancelled": 1}}
    assert metrics.summary()["calls"] == {"tool_execute": 1}
    assert metrics.summary()["errors"] == {}
    assert metrics.summary()["recent_errors"] == []
    assert SERVING.get() is None


def test_an_error_that_became_an_answer_is_reported_once(metrics: Metrics) -> None:
    with observe("tool_execute", metrics, UNTRACED) as outcome:
        set_server("notes")
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
    with pytest.raises(GatewayError) as raised, caplog.at_level("DEBUG"):
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
    await runtime.gateway.read_native("notes://one", Request())
    with pytest.raises(GatewayError):
        await runtime.gateway.read_native("notes://other", Request())
    with pytest.raises(GatewayError):
        await runtime.gateway.get_prompt_native("nothing", {}, Request())
    found = runtime.metrics.summary()
    assert found["calls"] == {"resources/read": 2, "prompts/get": 1}
    assert found["errors"] == {"RESOURCE_NOT_FOUND": 1, "PROMPT_NOT_FOUND": 1}
    assert found["upstream_calls"]["notes"]["calls"] == 1


def test_outside_a_request_a_server_is_nobodys() -> None:
    set_server("notes")
    assert SERVING.get() is None


def test_the_tracer_that_draws_nothing_is_one_object() -> None:
    with UNTRACED.stage("screen", server="notes") as span:
        span.note("name", "fact")
        span.fail("UPSTREAM_ERROR")
        assert span is UNTRACED.stage("ids")


# What a request is audited and logged with


class Audit:
    """An AuditLog that keeps what it gets."""

    def __init__(self) -> None:
        self.calls: list[tuple[Served, CallEnd]] = []

    def call(self, served: Served, end: CallEnd, seconds: float) -> None:
        self.calls.append((served, end))

    def refused(self, principal: str | None, where: str, reason: str) -> None:
        raise AssertionError


SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TOOL = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}


async def load_encoder(name: str) -> Encoder:
    return MAPS.load(name)


async def audited_call(answer: Any, request: Request, policy: CapabilityPolicy | None = None) -> tuple[Served, CallEnd]:
    audit = Audit()
    parts = GatewayParts(
        upstream=StubUpstream([TOOL], answers={"read": answer}, server="files"),
        artifacts=MemoryArtifactStore(),
        recorder=Metrics(lambda: "today"),
        clean=Cleaner(),
        count=len,
        encoder_of=load_encoder,
        budget=100,
        controls=Controls(policy=policy),
        audit=audit,
    )
    runtime = GatewayRuntime(parts)
    runtime.adopt(runtime.prepare(await parts.upstream.list_offers()))
    (item,) = runtime.snapshot.catalog
    await runtime.execute({"tool_id": item.id, "args": {"secret": "argument"}}, request)
    ((served, end),) = audit.calls
    assert "argument" not in repr(served)
    return served, end


@pytest.mark.anyio
async def test_an_audited_call_says_who_what_and_what_cleaning_and_the_budget_did() -> None:
    text = {"type": "text", "text": f"{SECRET} <|im_start|> " + "words " * 500}
    request = Request(principal="ann", client_name="claude-code", argument_tokens=7)
    served, end = await audited_call({"content": [text]}, request)
    assert end is None
    assert (served.principal, served.client_name, served.server, served.tool) == ("ann", "claude-code", "files", "read")
    assert (served.tokens_in, served.tokens_out) == (7, None)
    assert served.redacted == {"github-token": 1}
    assert sum(served.removed.values()) >= 1
    assert served.cut["parts"] == 1
    assert served.cut["bytes"] > 2_000


@pytest.mark.anyio
async def test_the_error_of_a_tool_is_its_outcome_and_ids_are_counted() -> None:
    encoder = MAPS.load("toy")
    answer = {"content": [{"type": "text", "text": "it failed"}], "isError": True}
    served, end = await audited_call(answer, Request(map_digest=encoder.map.digest, encoder=encoder))
    assert end == "tool_error"
    assert served.tokens_out == len(encoder.encode("it failed"))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("rule", "answer", "approval", "denied_by"),
    [
        ("deny", None, None, "policy"),
        ("require_approval", True, "given", ""),
        ("require_approval", False, "refused", "approval"),
        ("require_approval", None, "not possible", "approval"),
        ("allow", None, None, ""),
    ],
)
async def test_who_approved_and_what_denied(rule: Any, answer: Any, approval: Any, denied_by: str) -> None:
    async def ask(question: str) -> bool | None:
        return answer

    policy = CapabilityPolicy((Rule(rule),))
    served, end = await audited_call({"content": []}, Request(ask=ask), policy)
    assert (served.approval, served.denied_by) == (approval, denied_by)
    assert end == ("PERMISSION_DENIED" if denied_by else None)


def test_a_name_cannot_pass_for_a_field_of_the_log_line(metrics: Metrics, caplog: pytest.LogCaptureFixture) -> None:
    request = Request(principal="ann outcome=ok", argument_tokens=3)
    with (
        caplog.at_level("INFO", "leafgate.calls"),
        observe("tool_execute", metrics, UNTRACED, request=request) as outcome,
    ):
        note(server="files", tool='x" tool=y')
        outcome.error = "tool_error"
    (line,) = [record.getMessage() for record in caplog.records]
    head, tail = line.split(" ms=")
    assert head == 'tool_execute principal="ann outcome=ok" server=files tool="x\\" tool=y" outcome=tool_error'
    assert tail.endswith(" tokens_in=3")


def test_without_the_level_info_no_line_is_made(metrics: Metrics, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "leafgate.calls"), observe("tool_execute", metrics, UNTRACED):
        pass
    assert caplog.records == []
