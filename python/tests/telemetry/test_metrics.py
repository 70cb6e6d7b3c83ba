"""What is counted, under which names, and that no server can make it grow."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import get_args

import anyio
import pytest
from redis_server import RedisServer

from leafgate.model.envelope import Origin
from leafgate.model.errors import ErrorCode, StoreError
from leafgate.model.request import Served
from leafgate.ports import CallEnd, Counts, LeafReport
from leafgate.state.redis import RedisLink, RedisSharedCounts
from leafgate.state.sqlite import SqliteSharedCounts
from leafgate.state.sqlite_file import SqliteFile
from leafgate.telemetry.counters import LONGEST, MAX_CALL_ROWS, MAX_PRINCIPALS, MAX_TIMED_TOOLS, OTHER
from leafgate.telemetry.metrics import MAX_ERRORS, MAX_OPERATIONS, MAX_SERVERS, CountSync, Metrics

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
        metrics.leaf(NOTES, A, LeafReport("shim", 1, tokenize_seconds=2, leaf_seconds=0.5))
        metrics.leaf(NOTES, A, LeafReport("shim", 1, "special-id"))
    metrics.leaf(NOTES, A, LeafReport("shim", 1, "unknown-id"))
    told = [(record.levelname, record.getMessage()[:13]) for record in caplog.records]
    assert told == [
        ("INFO", "[Codec][leaf]"),
        ("WARNING", "[Codec][shim]"),
        ("WARNING", "[Codec][leaf]"),
        ("WARNING", "[Codec][leaf]"),
    ]


def test_the_log_advises_leaves_only_where_they_would_save_something(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "leafgate.codec")
    made().leaf(NOTES, A, LeafReport("shim", 1, tokenize_seconds=2, leaf_seconds=0.5))
    made().leaf(NOTES, A, LeafReport("shim", 1, tokenize_seconds=2, leaf_seconds=2.5))
    made().leaf(NOTES, A, LeafReport("shim", 1, tokenize_seconds=2))
    saves, costs = caplog.records
    assert (saves.levelname, "would save 75 %" in saves.getMessage()) == ("WARNING", True)
    assert (costs.levelname, "save" in costs.getMessage()) == ("INFO", False)


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
    assert set(metrics.as_json()) - set(metrics.summary()) == {"leaves", "tool_calls"}


def called(metrics: Metrics, tool: str, end: CallEnd = None, principal: str | None = None) -> None:
    metrics.call(Served("00", "tool_execute", "notes", tool, principal), end, 0.1)


def test_the_error_of_a_tool_is_a_failure_and_not_one_of_the_gateway() -> None:
    metrics = made()
    called(metrics, "search")
    called(metrics, "search", "tool_error")
    called(metrics, "search", "UPSTREAM_TIMEOUT")
    metrics.upstream("notes", "tool_error", 0.1)
    found = metrics.as_json()
    assert found["errors"] == {"tool_error": 1, "UPSTREAM_TIMEOUT": 1}
    assert found["faults"] == {"tool": 1, "upstream": 1}
    assert [error["code"] for error in found["recent_errors"]] == ["UPSTREAM_TIMEOUT", "tool_error"]
    assert found["recent_errors"][1] | {"t": 0} == {
        "t": 0,
        "correlation_id": "00",
        "operation": "tool_execute",
        "server": "notes",
        "tool": "search",
        "code": "tool_error",
        "fault": "tool",
    }
    (row,) = found["tool_calls"]
    assert (row["calls"], row["errors"], row["outcomes"]["tool_error"]) == (3, 2, 1)
    upstream = found["upstream_calls"]["notes"]
    assert (upstream["errors"], upstream["tool_errors"]) == (1, 1)


def test_calls_are_counted_by_tool_and_principal_and_views_are_not_calls() -> None:
    metrics = made()
    called(metrics, "search", principal="ann")
    called(metrics, "search", principal="ben")
    called(metrics, "export")
    metrics.call(Served("00", "tool_view", "notes", "search"), None, 0.1)
    rows = {(row["tool"], row.get("principal")): row["calls"] for row in metrics.as_json()["tool_calls"]}
    assert rows == {("search", "ann"): 1, ("search", "ben"): 1, ("export", None): 1}


def test_tools_and_principals_without_end_share_rows() -> None:
    metrics = made()
    for number in range(2 * MAX_CALL_ROWS):
        called(metrics, f"tool-{number}", principal=f"user-{number}")
        called(metrics, "search", principal=f"user-{number}")
        metrics.call(Served("00", "tools/call", f"server-{number}", "x\n" * 500), None, 0.1)
    rows = metrics.tool_calls.rows
    assert len(rows) <= MAX_CALL_ROWS + 1
    assert sum(outcomes.total() for outcomes in rows.values()) == 6 * MAX_CALL_ROWS
    assert len({principal for _, _, principal in rows}) <= MAX_PRINCIPALS + 2
    assert len(metrics.tool_calls.durations) <= MAX_TIMED_TOOLS + 1
    assert all(len(name) <= LONGEST and name.isprintable() for row in rows for name in row)


pytestmark = pytest.mark.anyio

MAP = "sha256:" + "0" * 64


def count(metrics: Metrics, times: int = 1) -> None:
    for _ in range(times):
        metrics.leaf(Origin("disk", "read"), MAP, LeafReport("leaf", 10))
        metrics.detokenized(MAP, 5, 0.1)


def told(metrics: Metrics) -> tuple[int, int, int]:
    codec = metrics.as_json()["codec"]
    return codec["leafBypasses"], codec["detokenizeCalls"], codec["byVocab"].get(MAP, {}).get("leafBypasses", 0)


async def test_a_later_process_goes_on_counting(tmp_path: Path) -> None:
    for run in range(3):
        file = SqliteFile(tmp_path / "state.db")
        metrics = Metrics(lambda run=run: f"day {run}")  # type: ignore[misc]
        kept = CountSync(metrics, SqliteSharedCounts(file))
        await kept.sync()
        assert told(metrics) == (2 * run,) * 3
        count(metrics, 2)
        assert told(metrics) == (2 * run + 2,) * 3
        for _ in range(2):
            await kept.sync()
        assert told(metrics) == (2 * run + 2,) * 3
        assert metrics.as_json()["codec"]["since"] == "day 0"
        assert metrics.leaves.by_map[MAP].blocks["leaf"] == 2  # its own, for Prometheus
        await file.close()


async def test_replicas_know_of_each_other(redis: RedisServer) -> None:
    links = [RedisLink(redis.url) for _ in range(2)]
    replicas = [Metrics(lambda: "today") for _ in links]
    keeping = [
        CountSync(metrics, RedisSharedCounts(link), pause_seconds=0.02)
        for metrics, link in zip(replicas, links, strict=True)
    ]
    async with anyio.create_task_group() as group:
        for each in keeping:
            group.start_soon(each.run)
        count(replicas[0], 3)
        count(replicas[1], 4)
        with anyio.fail_after(60):
            while [told(metrics) for metrics in replicas] != [(7, 7, 7)] * 2:
                await keeping[0].sync()
        group.cancel_scope.cancel()
    for link in links:
        await link.close()


async def test_a_store_that_fails_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Moody(SqliteSharedCounts):
        fails = True

        async def add(self, counts: Counts, since: str) -> None:
            if self.fails:
                raise StoreError("not today")
            await super().add(counts, since)

    file = SqliteFile(tmp_path / "state.db")
    store, metrics = Moody(file), Metrics(lambda: "today")
    kept = CountSync(metrics, store)
    for _ in range(3):
        count(metrics)
        await kept.sync()
    assert told(metrics) == (3, 3, 3)
    assert caplog.text.count("not today") == 1
    store.fails = False
    await kept.sync()
    sums, _ = await store.sums()
    assert sums["detokenized", MAP] == 3
    await file.close()


def test_the_latest_comes_first_and_old_ones_fall_out() -> None:
    metrics = made()
    for number in range(MAX_ERRORS + 10):
        metrics.call(Served(f"{number:08x}", "tool_execute"), "ARGS_INVALID", 0.1)
    found = metrics.summary()["recent_errors"]
    assert len(found) == MAX_ERRORS
    assert found[0]["correlation_id"] == f"{MAX_ERRORS + 9:08x}"
    assert found[-1]["correlation_id"] == f"{10:08x}"


def test_a_servers_name_is_made_fit_to_be_shown() -> None:
    metrics = made()
    metrics.call(Served("00", "tool_execute", "a\nb"), "UPSTREAM_ERROR", 0.1)
    [error] = metrics.summary()["recent_errors"]
    assert error["server"] == "a\N{REPLACEMENT CHARACTER}b"
    assert error["fault"] == "upstream"
