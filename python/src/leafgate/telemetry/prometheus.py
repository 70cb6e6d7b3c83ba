"""The metrics page for Prometheus: one table of families, and the present state of the gateway that some of them show.

The registry belongs to the page: nothing else in the process can add to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from leafgate.telemetry.counters import Histogram, LeafKind, label
from leafgate.telemetry.metrics import CallCounts, Metrics
from leafgate.version import __version__

OPENMETRICS: Final = "application/openmetrics-text"


@dataclass(frozen=True)
class Standing:
    """The present state: which servers are up, how many tools each lists, the phases of their breakers, the bytes that
    are held now, and what was dropped to bound them (notifications by server and kind)."""

    up: Mapping[str, bool] = field(default_factory=dict)
    tools_by_server: Mapping[str, int] = field(default_factory=dict)
    tools: int = 0
    breakers: Mapping[str, str] = field(default_factory=dict)
    held_bytes: Mapping[str, int] = field(default_factory=dict)
    gateway_bytes: Mapping[str, int] = field(default_factory=dict)
    dropped_notifications: Mapping[tuple[str, str], int] = field(default_factory=dict)
    dropped_log_lines: int = 0


class PrometheusPage(Collector):
    """Answers scrapes. The families are built anew at every scrape, from the table."""

    def __init__(self, metrics: Metrics, standing: Callable[[], Standing]) -> None:
        self._metrics = metrics
        self._standing = standing
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def __call__(self, accept: str) -> tuple[bytes, str]:
        """The page and its media type: OpenMetrics if the client accepts it, otherwise the text format."""
        if OPENMETRICS in accept:
            page: bytes = openmetrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]  # the library's
            return page, openmetrics.CONTENT_TYPE_LATEST
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

    def describe(self) -> Iterable[Metric]:
        return ()  # otherwise the registry would collect once at the start, to learn the names

    def collect(self) -> Iterable[Metric]:
        standing = self._standing()
        for family in FAMILIES:
            yield family.collect(self._metrics, standing)


# Label values, and the value of the series.
Series: TypeAlias = Iterable[tuple[Sequence[str], float | Histogram]]


class Family(NamedTuple):
    """One metric: its type, name, help, labels, and where its numbers come from. Counters get the suffix `_total`."""

    type: type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]
    name: str
    help: str
    labels: list[str]
    read: Callable[[Metrics, Standing], Series]

    def collect(self, metrics: Metrics, standing: Standing) -> Metric:
        family = self.type(self.name, self.help, labels=self.labels)
        add: Callable[..., None] = family.add_metric
        for labels, value in self.read(metrics, standing):
            add(labels, *((value.cumulative(), value.seconds) if isinstance(value, Histogram) else (value,)))
        return family


def _by_label(values: Mapping[Any, float]) -> Series:
    return [((label(name),), value) for name, value in values.items()]


def _outcomes(calls: Mapping[str, CallCounts]) -> Series:
    return [((name, end), times) for name, counts in calls.items() for end, times in counts.outcomes.items()]


def _durations(calls: Mapping[str, CallCounts]) -> Series:
    return [((name,), counts.durations) for name, counts in calls.items()]


def _leaf_series(kind: LeafKind) -> Callable[[Metrics, Standing], Series]:
    def read(metrics: Metrics, standing: Standing) -> Series:
        rows = metrics.leaves.rows()
        counts = (((*row, what), value) for row, counts in rows for what, value in counts.of_kind(kind).items())
        return [(labels, value) for labels, value in counts if value or kind != "seconds"]

    return read


_COUNTER, _GAUGE, _HISTOGRAM = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

# fmt: off
FAMILIES: Final = (
    Family(_GAUGE, "leafgate_build_info", "The version that runs.", ["version"], lambda m, s: [((__version__,), 1)]),
    # Requests of clients
    Family(_COUNTER, "leafgate_requests", "Requests of clients by outcome: ok, tool_error or the code of the error.",
           ["operation", "outcome"], lambda m, s: _outcomes(m.operations)),
    Family(_HISTOGRAM, "leafgate_request_duration_seconds", "How long requests took.",
           ["operation"], lambda m, s: _durations(m.operations)),
    # Calls of tools
    Family(_COUNTER, "leafgate_tool_calls",
           "Calls of tools by outcome: ok, tool_error for the tool's own error, or the code of the gateway's error.",
           ["server", "tool", "principal", "outcome"],
           lambda m, s: [((*row, end), n) for row, ends in m.tool_calls.rows.items() for end, n in ends.items()]),
    Family(_HISTOGRAM, "leafgate_tool_call_duration_seconds", "How long calls of a tool took.",
           ["server", "tool"], lambda m, s: list(m.tool_calls.durations.items())),
    Family(_COUNTER, "leafgate_flows", "What flow rules found: text or secrets of one server on the way to another.",
           ["source", "destination", "kind", "effect"], lambda m, s: m.flows.items()),
    # Requests to servers
    Family(_COUNTER, "leafgate_upstream_calls", "Requests to a server, every attempt, by outcome.",
           ["server", "outcome"], lambda m, s: _outcomes(m.upstreams)),
    Family(_HISTOGRAM, "leafgate_upstream_call_duration_seconds", "How long a server took to answer, every attempt.",
           ["server"], lambda m, s: _durations(m.upstreams)),
    Family(_GAUGE, "leafgate_upstream_up", "Whether a server is connected.",
           ["server"], lambda m, s: _by_label(s.up)),
    Family(_GAUGE, "leafgate_upstream_tools", "Tools that a server lists.",
           ["server"], lambda m, s: _by_label(s.tools_by_server)),
    Family(_GAUGE, "leafgate_upstream_breaker", "The phase of a server's breaker.",
           ["server", "phase"], lambda m, s: [((label(server), phase), 1) for server, phase in s.breakers.items()]),
    Family(_GAUGE, "leafgate_upstream_held_bytes",
           "Bytes of a server's answers that are being received, wait, or are worked on.",
           ["server"], lambda m, s: _by_label(s.held_bytes)),
    Family(_COUNTER, "leafgate_upstream_notifications_dropped", "Notifications of a server that were not passed on.",
           ["server", "kind"],
           lambda m, s: [((label(server), kind), n) for (server, kind), n in s.dropped_notifications.items()]),
    # The process
    Family(_GAUGE, "leafgate_held_bytes", "Bytes that the gateway holds: results, session_events and log.",
           ["part"], lambda m, s: _by_label(s.gateway_bytes)),
    Family(_COUNTER, "leafgate_log_lines_dropped", "Lines of the log that were dropped because it was not read.",
           [], lambda m, s: [((), s.dropped_log_lines)]),
    Family(_COUNTER, "leafgate_instructions",
           "Answers and questions of a server that read like instructions to a model: flagged or quarantined.",
           ["server", "action"],
           lambda m, s: [((name, action), n) for name, row in m.instructions.items() for action, n in row.items()]),
    # Leaves
    Family(_COUNTER, "leafgate_leaf_blocks", "Text blocks of results: leaf, shim or skipped.",
           ["server", "tool", "map", "outcome"], _leaf_series("blocks")),
    Family(_COUNTER, "leafgate_leaf_tokens", "Tokens of those blocks.",
           ["server", "tool", "map", "outcome"], _leaf_series("tokens")),
    Family(_COUNTER, "leafgate_leaf_rejected", "Leaves that were dropped.",
           ["server", "tool", "map", "reason"], _leaf_series("rejected")),
    Family(_COUNTER, "leafgate_leaf_dropped", "Leaves that were dropped because the text was cleaned since.",
           ["server", "tool", "map", "reason"], _leaf_series("dropped")),
    Family(_COUNTER, "leafgate_leaf_checks", "Checks of leaves by their level; with `check: sampled`, canonical ones "
           "are the sample.", ["server", "tool", "map", "level"], _leaf_series("checks")),
    Family(_COUNTER, "leafgate_leaf_seconds",
           "CPU time spent checking leaves (verify) and tokenizing (tokenize) those blocks; of a sample of the latter, "
           "the time (sampled_shim), and what leaves would have taken (sampled_leaf).",
           ["server", "tool", "map", "kind"], _leaf_series("seconds")),
    # All work of the tokenizer
    Family(_COUNTER, "leafgate_codec_seconds",
           "Time spent checking leaves (verify), tokenizing results (tokenize) and own texts (own), and detokenizing.",
           ["kind"], lambda m, s: _by_label(m.codec_seconds)),
    Family(_COUNTER, "leafgate_detokenize_calls", "Arguments that came as ids.",
           ["map"], lambda m, s: _by_label(m.detokenized_by_map)),
    Family(_COUNTER, "leafgate_own_texts", "Texts without leaves that were tokenized.",
           [], lambda m, s: [((), m.own["texts"])]),
    Family(_COUNTER, "leafgate_own_tokens", "Tokens of those texts.", [], lambda m, s: [((), m.own["tokens"])]),
    # Savings
    Family(_COUNTER, "leafgate_tokens_saved", "Tokens that no model had to read.",
           ["by"], lambda m, s: _by_label(m.saved)),
    Family(_COUNTER, "leafgate_tokens_whole", "Tokens of what cards and digests stand for.",
           ["by"],
           lambda m, s: [(("cards",), m.cards["tokens_whole"]), (("digests",), m.digests["tokens_withheld"])]),
    Family(_COUNTER, "leafgate_tokens_shown", "Tokens of the cards and digests themselves.",
           ["by"], lambda m, s: [(("cards",), m.cards["tokens_shown"]), (("digests",), m.digests["tokens_shown"])]),
    Family(_GAUGE, "leafgate_catalog_tools", "Tools in the catalog.", [], lambda m, s: [((), s.tools)]),
)
# fmt: on
