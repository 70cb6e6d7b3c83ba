"""OpenTelemetry spans of requests and their stages, exported over OTLP. Off unless configured.

The provider is separate from that of the process: the MCP SDK creates spans that quote servers, and those must not be
exported. The SDK does carry the trace context: a client's `traceparent` in `_meta` becomes the parent, and requests to
servers name our span in theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from opentelemetry import context as trace_context
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from leafgate.model.errors import ConfigError
from leafgate.ports import Span
from leafgate.telemetry.counters import label
from leafgate.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX: Final = "leafgate."
EXPORT_SECONDS: Final = 5
_HEADERS: Final = (b"traceparent", b"tracestate")


def traces_url(endpoint: str) -> str:
    """The URL of an OTLP receiver; one without a path gets the usual one."""
    parts = urlsplit(endpoint)
    return endpoint if parts.path not in ("", "/") else parts._replace(path="/v1/traces").geturl()


def make_tracing(
    endpoint: str,
    headers: Mapping[str, str] | None = None,
    service_name: str = "leafgate",
    sample_ratio: float = 1.0,
) -> Tracing:
    """A tracer that exports spans. ConfigError if the extra `otel` is not installed."""
    try:  # here, because the extra `otel` is optional and takes a tenth of a second to load
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415
    except ImportError:
        raise ConfigError("tracing needs the extra 'otel': install leafgate[otel]") from None
    about = {"service.name": service_name, "service.version": __version__}
    provider = TracerProvider(
        resource=Resource.create(about), sampler=ParentBasedTraceIdRatio(sample_ratio), shutdown_on_exit=False
    )
    exporter = OTLPSpanExporter(traces_url(endpoint), headers=dict(headers or {}), timeout=EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider)


class Tracing:
    """Implements Tracer."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("leafgate", __version__)

    @contextmanager
    def stage(self, name: str, **facts: str | int) -> Iterator[Span]:
        own = SpanKind.INTERNAL if get_current_span().is_recording() else SpanKind.SERVER
        kind = SpanKind.CLIENT if name == "upstream" else own
        # The message of an exception may quote a server or a client: only its kind is recorded.
        with self._tracer.start_as_current_span(
            PREFIX + name, kind=kind, record_exception=False, set_status_on_exception=False
        ) as otel_span:
            span = _Span(otel_span)
            for fact, value in facts.items():
                span.note(fact, value)
            try:
                yield span
            except Exception as error:
                code: Any = getattr(error, "code", None)
                span.fail(code if isinstance(code, str) else type(error).__name__)
                raise

    def layer(self, app: ASGIApp) -> ASGIApp:
        """The application, with the `traceparent` header of a request as the parent of its spans.

        The SDK reads the trace context of `_meta`, which takes precedence.
        """
        propagator = TraceContextTextMapPropagator()

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            headers = scope.get("headers", ()) if scope["type"] == "http" else ()
            trace = {name.decode(): value.decode("latin-1") for name, value in headers if name in _HEADERS}
            token = trace_context.attach(propagator.extract(trace, trace_context.get_current()))
            try:
                await app(scope, receive, send)
            finally:
                trace_context.detach(token)

        return traced

    def close(self) -> None:
        """Send the remaining spans. May take as long as the receiver."""
        self._provider.shutdown()


class _Span:
    """Implements Span."""

    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    def note(self, name: str, fact: str | int) -> None:
        self._span.set_attribute(PREFIX + name, label(fact) if isinstance(fact, str) else fact)

    def fail(self, code: str) -> None:
        self._span.set_attribute("error.type", code)
        self._span.set_status(Status(StatusCode.ERROR))
