"""Building an index anew and from an earlier one gives the same index."""

import numpy as np
from routing_catalog import SMALL, tool

from leafgate.browse.index import build_index
from leafgate.meaning import bundled_embedder


def test_an_index_does_not_depend_on_its_history() -> None:
    embedder = bundled_embedder()
    first = build_index(SMALL, embedder)
    changed = [SMALL[5], tool("zebra", "Counts zebras."), *SMALL[:3]]
    again, anew = build_index(changed, embedder, first), build_index(changed, embedder)
    assert again.lexical.words == anew.lexical.words
    assert "papers" in again.lexical.words
    assert "repository" not in again.lexical.words
    for field in ("items", "weights", "bounds", "rarity", "term_of_word"):
        assert np.array_equal(getattr(again.lexical, field), getattr(anew.lexical, field))
    assert again.vectors is not None
    assert anew.vectors is not None
    assert np.allclose(again.vectors, anew.vectors)


def test_another_model_starts_over() -> None:
    first = build_index(SMALL, bundled_embedder())
    assert build_index(SMALL, None, first).vectors is None
    assert build_index(SMALL, bundled_embedder(), build_index(SMALL, None)).vectors is not None
