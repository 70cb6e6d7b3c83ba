"""The ids digest: equal for maps with equal ids, different for one token; and leaves of equal maps on a shelf."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiktoken

from leafgate.maps.corpus import corpus
from leafgate.maps.files import MapFiles
from leafgate.maps.shelf import MapShelf, file_source
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.equal_maps import EQUAL_PATTERNS, ids_digest
from leafgate.tokens.token_map import TokenMap, read_map
from leafgate.tokens.verify import check

MAPS = Path(__file__).resolve().parents[3] / "maps"
TOY: dict[str, Any] = json.loads((MAPS / "toy.json").read_bytes())


def changed(**fields: Any) -> bytes:
    return json.dumps({**TOY, **fields}).encode()


def digest(raw: bytes) -> str:
    return ids_digest(read_map(raw, where="x"))


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "other"},
        {"special_tokens": {"<|other|>": 999}},
        {"normalizer": "nfc"},
        {"vocab": dict(reversed(TOY["vocab"].items()))},
        {"merges": ["t h", "h e", "i n", "e r", "a n", "th e", "Ġ c", "Ġc a", "Ġca t", "Ġ the"]},
    ],
)
def test_what_does_not_count(fields: dict[str, Any]) -> None:
    assert digest(changed(**fields)) == digest(changed())


@pytest.mark.parametrize(
    "fields",
    [
        {"vocab": {**TOY["vocab"], "zz": 500}},
        {"vocab": {**TOY["vocab"], "th": 500}},
        {"pre_tokenizer_pattern": TOY["pre_tokenizer_pattern"].replace("{1,3}", "{1,2}")},
        {"added_tokens": ["th"]},
    ],
)
def test_what_counts(fields: dict[str, Any]) -> None:
    assert digest(changed(**fields)) != digest(changed())


def test_the_index_has_the_digests_of_its_maps() -> None:
    files = MapFiles([MAPS])
    by_id = {entry.id: entry.ids_digest for entry in files.list()}
    for id in ("qwen/qwen3", "qwen/qwen2", "mistral/tekken", "toy-plain"):
        assert by_id[id] == ids_digest(files.load(id).map)
    assert by_id["qwen/qwen2"] == by_id["qwen/qwen3"]


@pytest.mark.parametrize(("spelling", "pattern"), EQUAL_PATTERNS.items())
def test_equal_patterns_split_the_corpus_alike(spelling: str, pattern: str) -> None:
    """One token for each pair of bytes: any other split shows in the ids."""
    ranks = {bytes([b]): b for b in range(256)}
    ranks |= {bytes([a, b]): 256 + 256 * a + b for a in range(256) for b in range(256)}
    one, other = (
        tiktoken.Encoding("x", pat_str=each, mergeable_ranks=ranks, special_tokens={}) for each in (spelling, pattern)
    )
    for text in corpus():
        if len(text) < 2000:
            assert one.encode_ordinary(text) == other.encode_ordinary(text)


# Leaves


@pytest.fixture
def qwen3() -> Encoder:
    return MapShelf(MapFiles([MAPS]).list()).load("qwen/qwen3")


def qwen2() -> TokenMap:
    return MapFiles([MAPS]).load("qwen/qwen2").map


@pytest.mark.parametrize("level", ["canonical", "decode", "trust"])
def test_a_leaf_of_an_equal_map_is_checked_under_the_clients(qwen3: Encoder, level: Any) -> None:
    leaf = MapFiles([MAPS]).load("qwen/qwen2")
    text = "It is currently 14:30 UTC, caf\u00e9."
    assert check(qwen3, text, leaf.encode(text), level=level, map_id=leaf.map.digest).accepted
    # Qwen 3 normalizes, Qwen 2 as published does not: the ids differ on this text, at every level.
    text = "cafe\u0301"
    assert check(qwen3, text, leaf.encode(text), level=level, map_id=leaf.map.digest).reason == "text-mismatch"


def test_a_map_that_differs_by_one_token_is_foreign(tmp_path: Path) -> None:
    near, equal = tmp_path / "near.json", tmp_path / "equal.json"
    near.write_bytes(changed(id="near", vocab={**TOY["vocab"], "zz": 500}))
    equal.write_bytes(changed(id="equal", special_tokens={"<|other|>": 999}))
    shelf = MapShelf([*MapFiles([MAPS]).list(), file_source(near), file_source(equal)])
    toy = shelf.load("toy")
    ids = toy.encode("the cat")
    assert check(toy, "the cat", ids, level="canonical", map_id=shelf.digest("near")).reason == "foreign-map"
    assert check(toy, "the cat", ids, level="canonical", map_id=shelf.digest("equal")).accepted
