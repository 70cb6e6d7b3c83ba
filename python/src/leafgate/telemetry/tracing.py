"""OpenTelemetry spans of requests and their stages, off unless configured. In: the Tracer port's calls. Out: OTLP.

Touches the network, in a thread of the exporter's. The provider is our own and not the process's: the MCP SDK draws
spans of its own, with the words of servers in them, and those go nowhere. What the SDK does carry is the trace itself:
a client's `traceparent` in `_meta` becomes the parent, and requests to servers name our span in theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from opentelemetry import context as trace_context
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace import Tracer as OtelTracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from leafgate.model.errors import ConfigError
from leafgate.ports import Span
from leafgate.telemetry.labels import label
from leafgate.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX: Final = "leafgate."
EXPORT_SECONDS: Final = 5
_HEADERS: Final = ("traceparent", "tracestate")
_KEYS: Final = ("endpoint", "headers", "service_name", "sample_ratio")


@dataclass(frozen=True)
class TracingSettings:
    """Where spans go. The headers may hold a credential, so they are not shown."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    service_name: str = "leafgate"
    sample_ratio: float = 1.0


def tracing_settings_of(block: object) -> TracingSettings:
    """The `tracing` block of a configuration, or a ConfigError that names the key."""
    if not isinstance(block, Mapping):
        raise ConfigError(f"tracing: an object with {', '.join(_KEYS)}")
    for key in block:
        if key not in _KEYS:
            raise ConfigError(f"tracing.{key}: known are {', '.join(_KEYS)}")
    headers, name, ratio = block.get("headers", {}), block.get("service_name", "leafgate"), block.get("sample_ratio", 1)
    if not isinstance(headers, Mapping) or not all(isinstance(each, str) for pair in headers.items() for each in pair):
        raise ConfigError("tracing.headers: texts by name")
    if not isinstance(name, str) or not name:
        raise ConfigError("tracing.service_name: a text")
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
        raise ConfigError("tracing.sample_ratio: a number from 0 to 1")
    return TracingSettings(_endpoint(block.get("endpoint")), dict(headers), name, float(ratio))


def _endpoint(given: object) -> str:
    parts = urlsplit(given) if isinstance(given, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError("tracing.endpoint: the URL of an OTLP receiver, such as http://127.0.0.1:4318/v1/traces")
    return parts.geturl() if parts.path not in ("", "/") else parts._replace(path="/v1/traces").geturl()


def make_tracing(settings: TracingSettings) -> Tracing:
    """A tracer that exports. ConfigError if the extra is not installed."""
    try:  # here, because the extra `otel` is optional and takes a tenth of a second to load
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415
    except ImportError:
        raise ConfigError("tracing needs the extra 'otel': install leafgate[otel]") from None
    about = {"service.name": settings.service_name, "service.version": __version__}
    provider = TracerProvider(
        resource=Resource.create(about), sampler=ParentBasedTraceIdRatio(settings.sample_ratio), shutdown_on_exit=False
    )
    exporter = OTLPSpanExporter(settings.endpoint, headers=dict(settings.headers), timeout=EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider)


class Tracing:
    """Fills the Tracer port."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("leafgate", __version__)

    def stage(self, name: str, **facts: str | int) -> AbstractContextManager[Span]:
        return _stage(self._tracer, name, facts)

    def layer(self, app: ASGIApp) -> ASGIApp:
        """The application, where a request's `traceparent` header is the parent of what it causes."""
        return _TraceHeader(app)

    def close(self) -> None:
        """Sends what is left. May take as long as the receiver."""
        self._provider.shutdown()


class _Drawn:
    """A span as the gateway sees it."""

    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    def note(self, name: str, fact: str | int) -> None:
        self._span.set_attribute(PREFIX + name, label(fact) if isinstance(fact, str) else fact)

    def fail(self, code: str) -> None:
        self._span.set_attribute("error.type", code)
        self._span.set_status(Status(StatusCode.ERROR))


@contextmanager
def _stage(tracer: OtelTracer, name: str, facts: Mapping[str, str | int]) -> Iterator[Span]:
    # What an exception says may be a server's or a client's words: only its kind is drawn.
    with tracer.start_as_current_span(
        PREFIX + name, kind=_kind(name), record_exception=False, set_status_on_exception=False
    ) as span:
        drawn = _Drawn(span)
        for fact, value in facts.items():
            drawn.note(fact, value)
        try:
            yield drawn
        except Exception as error:
            drawn.fail(_code(error))
            raise


def _code(error: Exception) -> str:
    code: Any = getattr(error, "code", None)
    return code if isinstance(code, str) else type(error).__name__


def _kind(name: str) -> SpanKind:
    if name == "upstream":
        return SpanKind.CLIENT
    return SpanKind.INTERNAL if get_current_span().is_recording() else SpanKind.SERVER


class _TraceHeader:
    """Takes the W3C trace context of an HTTP request; the SDK itself reads only that of `_meta`, which goes first."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        carried = _carried(scope)
        if not carried:
            await self._app(scope, receive, send)
            return
        token = trace_context.attach(self._propagator.extract(carried))
        try:
            await self._app(scope, receive, send)
        finally:
            trace_context.detach(token)


def _carried(scope: Scope) -> dict[str, str]:
    headers = scope.get("headers", ()) if scope["type"] == "http" else ()
    names = {name.encode(): name for name in _HEADERS}
    return {names[name]: value.decode("latin-1") for name, value in headers if name in names}
