"""The texts that maps are compared on, and their copy for other languages."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from leafgate.maps.corpus import corpus

MAPS = Path(__file__).resolve().parents[3] / "maps"


def test_there_are_more_than_two_thousand() -> None:
    assert len(corpus()) == len(set(corpus())) > 2_000


def test_other_languages_read_the_same_texts() -> None:
    assert tuple(json.loads(gzip.decompress((MAPS / "corpus.json.gz").read_bytes()))["texts"]) == corpus()
