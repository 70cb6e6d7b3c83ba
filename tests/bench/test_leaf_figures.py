"""The figures of the leaf benchmark, and the sentences that it concludes with."""

import pytest
from leaf.figures import Figures, conclude, size_words, spread, summarize
from leaf_samples import KB32, figures, samples, weights


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
    assert {goal.way.key for goal in slow.goals()} == {"leaf-decode", "leaf-packed"}
    assert {goal.against.key for goal in slow.goals()} == {"shim-tiktoken"}


def test_packed_leaves_have_goals_from_4_kb_on_against_both_shims() -> None:
    found = figures(1024, 4096, KB32, 100 * 1024, leaf_packed=2.4, shim_tiktoken=4.0, shim_accelerated=2.4)
    goals = [goal for goal in found.goals() if goal.way.key == "leaf-packed"]
    assert [(goal.size // 1024, goal.against.key, goal.most, goal.is_met) for goal in goals] == [
        (4, "shim-tiktoken", 0.6, True),
        (32, "shim-tiktoken", 0.6, True),
        (100, "shim-tiktoken", 0.35, False),
        (4, "shim-accelerated", 1.0, True),
        (32, "shim-accelerated", 1.0, True),
        (100, "shim-accelerated", 1.0, True),
    ]


@pytest.mark.parametrize(
    ("packed", "verdict"), [(2.0, "costs less than"), (9.0, "costs more than"), (4.0, "costs what")]
)
def test_the_summary_says_what_came_of_it(packed: float, verdict: str) -> None:
    words = summarize(figures(leaf_packed=packed))
    assert any(f"leaf-decode packed {verdict} the shim" in one for one in words)
    assert words[0].startswith(
        f"**Goals of packed leaves: {2 if packed < 3 else 1 if packed < 5 else 0} of 2 are met.**"
    )


def test_nothing_is_divided_by_nothing() -> None:
    assert figures(shim_tiktoken=0.0, leaf_decode=1.0).ratio(KB32, "leaf-decode", "codec").median > 1000


def test_one_round_has_no_spread() -> None:
    assert spread([3.0]) == spread([3.0, 3.0])


def test_bytes_are_told_against_plain_json_with_gzip() -> None:
    found = weights(text_json_gzip=400, both_json=1000)
    assert found.ratio(KB32, "both", "json") == 2.5
    assert found.ratio(KB32, "text", "json+gzip") == 1


WINS = "leaf-decode against shim (tiktoken), the gateway's CPU for the whole call"


def sentence(words: list[str], start: str) -> str:
    (found,) = [one for one in words if one.startswith(start)]
    return found


def test_it_says_where_leaf_wins() -> None:
    assert sentence(conclude(figures(leaf_decode=2.0), weights()), WINS).endswith(": wins at 32 KB (0.50x).")


def test_it_says_where_leaf_loses() -> None:
    assert sentence(conclude(figures(leaf_decode=6.0), weights()), WINS).endswith(": LOSES at 32 KB (1.50x).")


@pytest.mark.parametrize("decode", [4.1, 3.9])
def test_what_is_near_is_a_draw(decode: float) -> None:
    assert sentence(conclude(figures(leaf_decode=decode), weights()), WINS).endswith(": is a draw at 32 KB.")


def test_rounds_on_both_sides_are_a_draw_however_far_the_median_is() -> None:
    rounds = [samples(leaf_decode=ms) for ms in (2.0, 2.0, 3.0, 9.0, 9.0)]
    assert sentence(conclude(Figures(rounds), weights()), WINS).endswith(": is a draw at 32 KB.")


def test_each_size_is_told_apart() -> None:
    mixed = Figures([[*samples(100, leaf_decode=8.0), *samples(KB32, leaf_decode=1.0)]])
    told = sentence(conclude(mixed, weights(100, KB32)), WINS)
    assert "wins at 32 KB (0.25x); LOSES at 100 B (2.00x)" in told


def test_met_and_missed_goals_are_both_told() -> None:
    words = conclude(figures(leaf_decode=1.0, leaf_canonical_accelerated=3.0), weights())
    assert sum(one.startswith("Goal met: leaf-decode,") for one in words) == 2
    assert sum(one.startswith("Goal MISSED: leaf-canonical (accelerated)") for one in words) == 2


def test_few_rounds_are_told_first() -> None:
    assert conclude(figures(rounds=1), weights())[0].startswith("Rounds: 1.")
    assert not [one for one in conclude(figures(rounds=3), weights()) if one.startswith("Rounds:")]


def test_the_floor_is_told() -> None:
    assert sentence(conclude(figures(no_ids=1.6), weights()), "The same call without any ids is 0.40x")


def test_ids_that_nobody_asked_for_are_told_where_they_cost() -> None:
    start = "A leaf server costs also those who want no ids"
    assert "2.00x" in sentence(conclude(figures(no_ids=2.0, leaf_unasked=4.0), weights()), start)
    assert not [one for one in conclude(figures(), weights()) if one.startswith(start)]


@pytest.mark.parametrize(("packed", "verdict"), [(500, "win against"), (1000, "draw with"), (1200, "LOSE to")])
def test_bytes_are_compared_like_with_like(packed: int, verdict: str) -> None:
    told = sentence(
        conclude(figures(), weights(ids_msgpack_gzip=packed, ids_msgpack_zstd=packed)), "Bytes at 32 KB, to plain JSON"
    )
    assert f"ids alone ({packed / 1000:.2f}x) {verdict} the text alone (1.00x)" in told


def test_without_the_faster_tokenizer_nothing_is_said_of_it() -> None:
    slow = Figures([[one for one in samples() if "accelerated" not in one.way]])
    assert not [one for one in conclude(slow, weights()) if "accelerated" in one]


@pytest.mark.parametrize(
    ("size", "words"), [(100, "100 B"), (1000, "1000 B"), (1024, "1 KB"), (102_400, "100 KB"), (1 << 20, "1 MB")]
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert size_words(size) == words
