"""Comparing a map with the other library: agreement where they agree, and a difference where there is one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import tokenizers

from leafgate.cli import map_comparison
from leafgate.cli.map_comparison import compare
from leafgate.model.errors import MapInvalidError
from leafgate.storage.map_files import MapFiles
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.map_building import read_tokenizer_json, write_map
from leafgate.tokens.token_map import TokenMap, read_map

FILES = MapFiles()


class OffByOne:
    """An encoder that is wrong about long texts."""

    def __init__(self, right: Encoder) -> None:
        self._right = right

    @property
    def map(self) -> TokenMap:
        return self._right.map

    def encode(self, text: str) -> list[int]:
        ids = self._right.encode(text)
        return ids if len(text) < 1000 else ids[:-1]

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return self._right.decode_bytes(ids)


@pytest.mark.parametrize("map_id", ["toy", "openai/cl100k_base", "qwen/qwen2"])
def test_the_bundled_maps_agree(map_id: str) -> None:
    found = compare(FILES.load(map_id))
    assert found is not None
    assert found.texts > 200
    assert (found.differences, found.first) == (0, None)


def test_a_wrong_encoder_is_found_out() -> None:
    found = compare(OffByOne(FILES.load("toy")))
    assert found is not None
    assert 0 < found.differences < found.texts
    assert found.first is not None
    assert found.as_json()["first_difference"] == found.first


def test_metaspace_is_the_other_library_already() -> None:
    assert compare(FILES.load("toy-metaspace")) is None


def test_without_the_extra_there_is_nothing_to_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_comparison, "_INSTALLED", False)
    assert compare(FILES.load("toy")) is None


def original(tmp_path: Path) -> Path:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the cat and the other cat"] * 5, trainer)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_against_the_file_that_a_map_was_made_of(tmp_path: Path) -> None:
    path = original(tmp_path)
    raw = write_map(read_tokenizer_json(path.read_bytes(), where="x"), id="a/b")
    found = compare(make_encoder(read_map(raw, where="x")), path)
    assert found is not None
    assert (found.against, found.differences) == ("tokenizer.json", 0)
    other = compare(FILES.load("toy"), path)
    assert other is not None
    assert other.differences > 100


def test_against_no_such_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": 5}))
    with pytest.raises(MapInvalidError, match="tokenizer"):
        compare(FILES.load("toy"), path)
