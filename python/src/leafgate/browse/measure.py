"""The quality of a router, measured by queries with known answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Name = tuple[str, str]  # server, tool

FALSE_ALARMS: Final = 0.05


@dataclass(frozen=True)
class GoldQuery:
    """A query and all right answers to it; none if the catalog has no tool for it."""

    query: str
    relevant: frozenset[Name]
    style: str = ""


@dataclass(frozen=True)
class Answer:
    """The router's result for a GoldQuery."""

    gold: GoldQuery
    ranking: tuple[Name, ...]
    confidence: float
    milliseconds: float


def scores(answers: Sequence[Answer]) -> dict[str, float | int]:
    """Return the figures of `leafgate eval` over answerable queries; ranks count up to ten."""
    ranked = [answer for answer in answers if answer.gold.relevant]
    hits = [[name in answer.gold.relevant for name in answer.ranking[:10]] for answer in ranked]
    firsts = [row.index(True) + 1 if True in row else math.inf for row in hits]
    figures: dict[str, float | int] = {"n": len(ranked)}
    for k in (1, 3, 5, 10):
        figures[f"hit@{k}"] = _mean([float(first <= k) for first in firsts])
    figures["recall@5"] = _mean(
        [sum(row[:5]) / min(len(answer.gold.relevant), 5) for row, answer in zip(hits, ranked, strict=True)]
    )
    figures["mrr"] = _mean([1 / first for first in firsts])
    figures["ndcg@10"] = _mean(
        [_gain(row) / _gain([True] * min(len(a.gold.relevant), 10)) for row, a in zip(hits, ranked, strict=True)]
    )
    return figures


def no_match_recall(answers: Sequence[Answer]) -> float | None:
    """Return the share of unanswerable queries below the confidence that 5 % of the answerable ones do not reach."""
    right = sorted(answer.confidence for answer in answers if answer.gold.relevant)
    wrong = [answer.confidence for answer in answers if not answer.gold.relevant]
    if not right or not wrong:
        return None
    threshold = right[math.floor(FALSE_ALARMS * len(right))]
    return _mean([float(confidence < threshold) for confidence in wrong])


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _gain(row: Sequence[bool]) -> float:
    return sum(1 / math.log2(place + 2) for place, hit in enumerate(row) if hit)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
