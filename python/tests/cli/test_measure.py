"""The figures of `leafgate eval`, checked by hand."""

import math

import pytest

from leafgate.cli.routing import Answer, GoldQuery, no_match_recall, percentile, scores

A, B, C = ("s", "a"), ("s", "b"), ("s", "c")


def answer(ranking: tuple[tuple[str, str], ...], *relevant: tuple[str, str], confidence: float = 1.0) -> Answer:
    return Answer(GoldQuery("q", frozenset(relevant)), ranking, confidence, 1.0)


def test_scores() -> None:
    found = scores([answer((A, B, C), A), answer((A, B, C), B, C), answer((A,), C), answer((A,))])
    assert found["n"] == 3
    assert found["hit@1"] == pytest.approx(1 / 3)
    assert found["hit@3"] == pytest.approx(2 / 3)
    assert found["recall@5"] == pytest.approx(2 / 3)
    assert found["mrr"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    second = (1 / math.log2(3) + 1 / math.log2(4)) / (1 + 1 / math.log2(3))
    assert found["ndcg@10"] == pytest.approx((1 + second + 0) / 3)


def test_nothing_to_score() -> None:
    assert scores([])["hit@5"] == 0
    assert percentile([], 0.5) == 0


def test_no_match_recall_allows_one_false_alarm_in_twenty() -> None:
    right = [answer((A,), A, confidence=n / 20) for n in range(20)]
    wrong = [answer((A,), confidence=c) for c in (0.0, 0.02, 0.05, 0.9)]
    assert no_match_recall(right + wrong) == 0.5
    assert no_match_recall(right) is None


def test_percentiles() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50, 99)
