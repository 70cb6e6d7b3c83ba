"""Spans: how they nest, what they say, what they never say, and how tracing is configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, get_current_span

from leafgate.model.errors import ConfigError, UpstreamFailure
from leafgate.telemetry.tracing import Tracing, make_tracing, traces_url

ENDPOINT = "http://127.0.0.1:4318/v1/traces"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Drawn:
    """A tracer whose spans can be looked at."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(provider)

    def spans(self) -> Mapping[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def drawn() -> Drawn:
    return Drawn()


def test_stages_nest_and_say_what_they_are(drawn: Drawn) -> None:
    with (
        drawn.tracing.stage("tool_execute", correlation_id="0a1b2c3d"),
        drawn.tracing.stage("upstream", server="notes", attempt=2) as span,
    ):
        span.note("target", "search")
    outer, inner = drawn.spans()["leafgate.tool_execute"], drawn.spans()["leafgate.upstream"]
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    assert (outer.kind, inner.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert dict(outer.attributes or {}) == {"leafgate.correlation_id": "0a1b2c3d"}
    assert dict(inner.attributes or {}) == {
        "leafgate.server": "notes",
        "leafgate.attempt": 2,
        "leafgate.target": "search",
    }


def test_an_exceptions_words_are_not_drawn(drawn: Drawn) -> None:
    with pytest.raises(UpstreamFailure), drawn.tracing.stage("upstream"):
        raise UpstreamFailure("UPSTREAM_TIMEOUT", "password hunter2 is wrong")
    with pytest.raises(ValueError, match="hunter2"), drawn.tracing.stage("screen"):
        raise ValueError("hunter2")
    assert "hunter2" not in "".join(span.to_json() for span in drawn.spans().values())
    failed = drawn.spans()["leafgate.upstream"]
    assert dict(failed.attributes or {}) == {"error.type": "UPSTREAM_TIMEOUT"}
    assert not failed.status.is_ok
    assert dict(drawn.spans()["leafgate.screen"].attributes or {}) == {"error.type": "ValueError"}


def test_an_error_that_became_an_answer_is_drawn_as_one(drawn: Drawn) -> None:
    with drawn.tracing.stage("tool_execute") as span:
        span.fail("RATE_LIMITED")
    assert dict(drawn.spans()["leafgate.tool_execute"].attributes or {}) == {"error.type": "RATE_LIMITED"}


def test_a_name_of_a_server_is_made_fit_to_be_shown(drawn: Drawn) -> None:
    with drawn.tracing.stage("upstream", target="x\n\ud800" + "y" * 10_000):
        pass
    (target,) = (drawn.spans()["leafgate.upstream"].attributes or {}).values()
    assert len(str(target)) < 200
    assert str(target).isprintable()


async def _seen_with(headers: list[tuple[bytes, bytes]], drawn: Drawn, kind: str = "http") -> str:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(f"{get_current_span().get_span_context().trace_id:032x}")

    await drawn.tracing.layer(app)({"type": kind, "headers": headers}, None, None)  # type: ignore[arg-type]  # unused
    assert not get_current_span().get_span_context().is_valid
    return seen[0]


@pytest.mark.anyio
async def test_the_header_of_a_request_is_its_parent(drawn: Drawn) -> None:
    headers = [(b"accept", b"*/*"), (b"traceparent", PARENT.encode())]
    assert await _seen_with(headers, drawn) == "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "value", [b"", b"garbage", b"00-0-0-01", b"\xff\xfe", PARENT.replace("0af7", "zzzz").encode(), PARENT[:-1].encode()]
)
async def test_a_header_of_another_shape_is_none(drawn: Drawn, value: bytes) -> None:
    assert await _seen_with([(b"traceparent", value)], drawn) == "0" * 32


@pytest.mark.anyio
async def test_other_scopes_pass(drawn: Drawn) -> None:
    assert await _seen_with([(b"traceparent", PARENT.encode())], drawn, "lifespan") == "0" * 32


def test_without_the_extra_the_operator_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"leafgate\[otel\]"):
        make_tracing(ENDPOINT)


def test_an_endpoint_without_a_path_gets_the_usual_one() -> None:
    assert (
        traces_url("https://traces.example")
        == traces_url("https://traces.example/")
        == ("https://traces.example/v1/traces")
    )
    assert traces_url(ENDPOINT) == ENDPOINT
