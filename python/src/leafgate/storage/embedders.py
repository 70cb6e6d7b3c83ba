"""Embedders that an operator may plug in for routing. In: the `embedder` block. Out: an Embedder, or None.

Touches the network (an embeddings endpoint) or a local model. Neither can stop a browse: an endpoint that fails gives
vectors of zeros, and words alone decide.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx2
import numpy as np
from numpy.typing import NDArray

from leafgate.browse.meaning import Embedder
from leafgate.model.errors import ConfigError

try:
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]  # not in every environment
except ImportError:  # an extra: `leafgate[semantic]`
    SentenceTransformer = None

log = logging.getLogger("leafgate.embedder")

Floats = NDArray[np.float32]

BATCH: Final = 64
TIMEOUT: Final = 10.0
_KEYS: Final = {"http": {"kind", "url", "model", "headers"}, "minilm": {"kind", "path"}}


def make_embedder(block: Mapping[str, Any] | None) -> Embedder | None:
    """The embedder that the block describes; None means the bundled model."""
    if block is None:
        return None
    kind = block.get("kind")
    if kind not in _KEYS or not set(block) <= _KEYS[kind]:
        raise ConfigError("embedder: kind is http (with url, model, headers) or minilm (with path)")
    if kind == "minilm":
        return MiniLmEmbedder(str(block.get("path") or ""))
    url, headers = block.get("url"), block.get("headers") or {}
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not isinstance(headers, Mapping):
        raise ConfigError("embedder: url begins with http:// or https://, and headers is an object")
    return HttpEmbedder(url, model=str(block.get("model") or ""), headers=headers)


class HttpEmbedder:
    """An endpoint that takes {"model", "input": [texts]} and answers {"data": [{"embedding": [numbers]}]}."""

    def __init__(self, url: str, *, model: str = "", headers: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._model = model
        self._client = httpx2.Client(headers=dict(headers or {}), timeout=TIMEOUT)
        self._width = 0

    @property
    def version(self) -> str:
        return f"http:{hashlib.sha256(f'{self._url} {self._model}'.encode()).hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> Floats:
        rows = [row for start in range(0, len(texts), BATCH) for row in self._ask([*texts[start : start + BATCH]])]
        self._width = self._width or max((len(row) for row in rows), default=0)
        filled = [row if len(row) == self._width else [0.0] * self._width for row in rows]
        return _unit(np.array(filled, dtype=np.float32).reshape(len(texts), self._width or 1))

    def _ask(self, texts: list[str]) -> list[list[float]]:
        body = {"input": texts} | ({"model": self._model} if self._model else {})
        try:
            answer = self._client.post(self._url, json=body).raise_for_status().json()
            rows = [[float(number) for number in entry["embedding"]] for entry in answer["data"]]
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            log.warning("the embeddings endpoint failed (%s); words alone decide", type(error).__name__)
            return [[] for _ in texts]
        if len(rows) != len(texts):
            log.warning("the embeddings endpoint gave %d vectors for %d texts", len(rows), len(texts))
            return [[] for _ in texts]
        return rows


class MiniLmEmbedder:
    """The whole MiniLM, where the extra `leafgate[semantic]` is installed: better at paraphrases, and much heavier."""

    def __init__(self, path: str = "") -> None:
        if SentenceTransformer is None:
            raise ConfigError("embedder: minilm needs the extra leafgate[semantic]")
        self._path = path or "sentence-transformers/all-MiniLM-L6-v2"
        self._model = SentenceTransformer(self._path, device="cpu")

    @property
    def version(self) -> str:
        return f"minilm:{hashlib.sha256(self._path.encode()).hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self._model.encode([*texts], normalize_embeddings=True), dtype=np.float32)


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(vectors / lengths, dtype=np.float32)
