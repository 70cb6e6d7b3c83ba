"""The static model: word pieces, unit vectors, and a file that must be whole."""

from pathlib import Path

import numpy as np
import pytest

from leafgate.meaning import BUNDLED, StaticEmbedder, WordPieces, bundled_embedder, read_static_model
from leafgate.model.errors import ConfigError

PIECES = WordPieces(["play", "##ing", "##s", "git", "##hub", "github"])


@pytest.mark.parametrize(
    ("text", "pieces"),
    [("playing", [0, 1]), ("Plays GitHub!", [0, 2, 5]), ("gits 42", [3, 2]), ("xyz", []), ("", []), ("pláys", [0, 2])],
)
def test_pieces_are_the_longest_that_fit(text: str, pieces: list[int]) -> None:
    assert PIECES.split_text(text) == pieces


def test_a_text_is_the_unit_sum_of_its_pieces() -> None:
    rows = np.eye(6, 4, dtype=np.int8)
    embedder = StaticEmbedder("toy", PIECES, rows, np.full(6, 3, np.float32))
    found = embedder.embed(["playing playing", "unknown ?", "play"])
    assert np.allclose(found, [[0.5**0.5, 0.5**0.5, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]])
    assert embedder.embed([]).shape == (0, 4)


def test_the_bundled_model_knows_what_is_alike() -> None:
    embedder = bundled_embedder()
    assert embedder is not None
    picture, image, folder, directory, delete = embedder.embed(["picture", "image", "folder", "directory", "delete"])
    assert picture @ image > 0.6 > picture @ directory
    assert folder @ directory > 0.6 > folder @ delete


def test_the_bundled_model_stays_small() -> None:
    assert BUNDLED.stat().st_size < 6_500_000


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a model"])
def test_a_broken_model_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"model\.npz"):
        read_static_model(path)


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    np.savez(path, pieces=np.frombuffer(b"a\nb", np.uint8), rows=np.zeros((3, 4), np.int8), scale=np.ones(3))
    with pytest.raises(ConfigError, match="do not fit"):
        read_static_model(path)
