"""The faster encoder: the same ids, or it is not used."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import MAPS
from hypothesis import given
from hypothesis import strategies as st

from leafgate.maps import accelerator
from leafgate.maps.accelerator import AcceleratedEncoder, LazyAcceleration, accelerate, trial_texts
from leafgate.model.errors import TextError
from leafgate.tokens.encoder import Encoder, make_encoder

FAST_MAPS = ["openai/cl100k_base", "openai/o200k_base", "qwen/qwen2"]
EXACT = {name: make_encoder(MAPS.load(name).map) for name in FAST_MAPS}
FAST = {name: accelerate(exact) for name, exact in EXACT.items()}


class Wrong:
    """An encoder that never agrees."""

    def __init__(self, encoder: Encoder) -> None:
        self.map = encoder.map

    def encode(self, text: str) -> list[int]:
        return [0]

    def decode_bytes(self, ids: Any) -> bytes:
        return b""


@pytest.mark.parametrize("name", FAST_MAPS)
def test_the_maps_in_use_are_accelerated(name: str) -> None:
    assert isinstance(FAST[name], AcceleratedEncoder)
    assert FAST[name].map is EXACT[name].map


@pytest.mark.parametrize("name", FAST_MAPS)
@given(text=st.text(max_size=300))
def test_the_ids_are_the_same(name: str, text: str) -> None:
    ids = FAST[name].encode(text)
    assert ids == EXACT[name].encode(text)
    assert FAST[name].decode_bytes(ids) == text.encode()


@pytest.mark.parametrize("name", FAST_MAPS)
@pytest.mark.parametrize(
    "text",
    ["", "<|endoftext|><|im_end|>", " " * 100_000 + "x", "a" * 50_000, "\r\n" * 9_000, "it is 14:30. " * 20_000],
)
def test_the_ids_are_the_same_on_odd_texts(name: str, text: str) -> None:
    assert FAST[name].encode(text) == EXACT[name].encode(text)


@pytest.mark.parametrize("name", FAST_MAPS)
def test_lone_surrogates_have_no_tokenization(name: str) -> None:
    with pytest.raises(TextError):
        FAST[name].encode("a\ud800")


def test_one_that_disagrees_is_not_used() -> None:
    wrong = Wrong(EXACT["openai/cl100k_base"])
    assert accelerate(wrong) is wrong


def test_a_foreign_pattern_is_not_accelerated() -> None:
    exact = EXACT["openai/cl100k_base"]
    odd = make_encoder(dataclasses.replace(exact.map, pattern=r"[\s\S]{1,5}"))
    assert accelerate(odd) is odd


def test_the_trial_tells_the_schemes_apart() -> None:
    """Digits by three and one by one, cased and uncased letters: a mistaken name would be found out."""
    cl100k, qwen = EXACT["openai/cl100k_base"], EXACT["qwen/qwen2"]
    for exact, wrong_scheme in ((cl100k, "qwen2"), (cl100k, "gpt2"), (cl100k, "o200k"), (qwen, "gpt2")):
        fast = AcceleratedEncoder(exact, wrong_scheme)
        assert any(fast.encode(text) != exact.encode(text) for text in trial_texts()), wrong_scheme


def test_ids_that_are_not_ranks_are_not_accelerated() -> None:
    exact = EXACT["openai/cl100k_base"]
    moved = make_encoder(dataclasses.replace(exact.map, id_of_rank=tuple(range(len(exact.map.ranks)))))
    assert accelerate(moved) is moved


@pytest.mark.parametrize(
    ("sizes", "renewed"),
    [
        pytest.param([100, 190, 190], True, id="the process has grown"),
        pytest.param([100, 110], False, id="it has not"),
        pytest.param([500, 300, 330, 390, 390], True, id="it has grown since it was smallest"),
        pytest.param([0, 0, 0], True, id="its size is not told"),
    ],
)
def test_it_is_renewed_where_it_remembers_too_much(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], renewed: bool
) -> None:
    told = iter(sizes)
    monkeypatch.setattr(accelerator, "LOOK_AFTER", 1_000)
    monkeypatch.setattr(accelerator, "resident_bytes", lambda: next(told) << 20)
    fast = AcceleratedEncoder(EXACT["openai/cl100k_base"], "cl100k")
    first = fast._fast
    for _ in range(len(sizes) - (2 if renewed else 1)):
        assert fast._fast is first
        assert fast.encode("word " * 500) == EXACT["openai/cl100k_base"].encode("word " * 500)
        accelerator._RENEWERS.submit(lambda: None).result(30)  # what was asked for before is done by then
    assert (fast._fast is not first) == renewed
    assert next(told, None) is None
    assert fast.encode("still right") == EXACT["openai/cl100k_base"].encode("still right")


def test_the_size_of_this_process_is_known_where_the_system_tells_it() -> None:
    assert accelerator.resident_bytes() > 1 << 20 or not Path("/proc/self/statm").exists()


def test_it_is_looked_for_only_in_earnest_use_and_then_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "PATIENCE_BYTES", 1_000)
    exact = EXACT["openai/cl100k_base"]
    soon = LazyAcceleration(exact)
    assert soon.encode("short") == exact.encode("short")
    assert soon.best is exact
    for _ in range(3):
        assert soon.encode("word " * 300) == exact.encode("word " * 300)
    for thread in threading.enumerate():
        if thread.name == "accelerate-encoder":
            thread.join(30)
    assert isinstance(soon.best, AcceleratedEncoder)
    assert soon.encode("word " * 300) == exact.encode("word " * 300)
    assert soon.decode_bytes(soon.encode("and back")) == b"and back"
    assert soon.map is exact.map
