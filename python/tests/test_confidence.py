"""How sure a ranking is."""

from dataclasses import replace

import pytest

from leafgate.browse.confidence import Evidence, judge

CLEAR = Evidence(score=0.7, margin=0.2, found=1.0, size=300, exact=False, by_meaning=True)


def test_the_three_signals() -> None:
    assert judge(CLEAR)[1] == "ok"
    assert judge(replace(CLEAR, margin=0.0))[1] == "ambiguous"
    assert judge(replace(CLEAR, score=0.1, found=0.0))[1] == "no_match"


def test_a_name_is_certain() -> None:
    assert judge(replace(CLEAR, score=1.0, margin=0.0, found=0.0, exact=True)) == (1.0, "ok")


@pytest.mark.parametrize("size", [1, 10, 300, 10_000, 1_000_000])
def test_more_evidence_never_lowers_confidence(size: int) -> None:
    told = [
        judge(replace(CLEAR, score=score, found=found, size=size))[0] for found in (0, 0.5, 1) for score in (0, 0.3, 1)
    ]
    assert all(0 <= confidence <= 1 for confidence in told)
    assert told[0] <= told[1] <= told[2]
    assert told[0] <= told[3] <= told[6]


def test_the_best_of_many_must_be_better_than_the_best_of_few() -> None:
    weak = replace(CLEAR, score=0.25, found=0.4)
    assert judge(replace(weak, size=10_000))[0] < judge(replace(weak, size=10))[0]
