"""The counters as Prometheus reads them. In: Metrics, and how the gateway stands. Out: a page in either text format.

Touches this process's own statistics. A registry of its own: nothing else in the process can add to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from leafgate.telemetry.histogram import Histogram
from leafgate.telemetry.labels import label
from leafgate.telemetry.metrics import Metrics
from leafgate.version import __version__

OPENMETRICS: Final = "application/openmetrics-text"

# Label values, and the value of the series.
Series: TypeAlias = Iterable[tuple[Sequence[str], float]]


@dataclass(frozen=True)
class Standing:
    """What is so at this moment: which servers are up, what each offers, how breakers stand."""

    up: Mapping[str, bool] = field(default_factory=dict)
    tools_by_server: Mapping[str, int] = field(default_factory=dict)
    tools: int = 0
    breakers: Mapping[str, str] = field(default_factory=dict)


class PrometheusPage:
    """Answers scrapes."""

    def __init__(self, metrics: Metrics, standing: Callable[[], Standing]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Families(metrics, standing))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def __call__(self, accept: str) -> tuple[bytes, str]:
        """The page and its media type: OpenMetrics for those who ask for it, else the format that all can read."""
        if OPENMETRICS in accept:
            page: bytes = openmetrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]  # the library's
            return page, openmetrics.CONTENT_TYPE_LATEST
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4


class _Families(Collector):
    """Made anew at every scrape: nothing is counted twice."""

    def __init__(self, metrics: Metrics, standing: Callable[[], Standing]) -> None:
        self._metrics = metrics
        self._standing = standing

    def describe(self) -> Iterable[Metric]:
        return ()  # else the registry would collect once at the start, to learn the names

    def collect(self) -> Iterable[Metric]:
        standing = self._standing()
        yield _gauge("leafgate_build_info", "The version that runs.", ["version"], [([__version__], 1)])
        yield from _requests(self._metrics)
        yield from _upstreams(self._metrics, standing)
        yield from _leaves(self._metrics)
        yield from _codec(self._metrics)
        yield from _savings(self._metrics)
        yield _gauge("leafgate_catalog_tools", "Tools in the catalog.", [], [([], standing.tools)])


def _requests(metrics: Metrics) -> Iterable[Metric]:
    yield _counter(
        "leafgate_requests",
        "Requests of clients, by how they ended: ok, or the code of the error.",
        ["operation", "outcome"],
        metrics.requests.items(),
    )
    yield _histogram("leafgate_request_duration_seconds", "How long requests took.", ["operation"], metrics.durations)


def _upstreams(metrics: Metrics, standing: Standing) -> Iterable[Metric]:
    outcomes = [
        ((server, outcome), times)
        for server, counts in metrics.upstreams.items()
        for outcome, times in counts.outcomes.items()
    ]
    durations = {server: counts.durations for server, counts in metrics.upstreams.items()}
    breakers = [((label(server), phase), 1) for server, phase in standing.breakers.items()]
    up = [([label(server)], int(is_up)) for server, is_up in standing.up.items()]
    tools = [([label(server)], count) for server, count in standing.tools_by_server.items()]
    called = "Requests to a server, every attempt, by how they ended."
    took = "How long a server took to answer, every attempt."
    yield _counter("leafgate_upstream_calls", called, ["server", "outcome"], outcomes)
    yield _histogram("leafgate_upstream_call_duration_seconds", took, ["server"], durations)
    yield _gauge("leafgate_upstream_up", "Whether a server is connected.", ["server"], up)
    yield _gauge("leafgate_upstream_tools", "Tools that a server lists.", ["server"], tools)
    yield _gauge("leafgate_upstream_breaker", "The phase of a server's breaker.", ["server", "phase"], breakers)


def _leaves(metrics: Metrics) -> Iterable[Metric]:
    names = ["server", "tool", "map", "outcome"]
    rows = [*metrics.leaves.rows()]
    blocks = [((*row, outcome), times) for row, counts in rows for outcome, times in counts.blocks.items()]
    tokens = [((*row, outcome), count) for row, counts in rows for outcome, count in counts.tokens.items()]
    rejected = [((*row, reason), times) for row, counts in rows for reason, times in counts.reasons.items()]
    yield _counter("leafgate_leaf_blocks", "Text blocks of results: leaf, shim or skipped.", names, blocks)
    yield _counter("leafgate_leaf_tokens", "Tokens of those blocks.", names, tokens)
    yield _counter("leafgate_leaf_rejected", "Leaves that were dropped.", [*names[:3], "reason"], rejected)
    spent = [((*row, kind), seconds) for row, counts in rows for kind, seconds in counts.seconds().items() if seconds]
    told = "CPU time spent checking leaves (verify) and tokenizing (tokenize) those blocks."
    yield _counter("leafgate_leaf_seconds", told, [*names[:3], "kind"], spent)


def _codec(metrics: Metrics) -> Iterable[Metric]:
    seconds = [([kind], spent) for kind, spent in metrics.codec_seconds.items()]
    calls = [([digest], times) for digest, times in metrics.detokenized_by_map.items()]
    spent = "Time spent checking leaves (verify), tokenizing results (tokenize) and own texts (own), and detokenizing."
    yield _counter("leafgate_codec_seconds", spent, ["kind"], seconds)
    yield _counter("leafgate_detokenize_calls", "Arguments that came as ids.", ["map"], calls)
    yield _counter("leafgate_own_texts", "Texts without leaves that were tokenized.", [], [([], metrics.own["texts"])])
    yield _counter("leafgate_own_tokens", "Tokens of those texts.", [], [([], metrics.own["tokens"])])


def _savings(metrics: Metrics) -> Iterable[Metric]:
    cards, digests = metrics.cards, metrics.digests
    saved = [([by], tokens) for by, tokens in metrics.saved.items()]
    whole = [(["cards"], cards["tokens_whole"]), (["digests"], digests["tokens_withheld"])]
    shown = [(["cards"], cards["tokens_shown"]), (["digests"], digests["tokens_shown"])]
    yield _counter("leafgate_tokens_saved", "Tokens that no model had to read.", ["by"], saved)
    yield _counter("leafgate_tokens_whole", "Tokens of what cards and digests stand for.", ["by"], whole)
    yield _counter("leafgate_tokens_shown", "Tokens of the cards and digests themselves.", ["by"], shown)


def _counter(name: str, told: str, names: list[str], series: Series) -> Metric:
    family = CounterMetricFamily(name, told, labels=names)
    for labels, value in series:
        family.add_metric(labels, value)
    return family


def _gauge(name: str, told: str, names: list[str], series: Series) -> Metric:
    family = GaugeMetricFamily(name, told, labels=names)
    for labels, value in series:
        family.add_metric(labels, value)
    return family


def _histogram(name: str, told: str, names: list[str], values: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, told, labels=names)
    for first, histogram in values.items():
        family.add_metric([first], buckets=histogram.cumulative(), sum_value=histogram.seconds)
    return family
