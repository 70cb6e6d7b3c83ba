"""Durations in buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.telemetry.histogram import BOUNDS, Histogram


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
