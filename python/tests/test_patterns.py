"""Named patterns: those of the bundled maps, and other spellings of the same cuts."""

from __future__ import annotations

import pytest
import tiktoken

from leafgate.storage.map_files import MapFiles
from leafgate.tokens.patterns import PATTERNS, family_of

SPELLINGS = {
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s",
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
}


@pytest.mark.parametrize(
    ("map_id", "name"), [("cl100k_base", "cl100k"), ("o200k_base", "o200k"), ("qwen2", "qwen2"), ("toy", "cl100k")]
)
def test_the_bundled_maps_have_named_patterns(map_id: str, name: str) -> None:
    assert family_of(MapFiles().load(map_id).map.pattern) == name


@pytest.mark.parametrize("name", PATTERNS)
def test_a_name_and_its_pattern(name: str) -> None:
    assert family_of(PATTERNS[name]) == name


@pytest.mark.parametrize("name", SPELLINGS)
def test_two_spellings_of_one_pattern_cut_the_same(name: str) -> None:
    assert family_of(SPELLINGS[name]) == name
    ranks = {bytes([b]): b for b in range(256)} | {b"12": 256, b"123": 257, b" a": 258, b"\r\n": 259, b"  ": 260}
    ours, theirs = (
        tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        for pattern in (PATTERNS[name], SPELLINGS[name])
    )
    for text in ("it's 12345 a\r\n\r\n  b", "   a", "a  ", "x\n \n", "DON'T!\n\n", "\u00e9\u4e2d1\u0663"):
        assert ours.encode_ordinary(text) == theirs.encode_ordinary(text)


@pytest.mark.parametrize("pattern", ["", "cl100k", PATTERNS["cl100k"] + "|", PATTERNS["gpt2"].replace("+", "++")])
def test_other_patterns_have_no_name(pattern: str) -> None:
    assert family_of(pattern) is None
