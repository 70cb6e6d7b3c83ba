"""Text to ids and back: known ids, ordinary text only, and long runs as tiktoken itself would cut them."""

from __future__ import annotations

import functools
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.maps.files import MapFiles
from leafgate.model.errors import IdsError, MapInvalidError, TextError
from leafgate.tokens import encoder as encoder_module
from leafgate.tokens.encoder import classify_ids, make_encoder
from leafgate.tokens.normalize import normalize
from leafgate.tokens.token_map import read_map

FILES = MapFiles()
MAPS = [entry.id for entry in FILES.list()]
BYTE_LEVEL = ["openai/cl100k_base", "openai/o200k_base", "qwen/qwen2", "toy"]
TOY = (Path(__file__).resolve().parents[3] / "maps" / "toy.json").read_bytes()


@pytest.mark.parametrize(
    ("map_id", "text", "ids"),
    [
        ("qwen2", "It is currently 14:30 UTC.", [2132, 374, 5023, 220, 16, 19, 25, 18, 15, 27403, 13]),
        ("cl100k_base", "hello world", [15339, 1917]),
        ("cl100k_base", "<|endoftext|>", [27, 91, 8862, 728, 428, 91, 29]),
        ("o200k_base", "hello world", [24912, 2375]),
        ("toy", "the cat", [261, 264]),
        ("toy", "é", [195, 169]),
        ("toy-metaspace", "the cat", [309, 312]),
        ("toy-metaspace", "Ω", [257, 207, 170]),
        ("toy-metaspace", "<s>", [257, 300, 276, 301]),
    ],
)
def test_known_ids(map_id: str, text: str, ids: list[int]) -> None:
    encoder = FILES.load(map_id)
    assert encoder.encode(text) == ids
    assert encoder.decode_bytes(ids).decode() == text


@pytest.mark.parametrize("map_id", MAPS)
@settings(max_examples=60, deadline=None)
@given(text=st.text())
def test_ids_decode_to_their_text(map_id: str, text: str) -> None:
    encoder = FILES.load(map_id)
    if "▁" in text and encoder.map.kind == "metaspace":
        return
    try:
        expected = normalize(encoder.map, text)
    except TextError:
        return
    ids = encoder.encode(text)
    assert encoder.decode_bytes(ids).decode() == expected
    assert classify_ids(encoder.map, ids) is None


@pytest.mark.parametrize("map_id", MAPS)
def test_special_tokens_in_a_text_are_ordinary(map_id: str) -> None:
    encoder = FILES.load(map_id)
    for name in encoder.map.specials:
        assert not set(encoder.encode(f"a{name}b")) & encoder.map.special_ids


@pytest.mark.parametrize("map_id", MAPS)
@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ude00\ud83d"])
def test_lone_surrogates_have_no_tokenization(map_id: str, text: str) -> None:
    with pytest.raises(TextError):
        FILES.load(map_id).encode(text)


@pytest.mark.parametrize("text", ["▁", "a▁b", " ▁"])
def test_a_text_that_metaspace_would_not_give_back(text: str) -> None:
    with pytest.raises(TextError, match="2581"):
        FILES.load("toy-metaspace").encode(text)


def test_metaspace_takes_exactly_one_space_away() -> None:
    encoder = FILES.load("toy-metaspace")
    for text in ["a", " a", "  a", "   ", " "]:
        assert encoder.decode_bytes(encoder.encode(text)).decode() == text
    assert encoder.decode_bytes([258]) == b"a"


@functools.cache
@cache
def plain_tiktoken(map_id: str) -> tiktoken.Encoding:
    document: dict[str, Any] = json.loads(FILES.find(map_id).path.read_bytes())
    token_map = FILES.load(map_id).map
    ranks = {token: id for id, token in token_map.token_of_id.items()}
    return tiktoken.Encoding(
        map_id, pat_str=document["pre_tokenizer_pattern"], mergeable_ranks=ranks, special_tokens={}
    )


LENGTHS = (8191, 8192, 8193, 16384)


@pytest.mark.parametrize("map_id", BYTE_LEVEL)
@pytest.mark.parametrize("blank", [" ", "\u3000", " \t", "\u2028 \x0b"])
def test_long_runs_are_cut_as_tiktoken_cuts_them(map_id: str, blank: str) -> None:
    ours, theirs = FILES.load(map_id), plain_tiktoken(map_id)
    for length in LENGTHS:
        run = (blank * length)[:length]
        for before, after in [
            ("", ""),
            ("x", "y"),
            ("", "1"),
            ("!", "!"),
            ("\n", "y"),
            ("x\r\n", "\ny"),
            ("x", "\n"),
            ("x", "\r\n" + run[:50] + "y"),
            ("\n \n", "'s"),
            ("1 ", "的"),
            ("'s", "\x1c"),
            ("x", "\u200bz"),
            ("a\n" + run[:9000] + "\n", "b"),
            (run + "x", "y"),
            (run + "\n", "\n" + run + "1"),
        ]:
            text = before + run + after
            assert ours.encode(text) == theirs.encode_ordinary(text), (length, before[:9], after[:9])


@pytest.mark.parametrize("map_id", BYTE_LEVEL)
def test_a_megabyte_of_blanks_does_not_break_it(map_id: str) -> None:
    encoder = FILES.load(map_id)
    for text in (" " * 2**20, "x" + " " * 2**20 + "y", "\t " * 2**19 + "\n" + " " * 2**20 + "1"):
        assert encoder.decode_bytes(encoder.encode(text)).decode() == text


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def with_pattern(pattern: str) -> bytes:
    return json.dumps({**json.loads(TOY), "pre_tokenizer_pattern": pattern}).encode()


@pytest.mark.parametrize("around", [("", ""), ("x", "y"), ("x\n", "\n1"), ("", "\n")])
def test_long_runs_under_the_pattern_of_gpt2(around: tuple[str, str]) -> None:
    token_map = read_map(with_pattern(GPT2), where="a test")
    theirs = tiktoken.Encoding("gpt2", pat_str=GPT2, mergeable_ranks=dict(token_map.ranks), special_tokens={})
    for length in LENGTHS:
        for run in (" " * length, " \n" * (length // 2), "\n" * length):
            text = around[0] + run + around[1]
            assert make_encoder(token_map).encode(text) == theirs.encode_ordinary(text)


def test_long_runs_under_an_unknown_pattern_are_refused_not_guessed() -> None:
    encoder = make_encoder(read_map(with_pattern(r"\s+(?!\S)|\s+|\S+(?=\s|$)|\S"), where="a test"))
    assert encoder.encode("the cat")
    with pytest.raises(TextError, match="blanks"):
        encoder.encode(" " * 9000)


@pytest.mark.parametrize("pattern", ["(", r"\p{Nonsense}", r"\p{L}+", r"\S+", "x", r"\p{N}{0,3}|[\s\S]"])
def test_patterns_that_cannot_be_used(pattern: str) -> None:
    with pytest.raises(MapInvalidError):
        make_encoder(read_map(with_pattern(pattern), where="a test"))


def test_metaspace_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = FILES.find("toy-metaspace").path.read_bytes()
    monkeypatch.setattr(encoder_module, "tokenizers", None)
    with pytest.raises(MapInvalidError, match=r"leafgate\[metaspace\]"):
        make_encoder(read_map(raw, where="a test"))


def test_a_metaspace_merge_that_makes_no_token() -> None:
    document = json.loads(FILES.find("toy-metaspace").path.read_bytes())
    raw = json.dumps({**document, "merges": ["i x"]}).encode()
    with pytest.raises(MapInvalidError):
        make_encoder(read_map(raw, where="a test"))


@pytest.mark.parametrize("map_id", MAPS)
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("97", "not-integer"),
        (None, "not-integer"),
        (97.0, "not-integer"),
        (-1, "negative"),
        (2**32, "too-large"),
        (2**32 - 1, "unknown-id"),
        ("special", "special-id"),
    ],
)
def test_ids_that_cannot_be_decoded(map_id: str, wrong: Any, reason: str) -> None:
    encoder = FILES.load(map_id)
    id = next(iter(encoder.map.specials.values())) if wrong == "special" else wrong
    with pytest.raises(IdsError) as caught:
        encoder.decode_bytes([encoder.encode("a")[0], id])  # 100 is a special id in some maps
    assert caught.value.reason == reason
