"""Reads the bundled static model. In: nothing, or a path. Out: StaticEmbedder. May touch: the package's data file."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Final
from zipfile import BadZipFile

import numpy as np

from leafgate.browse.meaning import StaticEmbedder, WordPieces
from leafgate.model.errors import ConfigError

BUNDLED: Final = Path(__file__).parent.parent / "data" / "meaning" / "model.npz"


@lru_cache(maxsize=1)
def bundled_embedder() -> StaticEmbedder | None:
    """The model that comes with the package, or None where a distributor left it out."""
    return read_static_model(BUNDLED) if BUNDLED.is_file() else None


def read_static_model(path: Path) -> StaticEmbedder:
    content = path.read_bytes()
    try:
        with np.load(BytesIO(content), allow_pickle=False) as file:
            pieces = file["pieces"].tobytes().decode().split("\n")
            rows, scale = file["rows"], file["scale"].astype(np.float32)
    except (BadZipFile, KeyError, ValueError, EOFError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: no usable static model: {error}") from error
    if rows.ndim != 2 or rows.dtype != np.int8 or not len(rows) == len(scale) == len(pieces):
        raise ConfigError(f"{path}: no usable static model: its parts do not fit together")
    return StaticEmbedder(f"static:{hashlib.sha256(content).hexdigest()[:16]}", WordPieces(pieces), rows, scale)
