"""What is counted, under which names, and that no server can make it grow."""

from __future__ import annotations

import logging
from typing import get_args

import pytest

from leafgate.model.call import Origin
from leafgate.model.errors import ErrorCode
from leafgate.model.served import Served
from leafgate.ports import LeafReport
from leafgate.telemetry.labels import OTHER
from leafgate.telemetry.metrics import MAX_OPERATIONS, MAX_SERVERS, Metrics

TIME, NOTES = Origin("time", "now"), Origin("notes", "search")
A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def made() -> Metrics:
    return Metrics(lambda: "today", lambda: 1000.0)


def test_counts_under_the_names_that_operators_know() -> None:
    metrics = made()
    metrics.leaf(TIME, A, LeafReport("leaf", 10))
    metrics.leaf(TIME, A, LeafReport("leaf", 5))
    metrics.leaf(NOTES, A, LeafReport("shim", 7))
    metrics.leaf(NOTES, B, LeafReport("shim", 3, "text-mismatch"))
    metrics.detokenized(A, 4, 0.25)
    found = metrics.shim_metrics()
    assert (found["leafBypasses"], found["tokenizeCalls"], found["detokenizeCalls"]) == (2, 2, 1)
    assert found["rejectedLeaves"] == {"text-mismatch": 1}
    vocab = found["byVocab"]
    assert vocab[A] == {"detokenizeCalls": 1, "tokenizeCalls": 1, "leafBypasses": 2, "rejectedLeaves": 0}
    assert vocab[B] == {"detokenizeCalls": 0, "tokenizeCalls": 1, "leafBypasses": 0, "rejectedLeaves": 1}
    assert found["since"] == "today"
    by_tool = {(row["server"], row["map_id"]): row["tokens"] for row in metrics.as_json()["leaves"]}
    assert by_tool["time", A] == {"leaf": 15}


def test_arguments_may_be_all_that_a_map_was_used_for() -> None:
    metrics = made()
    metrics.detokenized(B, 4, 0.25)
    assert metrics.shim_metrics()["byVocab"][B]["detokenizeCalls"] == 1
    assert metrics.as_json()["codec_seconds"]["detokenize"] == 0.25


def test_what_the_gateway_writes_itself_is_no_shim() -> None:
    metrics = made()
    metrics.own_text(A, 100, 0.001)
    assert metrics.shim_metrics()["tokenizeCalls"] == 0
    assert metrics.as_json()["own"] == {"texts": 1, "tokens": 100}
    assert metrics.as_json()["codec_seconds"] == {"verify": 0, "tokenize": 0, "own": 0.001, "detokenize": 0}


def test_the_time_of_the_codec_is_told_by_what_it_was_spent_on() -> None:
    metrics = made()
    metrics.leaf(TIME, A, LeafReport("leaf", 10, verify_seconds=0.5))
    metrics.leaf(NOTES, A, LeafReport("shim", 10, "negative", verify_seconds=0.25, tokenize_seconds=2))
    assert metrics.as_json()["codec_seconds"] == {"verify": 0.75, "tokenize": 2, "own": 0, "detokenize": 0}


def test_each_kind_is_logged_once_per_map(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "leafgate.codec")
    metrics = made()
    for _ in range(3):
        metrics.leaf(TIME, A, LeafReport("leaf", 1))
        metrics.leaf(NOTES, A, LeafReport("shim", 1))
        metrics.leaf(NOTES, A, LeafReport("shim", 1, "special-id"))
    metrics.leaf(NOTES, A, LeafReport("shim", 1, "unknown-id"))
    told = [(record.levelname, record.getMessage()[:13]) for record in caplog.records]
    assert told == [
        ("INFO", "[Codec][leaf]"),
        ("WARNING", "[Codec][shim]"),
        ("WARNING", "[Codec][leaf]"),
        ("WARNING", "[Codec][leaf]"),
    ]


def test_every_error_is_counted_by_whose_fault_it_is() -> None:
    metrics = made()
    for code in get_args(ErrorCode):
        metrics.call(Served("00", "tool_execute"), code, 0.1)
    metrics.call(Served("00", "tool_execute"), None, 0.1)
    found = metrics.as_json()
    assert found["calls"] == {"tool_execute": len(get_args(ErrorCode)) + 1}
    assert found["errors"] == dict.fromkeys(get_args(ErrorCode), 1)
    assert set(found["faults"]) == {"caller", "refusal", "upstream"}
    assert sum(found["faults"].values()) == len(get_args(ErrorCode))


def test_a_failed_request_is_remembered_and_a_good_one_is_not() -> None:
    metrics = made()
    metrics.call(Served("00000001", "tool_browse"), None, 0.1)
    metrics.call(Served("00000002", "tool_execute", "notes"), "UPSTREAM_TIMEOUT", 0.1)
    (kept,) = metrics.as_json()["recent_errors"]
    assert kept == {
        "t": 1000.0,
        "correlation_id": "00000002",
        "operation": "tool_execute",
        "server": "notes",
        "code": "UPSTREAM_TIMEOUT",
        "fault": "upstream",
    }


def test_a_servers_calls_and_how_long_they_took() -> None:
    metrics = made()
    for _ in range(99):
        metrics.upstream("notes", None, 0.004)
    metrics.upstream("notes", "UPSTREAM_TIMEOUT", 20)
    told = metrics.as_json()["upstream_calls"]["notes"]
    assert (told["calls"], told["errors"]) == (100, 1)
    assert told["outcomes"] == {"ok": 99, "UPSTREAM_TIMEOUT": 1}
    assert 0.0025 < told["seconds"]["p50"] < told["seconds"]["p95"] <= 0.005


def test_what_cards_and_digests_save() -> None:
    metrics = made()
    metrics.browsed(1_000, 100)
    metrics.browsed(1_000, 150)
    metrics.shortened(NOTES, 50_000, 300)
    found = metrics.as_json()
    assert found["tokens_saved"] == {"cards": 1_750, "digests": 49_700}
    assert found["cards"] == {"browses": 2, "tokens_whole": 2_000, "tokens_shown": 250}
    assert found["shortened"] == {"texts": 1, "tokens_withheld": 50_000, "tokens_shown": 300}


def test_a_page_larger_than_all_definitions_saves_nothing_and_takes_nothing_back() -> None:
    metrics = made()
    metrics.browsed(1_000, 100)
    metrics.browsed(50, 120)
    assert metrics.as_json()["tokens_saved"]["cards"] == 900
    assert metrics.as_json()["cards"]["tokens_shown"] == 220


def test_names_without_end_do_not_grow_the_counters() -> None:
    metrics = made()
    for number in range(3 * MAX_SERVERS):
        metrics.upstream(f"server-{number}", None, 0.1)
        metrics.call(Served("00", f"operation-{number}"), None, 0.1)
        metrics.detokenized(f"sha256:{number}", 1, 0.1)
    found = metrics.as_json()
    assert len(found["upstream_calls"]) == MAX_SERVERS + 1
    assert found["upstream_calls"][OTHER]["calls"] == 2 * MAX_SERVERS
    assert found["calls"][OTHER] == 3 * MAX_SERVERS - MAX_OPERATIONS
    assert found["codec"]["detokenizeCalls"] == 3 * MAX_SERVERS
    assert len(found["codec"]["byVocab"]) == MAX_SERVERS + 1


def test_the_summary_has_no_row_per_tool() -> None:
    metrics = made()
    metrics.leaf(TIME, A, LeafReport("leaf", 10))
    assert set(metrics.as_json()) - set(metrics.summary()) == {"leaves"}
