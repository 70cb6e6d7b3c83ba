import logging
from typing import get_args

import pytest

from leafgate.model.call import Origin
from leafgate.model.errors import ErrorCode
from leafgate.ports import LeafReport
from leafgate.telemetry.metrics import Metrics

TIME, NOTES = Origin("time", "now"), Origin("notes", "search")
A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def test_counts_under_the_names_that_operators_know() -> None:
    metrics = Metrics(lambda: "today")
    metrics.leaf(TIME, A, LeafReport("leaf", 10))
    metrics.leaf(TIME, A, LeafReport("leaf", 5))
    metrics.leaf(NOTES, A, LeafReport("shim", 7))
    metrics.leaf(NOTES, B, LeafReport("shim", 3, "text-mismatch"))
    found = metrics.shim_metrics()
    assert (found["leafBypasses"], found["tokenizeCalls"], found["detokenizeCalls"]) == (2, 2, 0)
    assert found["rejectedLeaves"] == {"text-mismatch": 1}
    assert found["byVocab"][A] == {"tokenizeCalls": 1, "leafBypasses": 2, "rejectedLeaves": 0}
    assert found["byVocab"][B] == {"tokenizeCalls": 1, "leafBypasses": 0, "rejectedLeaves": 1}
    assert found["since"] == "today"
    by_tool = {(row["server"], row["map_id"]): row["tokens"] for row in metrics.as_json()["leaves"]}
    assert by_tool["time", A] == {"leaf": 15}


def test_what_the_gateway_writes_itself_is_no_shim() -> None:
    metrics = Metrics(lambda: "today")
    metrics.own_text(A, 100, 0.001)
    assert metrics.shim_metrics()["tokenizeCalls"] == 0
    assert metrics.as_json()["own"] == {"texts": 1, "tokens": 100}


def test_each_kind_is_logged_once_per_map(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "leafgate.codec")
    metrics = Metrics(lambda: "today")
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
    metrics = Metrics(lambda: "today")
    for code in get_args(ErrorCode):
        metrics.call("tool_execute", code, 0.1)
    found = metrics.as_json()
    assert found["errors"] == dict.fromkeys(get_args(ErrorCode), 1)
    assert set(found["faults"]) == {"caller", "refusal", "upstream"}
    assert sum(found["faults"].values()) == len(get_args(ErrorCode))
