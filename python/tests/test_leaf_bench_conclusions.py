import pytest
from leaf_bench_samples import KB32, figures, samples, weights

from leafgate.cli.leaf_bench.conclusions import conclude, size_words
from leafgate.cli.leaf_bench.figures import Figures

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
    assert sum(one.startswith("Goal met: leaf-decode") for one in words) == 2
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
