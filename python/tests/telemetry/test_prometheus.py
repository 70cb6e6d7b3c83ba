"""The page that Prometheus reads, through Prometheus's own parsers."""

from __future__ import annotations

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from leafgate.model.envelope import Origin
from leafgate.model.request import Served
from leafgate.ports import LeafReport
from leafgate.telemetry.metrics import Metrics
from leafgate.telemetry.prometheus import OPENMETRICS, PrometheusPage, Standing

A = "sha256:" + "a" * 64
HOSTILE = 'evil"} 1\nfake_total{x="\\\ud800'


def page(metrics: Metrics, standing: Standing | None = None) -> PrometheusPage:
    return PrometheusPage(metrics, lambda: standing or Standing())


def samples(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and the values of their labels, in the order of the labels' names."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in parse_text(text.decode())
        for sample in family.samples
    }


def busy() -> Metrics:
    metrics = Metrics(lambda: "today", lambda: 0.0)
    metrics.call(Served("00", "tool_browse"), None, 0.002)
    metrics.call(Served("00", "tool_browse"), None, 0.3)
    metrics.call(Served("00", "tool_execute"), "UPSTREAM_TIMEOUT", 70)
    metrics.upstream("notes", None, 0.02)
    metrics.upstream("notes", "UPSTREAM_TIMEOUT", 30)
    metrics.leaf(Origin("notes", "search"), A, LeafReport("shim", 7, "negative", 0.5, 0.25))
    metrics.leaf(Origin("time", "now"), A, LeafReport("leaf", 11, None, 0.5))
    metrics.own_text(A, 30, 0.125)
    metrics.detokenized(A, 3, 1.0)
    metrics.browsed(1_000, 100)
    metrics.shortened(Origin("notes", "export"), 5_000, 300)
    return metrics


def test_every_counter_has_its_value_under_its_standard_name() -> None:
    standing = Standing({"notes": True, "time": False}, {"notes": 4}, 6, {"notes": "open"})
    found = samples(page(busy(), standing)("")[0])
    assert found["leafgate_requests_total", ("tool_browse", "ok")] == 2
    assert found["leafgate_requests_total", ("tool_execute", "UPSTREAM_TIMEOUT")] == 1
    assert found["leafgate_upstream_calls_total", ("UPSTREAM_TIMEOUT", "notes")] == 1
    assert found["leafgate_upstream_up", ("notes",)] == 1
    assert found["leafgate_upstream_up", ("time",)] == 0
    assert found["leafgate_upstream_tools", ("notes",)] == 4
    assert found["leafgate_upstream_breaker", ("open", "notes")] == 1
    assert found["leafgate_leaf_blocks_total", (A, "shim", "notes", "search")] == 1
    assert found["leafgate_leaf_tokens_total", (A, "leaf", "time", "now")] == 11
    assert found["leafgate_leaf_rejected_total", (A, "negative", "notes", "search")] == 1
    assert found["leafgate_leaf_seconds_total", ("tokenize", A, "notes", "search")] == 0.25
    assert found["leafgate_codec_seconds_total", ("verify",)] == 1.0
    assert found["leafgate_codec_seconds_total", ("tokenize",)] == 0.25
    assert found["leafgate_codec_seconds_total", ("own",)] == 0.125
    assert found["leafgate_codec_seconds_total", ("detokenize",)] == 1.0
    assert found["leafgate_detokenize_calls_total", (A,)] == 1
    assert found["leafgate_own_texts_total", ()] == 1
    assert found["leafgate_own_tokens_total", ()] == 30
    assert found["leafgate_tokens_saved_total", ("cards",)] == 900
    assert found["leafgate_tokens_saved_total", ("digests",)] == 4_700
    assert found["leafgate_tokens_whole_total", ("digests",)] == 5_000
    assert found["leafgate_tokens_shown_total", ("cards",)] == 100
    assert found["leafgate_catalog_tools", ()] == 6


def test_calls_have_a_tool_a_principal_and_an_outcome() -> None:
    metrics = Metrics(lambda: "today", lambda: 0.0)
    metrics.call(Served("00", "tool_execute", "notes", "search", "ann"), "tool_error", 0.2)
    metrics.call(Served("00", "tools/call", "notes", "search"), None, 0.2)
    for form in ("", OPENMETRICS):
        text = page(metrics)(form)[0].decode()
        assert (
            'leafgate_tool_calls_total{outcome="tool_error",principal="ann",server="notes",tool="search"} 1.0' in text
        )
        assert 'leafgate_tool_calls_total{outcome="ok",principal="",server="notes",tool="search"} 1.0' in text
        assert 'leafgate_tool_call_duration_seconds_count{server="notes",tool="search"} 2.0' in text


def test_durations_are_histograms_in_seconds() -> None:
    found = samples(page(busy())("")[0])
    assert found["leafgate_request_duration_seconds_bucket", ("0.0025", "tool_browse")] == 1
    assert found["leafgate_request_duration_seconds_bucket", ("0.5", "tool_browse")] == 2
    assert found["leafgate_request_duration_seconds_bucket", ("60.0", "tool_execute")] == 0
    assert found["leafgate_request_duration_seconds_bucket", ("+Inf", "tool_execute")] == 1
    assert found["leafgate_request_duration_seconds_sum", ("tool_browse",)] == pytest.approx(0.302)
    assert found["leafgate_upstream_call_duration_seconds_count", ("notes",)] == 2


def test_this_process_is_told_too() -> None:
    found = samples(page(busy())("")[0])
    assert found["process_resident_memory_bytes", ()] > 1_000_000
    assert math.isfinite(found["process_cpu_seconds_total", ()])


def test_openmetrics_is_for_those_who_ask_for_it() -> None:
    accept = f"{OPENMETRICS};version=1.0.0,text/plain;version=0.0.4;q=0.5"
    text, media_type = page(busy())(accept)
    assert media_type.startswith(OPENMETRICS)
    assert text.endswith(b"# EOF\n")
    families = {family.name: family.type for family in parse_openmetrics(text.decode())}
    assert families["leafgate_requests"] == "counter"
    assert families["leafgate_request_duration_seconds"] == "histogram"


@pytest.mark.parametrize("accept", ["", "*/*", "text/html", "application/json;version=nonsense"])
def test_all_others_get_the_text_format(accept: str) -> None:
    text, media_type = page(busy())(accept)
    assert media_type.startswith("text/plain; version=0.0.4")
    assert b"# EOF" not in text


def test_a_hostile_name_is_one_label_and_nothing_else() -> None:
    metrics = Metrics(lambda: "today")
    metrics.leaf(Origin(HOSTILE, HOSTILE), A, LeafReport("shim", 1))
    metrics.upstream(HOSTILE, None, 0.1)
    metrics.call(Served("00", HOSTILE), None, 0.1)
    standing = Standing({HOSTILE: True}, {HOSTILE: 1}, 1, {HOSTILE: "open"})
    for accept in ("", OPENMETRICS):
        text, _ = page(metrics, standing)(accept)
        families = parse_openmetrics(text.decode()) if accept else parse_text(text.decode())
        names = {sample.name for family in families for sample in family.samples}
        assert "fake_total" not in names
        assert "leafgate_leaf_blocks_total" in names


def test_a_scrape_changes_nothing() -> None:
    metrics = busy()
    made = page(metrics)
    first = samples(made("")[0])
    second = samples(made("")[0])
    assert {key: value for key, value in first.items() if key[0].startswith("leafgate")} == {
        key: value for key, value in second.items() if key[0].startswith("leafgate")
    }


def test_pages_of_two_gateways_in_one_process_are_apart() -> None:
    busy_page, quiet_page = page(busy()), page(Metrics(lambda: "today"))
    assert ("leafgate_requests_total", ("tool_browse", "ok")) in samples(busy_page("")[0])
    assert ("leafgate_requests_total", ("tool_browse", "ok")) not in samples(quiet_page("")[0])
