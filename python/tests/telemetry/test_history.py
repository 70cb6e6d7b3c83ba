"""Samples over time: which one an event goes to, what falls out, what a reader gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.ports import LeafReport
from leafgate.telemetry.counters import (
    BOUNDS,
    LONGEST,
    MAX_SERVERS,
    MINUTES_KEPT,
    OTHER,
    SECONDS_KEPT,
    Histogram,
    History,
    label,
)


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


def filled(*durations: float) -> Histogram:
    histogram = Histogram()
    for seconds in durations:
        histogram.add(seconds)
    return histogram


def test_a_bound_belongs_to_its_own_bucket() -> None:
    assert filled(BOUNDS[0]).counts[0] == 1
    assert filled(BOUNDS[0] * 1.001).counts[1] == 1
    assert filled(BOUNDS[-1] + 1).counts[-1] == 1


def test_the_cumulative_form_ends_with_everything() -> None:
    rows = filled(0.0001, 0.003, 5, 1_000).cumulative()
    assert [bound for bound, _ in rows][-1] == "+Inf"
    assert rows[0] == ("0.001", 1)
    assert rows[-2:] == [("60.0", 3), ("+Inf", 4)]


def test_of_nothing_there_is_no_quantile() -> None:
    assert Histogram().quantile(0.5) is None


def test_a_quantile_lies_in_the_bucket_that_holds_it() -> None:
    histogram = filled(*[0.004] * 90, *[0.2] * 10)
    assert histogram.quantile(0.5) == pytest.approx(0.0025 + 0.0025 * 50 / 90)
    p95 = histogram.quantile(0.95)
    assert p95 is not None
    assert 0.1 < p95 <= 0.25


def test_beyond_the_last_bound_the_last_bound_is_told() -> None:
    assert filled(1_000).quantile(0.95) == BOUNDS[-1]


@given(st.lists(st.floats(0, 1_000), min_size=1), st.floats(0, 1))
def test_quantiles_grow_with_their_share(durations: list[float], share: float) -> None:
    histogram = filled(*durations)
    low, high = histogram.quantile(share / 2), histogram.quantile(share)
    assert low is not None
    assert high is not None
    assert 0 <= low <= high <= BOUNDS[-1]
    assert histogram.total == len(durations) == histogram.cumulative()[-1][1]


def test_an_ordinary_name_stays_as_it_is() -> None:
    assert label("get_current_time") == "get_current_time"
    assert label("Straße läuft") == "Straße läuft"
    assert label("n" * LONGEST) == "n" * LONGEST


def test_what_cannot_be_shown_is_marked() -> None:
    assert label('a\nb"\\') == 'a\N{REPLACEMENT CHARACTER}b"\\'
    assert label("\ud800\u202e\x00") == "\N{REPLACEMENT CHARACTER}" * 3


def test_a_long_name_is_cut_and_says_so() -> None:
    assert label("n" * (LONGEST + 1)) == "n" * (LONGEST - 1) + "…"


@given(st.text(st.characters(), max_size=300))
def test_every_name_can_be_written_and_naming_twice_changes_nothing(name: str) -> None:
    shown = label(name)
    assert len(shown) <= LONGEST
    assert "\n" not in shown
    assert label(shown) == shown
    shown.encode()
