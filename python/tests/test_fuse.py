"""Words and meaning joined: what each may decide."""

import numpy as np

from leafgate.browse.fuse import fuse, lexical_share


def floats(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_a_share_is_measured_against_the_query() -> None:
    assert lexical_share(floats(0, 2, 9), 4).tolist() == [0, 0.5, 1]
    assert lexical_share(floats(0, 0), 0).tolist() == [0, 0]


def test_without_meaning_words_decide() -> None:
    assert fuse(floats(0.2, 0.4), None).tolist() == floats(0.2, 0.4).tolist()


def test_scores_stay_between_0_and_1() -> None:
    assert fuse(floats(1, 0, 0), floats(1, -1, 0)).tolist() == [1, 0, 0]


def test_weak_words_give_way_to_meaning_and_strong_ones_do_not() -> None:
    weak, strong = fuse(floats(0.1, 0.0), floats(0.2, 0.5)), fuse(floats(0.9, 0.0), floats(0.2, 0.5))
    assert weak[1] > weak[0]
    assert strong[0] > strong[1]
