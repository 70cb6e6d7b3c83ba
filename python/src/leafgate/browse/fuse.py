"""Joins words and meaning. In: lexical scores, similarities. Out: one score per item, 0 to 1. May touch: nothing.

The lexical score is measured against what a perfect match of this query would score, not against the best item at
hand: words that match poorly then say little, and meaning decides. Ranks alone (reciprocal rank fusion) lose that.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

MEANING: Final = 1.5  # weight of similarity beside the lexical score's 1


def lexical_share(scores: Floats, asked: float) -> Floats:
    """How much of the query each item matches, 0 to 1."""
    share: Floats = scores / np.float32(asked) if asked > 0 else scores
    return np.minimum(share, 1, dtype=np.float32)


def fuse(share: Floats, similarity: Floats | None) -> Floats:
    if similarity is None:
        return share
    fused = (share + np.float32(MEANING) * np.maximum(similarity, 0)) / np.float32(1 + MEANING)
    return fused.astype(np.float32, copy=False)
