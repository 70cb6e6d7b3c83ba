"""Samples over time: which one an event goes to, what falls out, what a reader gets."""

from __future__ import annotations

from leafgate.ports import LeafReport
from leafgate.telemetry.history import MAX_SERVERS, MINUTES_KEPT, SECONDS_KEPT, History
from leafgate.telemetry.labels import OTHER


class Clock:
    """Stands still until it is set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_events_go_to_their_second_and_their_minute() -> None:
    clock = Clock(6_000.2)
    history = History(clock)
    history.leaf(LeafReport("leaf", 1))
    history.leaf(LeafReport("shim", 1, "negative"))
    clock.now = 6_001.9
    history.leaf(LeafReport("skipped", 0))
    history.call(failed=False)
    history.call(failed=True)
    found = history.as_json()
    first, second = found["seconds"]
    assert (first["t"], first["leaf"], first["shim"], first["rejected"]) == (6_000, 1, 1, 1)
    assert (second["t"], second["skipped"], second["calls"], second["errors"]) == (6_001, 1, 2, 1)
    (minute,) = found["minutes"]
    assert (minute["t"], minute["leaf"], minute["shim"], minute["skipped"], minute["calls"]) == (6_000, 1, 1, 1, 2)
    assert found["now"] == 6_001.9


def test_latency_is_told_by_server() -> None:
    history = History(Clock(0))
    for _ in range(20):
        history.upstream("notes", 0.02, failed=False)
    history.upstream("time", 9.0, failed=True)
    (sample,) = history.as_json()["seconds"]
    assert sample["upstreams"]["notes"]["calls"] == 20
    assert 0.01 < sample["upstreams"]["notes"]["p50"] < sample["upstreams"]["notes"]["p95"] <= 0.025
    assert sample["upstreams"]["time"]["errors"] == 1


def test_a_reader_gets_the_sample_that_it_has_again_and_all_later_ones() -> None:
    clock = Clock(100)
    history = History(clock)
    for second in range(100, 110):
        clock.now = second
        history.call(failed=False)
    assert [sample["t"] for sample in history.as_json(107)["seconds"]] == [107, 108, 109]
    assert [sample["t"] for sample in history.as_json(107)["minutes"]] == [60]
    assert history.as_json(110)["seconds"] == []


def test_old_samples_fall_out() -> None:
    clock = Clock(0)
    history = History(clock)
    for second in range(2 * SECONDS_KEPT):
        clock.now = second
        history.call(failed=False)
    assert len(history.as_json()["seconds"]) == SECONDS_KEPT
    clock.now += 60 * MINUTES_KEPT + 60
    assert history.as_json()["seconds"] == history.as_json()["minutes"] == []


def test_a_clock_that_is_set_back_loses_no_event() -> None:
    clock = Clock(100)
    history = History(clock)
    history.call(failed=False)
    clock.now = 50
    history.call(failed=False)
    (sample,) = history.as_json()["seconds"]
    assert (sample["t"], sample["calls"]) == (100, 2)


def test_servers_without_end_share_one_place() -> None:
    history = History(Clock(0))
    for number in range(3 * MAX_SERVERS):
        history.upstream(f"server-{number}", 0.1, failed=False)
    (sample,) = history.as_json()["seconds"]
    assert len(sample["upstreams"]) == MAX_SERVERS + 1
    assert sample["upstreams"][OTHER]["calls"] == 2 * MAX_SERVERS
