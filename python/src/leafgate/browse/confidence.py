"""Says how sure a ranking is. In: what speaks for the best item. Out: a probability, a signal. May touch: nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

Signal = Literal["ok", "ambiguous", "no_match"]


@dataclass(frozen=True)
class Evidence:
    """What speaks for the best item; shares go from 0 to 1."""

    score: float
    margin: float  # its lead over the next
    found: float  # how much of the query's words the catalog knows at all
    size: int  # items in the catalog: the best of many wrong ones looks better than the best of few
    exact: bool  # the query calls it by name
    by_meaning: bool  # whether the score compares meaning, or words only


@dataclass(frozen=True)
class Fit:
    """A logistic regression; python/research/routing/calibrate.py finds these numbers over catalogs of 1 to 10,000."""

    bias: float
    score: float
    found: float
    log_size: float


FUSED: Final = Fit(bias=-3.0, score=17.6, found=4.4, log_size=-1.4)
LEXICAL: Final = Fit(bias=-2.0, score=7.9, found=4.9, log_size=-1.0)
NO_MATCH: Final = 0.3
AMBIGUOUS: Final = 0.03  # of the lead: below it the first is right only about every second time


def judge(evidence: Evidence) -> tuple[float, Signal]:
    """The probability that the catalog can answer at all, and what to make of the ranking."""
    if evidence.exact:
        return 1.0, "ok"
    fit = FUSED if evidence.by_meaning else LEXICAL
    size = math.log10(max(evidence.size, 1))
    odds = fit.bias + fit.score * evidence.score + fit.found * evidence.found + fit.log_size * size
    confidence = 1 / (1 + math.exp(-odds))
    if confidence < NO_MATCH:
        return confidence, "no_match"
    return confidence, "ambiguous" if evidence.margin < AMBIGUOUS else "ok"
