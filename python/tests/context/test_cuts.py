"""Cuts: wherever a Cutter cuts, both sides have the tokens that the whole text has there."""

from __future__ import annotations

import json
import re

import pytest
from conftest import MAPS
from context_sessions import NASTY
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.context.cuts import KNOWN_ALTERNATIVES, NO_CUTS, Cutter, make_cutter, split_alternatives
from leafgate.tokens.encoder import make_encoder
from leafgate.tokens.token_map import read_map

NAMES = ("toy", "toy-metaspace", "openai/cl100k_base", "openai/o200k_base", "qwen/qwen2")
texts = st.lists(st.sampled_from(NASTY) | st.text(max_size=6), max_size=14).map("".join)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K_POSSESSIVE = (
    r"'(?:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)

# As the makers of cl100k_base publish it today.
CL100K_PUBLISHED = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)
# One or two of every class that any pattern tells apart, so that short texts meet every rule at every border.
CLASSES = (
    "'", "’", "'s", "'S", "'ll", "'D", "1", "12", "123", "1234", "²", "Ⅷ", "٣",
    " ", "  ", "\t", "\n", "\r", "\r\n", "\u00a0", "\u3000", "\x0b", "\x1c", "\x85", "\u2028",
    "a", "s", "l", "A", "aB", "ABc", "é", "É", "ǅ", "ʰ", "ª", "ſ", "\u212a", "中", "の", "한", "я", "α",
    "\u0301", "\u0e33", "\u05b0", "\u200b", "\u200d", "\x00", "😀", "©", "。", "「", "…", "“", "—",
    "/", "_", "-", "^", "`", "{", "[", ".",
)  # fmt: skip
bordered = st.lists(st.sampled_from(CLASSES), min_size=2, max_size=9).map("".join)


def toy_with(pattern: str) -> bytes:
    document = json.loads(MAPS.find("toy").path.read_bytes())
    return json.dumps({**document, "pre_tokenizer_pattern": pattern}).encode()


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)  # the first example loads a map
@given(text=texts | bordered)
def test_every_cut_leaves_the_tokens_as_they_are(name: str, text: str) -> None:
    if "▁" in text and name == "toy-metaspace":
        return
    encoder = MAPS.load(name)
    cutter = make_cutter(encoder.map)
    assert cutter.before is not None
    whole = encoder.encode(text)
    for found in re.finditer(cutter.before, text):
        cut = found.end()
        assert encoder.encode(text[:cut]) + encoder.encode(text[cut + cutter.skip :]) == whole


@pytest.mark.parametrize("pattern", [GPT2, CL100K_POSSESSIVE, CL100K_PUBLISHED])
@settings(deadline=None, max_examples=100)  # the first example loads a map
@given(text=texts | bordered)
def test_other_published_patterns_are_cut_as_well(pattern: str, text: str) -> None:
    encoder = make_encoder(read_map(toy_with(pattern), where="test"))
    cutter = make_cutter(encoder.map)
    assert cutter.before is not None
    for found in re.finditer(cutter.before, text):
        assert encoder.encode(text[: found.end()]) + encoder.encode(text[found.end() :]) == encoder.encode(text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}+ ?|\p{N}+|[^\p{L}\p{N}]+",  # a letter and the blank behind it are one piece
        r"(?<=a)b|[\s\S]",  # looks behind
        r"[\s\S]+",
        r"\S+|\s+",
        GPT2 + r"|\w+\.\w+",
    ],
)
def test_a_pattern_that_nobody_has_thought_about_is_not_cut(pattern: str) -> None:
    assert make_cutter(read_map(toy_with(pattern), where="test")) == NO_CUTS


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_of_classes_is_cut_soundly_between_every_neighbours(name: str) -> None:
    """No chance here: each pair of classes, with a word, a blank and a line on either side."""
    encoder = MAPS.load(name)
    cutter = make_cutter(encoder.map)
    assert cutter.before is not None
    for one in CLASSES:
        for other in CLASSES:
            text = f"x {one}{other}\n{one} {other}it'{one}9{other}"
            whole = encoder.encode(text)
            for found in cutter.before.finditer(text):
                sides = encoder.encode(text[: found.end()]), encoder.encode(text[found.end() + cutter.skip :])
                assert [*sides[0], *sides[1]] == whole, (text, found.end())


def test_alternatives_are_split_at_the_top_level_only() -> None:
    assert split_alternatives(r"(?:a|b)|[|)]|\||c") == ["(?:a|b)", "[|)]", r"\|", "c"]
    for name in NAMES:
        pattern = MAPS.load(name).map.pattern
        assert not pattern or KNOWN_ALTERNATIVES.issuperset(split_alternatives(pattern))


def metaspace(**changes: object) -> Cutter:
    document = json.loads(MAPS.find("toy-metaspace").path.read_bytes())
    extra = changes.pop("extra", {})
    assert isinstance(extra, dict)
    document = {**document, **changes, "vocab": {**document["vocab"], **extra}}
    del document["vocab_size"]
    return make_cutter(read_map(json.dumps(document).encode(), where="test"))


def test_a_metaspace_map_is_not_cut_where_a_token_goes_on() -> None:
    assert metaspace().last("the cat sat") == 7
    assert metaspace(extra={"t▁s": 900}).last("the cat sat") == 3  # "cat" and "sat" may be joined by this token


def test_a_metaspace_map_that_joins_bytes_is_not_cut() -> None:
    assert metaspace(merges=["<0x41> <0x42>"], extra={"<0x41><0x42>": 901}) == NO_CUTS


def test_first_and_last() -> None:
    cutter = make_cutter(MAPS.load("toy").map)
    assert (cutter.first("ab, cd."), cutter.last("ab, cd.")) == (2, 6)
    assert (cutter.first("..."), cutter.last("...")) == (None, None)
    assert (cutter.first(""), cutter.last("")) == (None, None)
    assert cutter.last("ab " + "." * 5000) == 2
    assert cutter.first("don't") is None
