import pytest
from leaf_bench_samples import KB32, figures, samples, weights

from leafgate.cli.leaf_bench.figures import Figures, spread


def test_a_value_is_the_median_over_the_rounds_with_its_quarters() -> None:
    found = Figures([samples(leaf_decode=ms) for ms in (1.0, 2.0, 3.0, 4.0, 100.0)])
    cost = found.value(KB32, "leaf-decode", "gateway_cpu")
    assert (cost.median, cost.low, cost.high) == pytest.approx((0.003, 0.002, 0.004))


def test_a_ratio_is_taken_within_each_round() -> None:
    found = Figures([samples(slow=slow, leaf_decode=2.0) for slow in (1.0, 7.0, 0.2)])
    ratio = found.ratio(KB32, "leaf-decode", "gateway_cpu")
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((0.5, 0.5, 0.5))


def test_both_processes_together_are_the_total() -> None:
    assert figures(leaf_trust=3.0).value(KB32, "leaf-trust", "total_cpu").median == pytest.approx(0.004)


def test_what_ids_cost_is_beyond_the_call_without_them_and_may_be_below_nothing() -> None:
    found = figures(no_ids=3.0, shim_tiktoken=5.0, leaf_trust=2.5)
    assert found.ids_cpu(KB32, "shim-tiktoken").median == pytest.approx(0.002)
    assert found.ids_cpu(KB32, "leaf-trust").median == pytest.approx(-0.0005)


@pytest.mark.parametrize(("decode", "met"), [(1.0, True), (1.01, False), (8.0, False)])
def test_a_goal_is_met_up_to_its_bound(decode: float, met: bool) -> None:
    goals = [goal for goal in figures(leaf_decode=decode, shim_tiktoken=4.0).goals() if goal.way.key == "leaf-decode"]
    assert [goal.is_met for goal in goals] == [met, met]
    assert [goal.as_json()["measure"] for goal in goals] == ["codec", "gateway_cpu"]


def test_there_are_no_goals_where_their_size_or_way_was_not_measured() -> None:
    assert figures(100).goals() == []
    slow = Figures([[one for one in samples() if "accelerated" not in one.way]])
    assert {goal.way.key for goal in slow.goals()} == {"leaf-decode"}


def test_nothing_is_divided_by_nothing() -> None:
    assert figures(shim_tiktoken=0.0, leaf_decode=1.0).ratio(KB32, "leaf-decode", "codec").median > 1000


def test_one_round_has_no_spread() -> None:
    assert spread([3.0]) == spread([3.0, 3.0])


def test_bytes_are_told_against_plain_json_with_gzip() -> None:
    found = weights(text_json_gzip=400, both_json=1000)
    assert found.ratio(KB32, "both", "json") == 2.5
    assert found.ratio(KB32, "text", "json+gzip") == 1
