"""Maps made of rank files and tokenizer.json: exact bytes, the same ids as the original, and what is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.maps.files import MapFiles
from leafgate.model.errors import MapInvalidError
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.map_building import (
    PATTERNS,
    MapParts,
    family_of,
    write_map,
)
from leafgate.tokens.map_building import with_choices as choose
from leafgate.tokens.token_map import BYTE_ALPHABET, read_map
from leafgate.tokens.tokenizer_files import read_rank_file, read_tokenizer

MAPS = Path(__file__).resolve().parents[3] / "maps"
LINES = [b"%s %d" % (base64.b64encode(bytes([b])), b) for b in range(256)] + [b"dGg= 256"]
RANKS = b"\n".join(LINES) + b"\n"


def with_choices(parts: MapParts, *, pattern: str | None, specials: Any) -> MapParts:
    return choose(parts, pattern=pattern, specials=specials, normalizer=None)


def built(parts: MapParts) -> Encoder:
    return make_encoder(read_map(write_map(parts, id="a/b"), where="here"))


# Rank files


@pytest.mark.parametrize("map_id", ["openai/cl100k_base", "openai/o200k_base", "qwen/qwen2", "toy"])
def test_the_bundled_maps_come_out_byte_for_byte(map_id: str) -> None:
    token_map = MapFiles([MAPS]).load(map_id).map
    lines = [b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in reversed(token_map.ranks.items())]
    parts = read_rank_file(b"".join(lines), where="ranks")
    chosen = with_choices(parts, pattern=token_map.pattern, specials=token_map.specials)
    assert write_map(chosen, id=map_id) == (MAPS / f"{map_id}.json").read_bytes()


def test_blank_lines_and_line_ends_do_not_matter() -> None:
    assert read_rank_file(b"\r\n".join([b"", *LINES, b"", b""]), where="x") == read_rank_file(RANKS, where="x")


def test_a_rank_file_gives_a_working_map() -> None:
    parts = with_choices(read_rank_file(RANKS, where="x"), pattern=PATTERNS["gpt2"], specials={"<|end|>": 300})
    encoder = built(parts)
    assert encoder.encode("the") == [256, 101]
    assert encoder.map.specials == {"<|end|>": 300}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n\n",
        b"dGg=",
        b"dGg= 1 2",
        b"dGg= x",
        b"dGg= -1",
        b"dGg= 1.0",
        b"dGg=,1",
        b"d!g= 1",
        b"dGg 1",
        b"= 1",
        b"\xff\xfe 1",
        RANKS + b"dGg= 257\n",
        b'{"a": 1}',
        "dGg= \u0663".encode(),
    ],
)
def test_no_rank_file(raw: bytes) -> None:
    with pytest.raises(MapInvalidError, match="ranks"):
        read_rank_file(raw, where="ranks")


def test_the_line_is_named() -> None:
    with pytest.raises(MapInvalidError, match="ranks:3"):
        read_rank_file(b"YQ== 0\nYg== 1\nnope\n", where="ranks")


@pytest.mark.parametrize(
    "raw", [b"\n".join(LINES[1:]), RANKS + b"dGhl 256\n", RANKS + b"dGhl 99999999999999999999999\n"]
)
def test_ranks_that_make_no_map(raw: bytes) -> None:
    parts = with_choices(read_rank_file(raw, where="x"), pattern=PATTERNS["gpt2"], specials={})
    with pytest.raises(MapInvalidError):
        built(parts)


# tokenizer.json


TEXT = ["the cat sat on the mat, and then the other cat sat there too. 12345 67", "def f(x):\n    return x ** 2\n"] * 3


def trained(pre_tokenizer: Any, **options: Any) -> tokenizers.Tokenizer:
    """A real tokenizer of the other library, small enough to train here."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|start|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.add_tokens(["<tool>"])
    return tokenizer


def split_by(pattern: str, behavior: str = "isolated", invert: bool = False) -> Any:
    pre = tokenizers.pre_tokenizers
    split = pre.Split(tokenizers.Regex(pattern), behavior=behavior, invert=invert)
    return pre.Sequence([split, pre.ByteLevel(add_prefix_space=False, use_regex=False)])


GPT2 = trained(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False))
CL100K = trained(split_by(PATTERNS["cl100k"]))
REMOVED = trained(split_by(PATTERNS["qwen2"], "removed", True))
ORIGINALS = {"gpt2": GPT2, "cl100k": CL100K, "qwen2": REMOVED}


def document(tokenizer: tokenizers.Tokenizer = GPT2) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tokenizer.to_str())
    return found


def read(changed: dict[str, Any]) -> MapParts:
    return read_tokenizer(json.dumps(changed).encode(), where="tokenizer.json")


@pytest.mark.parametrize("name", ORIGINALS)
def test_the_pattern_and_the_added_tokens_are_found(name: str) -> None:
    parts = read(document(ORIGINALS[name]))
    assert parts.patterns == (PATTERNS[name],)
    assert parts.specials == {"<|start|>": 0, "<tool>": ORIGINALS[name].token_to_id("<tool>")}
    assert parts.notes == ()
    assert "<|start|>" not in parts.vocab


@pytest.mark.parametrize("name", ORIGINALS)
@settings(max_examples=150, deadline=None)
@given(text=st.text() | st.text("the catson'012 \n\t_*(){}é中"))
def test_the_ids_are_those_of_the_original(name: str, text: str) -> None:
    if "<tool>" in text or "<|start|>" in text:
        return
    assert ENCODERS[name].encode(text) == ORIGINALS[name].encode(text, add_special_tokens=False).ids


ENCODERS = {name: built(read(document(original))) for name, original in ORIGINALS.items()}


def test_the_bytes_do_not_depend_on_the_order_of_the_file() -> None:
    original = document()
    vocab = original["model"]["vocab"]
    turned = {**original, "model": {**original["model"], "vocab": dict(reversed(vocab.items()))}}
    assert write_map(read(turned), id="a/b") == write_map(read(original), id="a/b")


def test_merges_are_left_out_where_ids_say_the_same() -> None:
    assert read(document()).merges == ()


def test_merges_are_kept_where_ids_say_something_else() -> None:
    original = document()
    vocab = original["model"]["vocab"]
    highest = max(vocab.values())
    turned = {token: id if id == 0 else highest + 1 - id for token, id in vocab.items()}
    parts = read({**original, "model": {**original["model"], "vocab": turned}})
    assert len(parts.merges) == len(original["model"]["merges"])
    other = tokenizers.Tokenizer.from_str(json.dumps({**original, "model": {**original["model"], "vocab": turned}}))
    for text in TEXT:
        assert built(parts).encode(text) == other.encode(text, add_special_tokens=False).ids


def test_merges_as_strings_or_as_pairs() -> None:
    original = document()
    pairs = original["model"]["merges"]
    assert all(isinstance(pair, list) for pair in pairs)
    strings = {**original, "model": {**original["model"], "merges": [" ".join(pair) for pair in pairs]}}
    assert read(strings) == read(original)


@pytest.mark.parametrize(("step", "name"), [("NFC", "nfc"), ("NFKC", "nfkc")])
def test_normalizers(step: str, name: str) -> None:
    changed = {**document(), "normalizer": {"type": step}}
    encoder = built(read(changed))
    assert encoder.map.normalizer == name
    original = tokenizers.Tokenizer.from_str(json.dumps(changed))
    for text in ("cafe\u0301", "\ufb01 \u212b \uff11", "\u1100\u1161\u11a8", "the cat"):
        assert encoder.encode(text) == original.encode(text, add_special_tokens=False).ids
    assert read({**document(), "normalizer": {"type": "Sequence", "normalizers": []}}).normalizer is None


def test_stages_of_splitting() -> None:
    """What no stage matches is a piece too."""
    splits = [
        {"type": "Digits", "individual_digits": True},
        {"type": "Split", "pattern": {"String": "+"}, "behavior": "Isolated", "invert": False},
        {"type": "Split", "pattern": {"Regex": "[a-z]+"}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    ]
    changed = {**document(), "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits}}
    parts = read(changed)
    assert parts.patterns == (r"\p{N}", r"\+", "[a-z]+")
    original = tokenizers.Tokenizer.from_str(json.dumps(changed))
    for text in ("the cat12 34+the  other", "\x00\x00 THE the", "  the+"):
        assert built(parts).encode(text) == original.encode(text, add_special_tokens=False).ids


def test_added_tokens_of_white_space_are_found_in_texts_and_others_are_special() -> None:
    original = trained(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False))
    original.add_tokens([tokenizers.AddedToken(" " * size, normalized=False) for size in (7, 9)])
    parts = read(document(original))
    assert parts.added == ("\u0120" * 7, "\u0120" * 9)
    assert "<tool>" in parts.specials
    for text in ("a" + " " * 7 + "b", " " * 16, " " * 20 + "x"):
        assert built(parts).encode(text) == original.encode(text, add_special_tokens=False).ids


def test_added_tokens_that_are_found_in_two_passes_are_refused() -> None:
    original = trained(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False))
    original.add_tokens([tokenizers.AddedToken(" " * 7, normalized=False), tokenizers.AddedToken(" " * 9)])
    with pytest.raises(MapInvalidError, match="normalized"):
        read(document(original))


@pytest.mark.parametrize(
    ("pre_tokenizer", "says"),
    [
        (None, "ByteLevel"),
        ({"type": "Whitespace"}, "Whitespace"),
        ({"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}, "does not split"),
        (
            {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "MergedWithNext", "invert": False},
                    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
                ],
            },
            "MergedWithNext",
        ),
    ],
)
def test_splitting_that_a_map_cannot_express(pre_tokenizer: Any, says: str) -> None:
    with pytest.raises(MapInvalidError, match=says):
        read({**document(), "pre_tokenizer": pre_tokenizer})


def test_a_merge_that_a_token_never_ends_with_is_refused() -> None:
    """The map would take the piece as a whole, which this tokenizer does not."""
    vocab = {char: id for id, char in enumerate(BYTE_ALPHABET)} | {"ab": 256, "bc": 257, "abc": 258}
    changed = model(vocab=vocab, merges=["a b", "b c", "a bc"])
    with pytest.raises(MapInvalidError, match="'abc'"):
        read({**changed, "added_tokens": []})


def model(**changes: Any) -> dict[str, Any]:
    original = document()
    return {**original, "model": {**original["model"], **changes}}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ([], "object"),
        ({}, "not a tokenizer.json"),
        ({"model": 5}, "BPE"),
        (model(type="WordPiece"), "WordPiece"),
        (model(type="Unigram"), "Unigram"),
        (model(dropout=0.1), "dropout"),
        (model(end_of_word_suffix="</w>"), "end_of_word_suffix"),
        (model(continuing_subword_prefix="##"), "continuing_subword_prefix"),
        (model(vocab={}), "vocabulary"),
        (model(vocab=[["a", 0]]), "vocabulary"),
        (model(vocab={"a": "0"}), "vocabulary"),
        (model(vocab={"a": True}), "vocabulary"),
        (model(merges=None), "merges"),
        (model(merges=["ab"]), "merge"),
        (model(merges=["a b c"]), "merge"),
        (model(merges=[["a"]]), "merge"),
        (model(merges=[["a", " b"]]), "merge"),
        (model(merges=[["a", 5]]), "merge"),
        (model(merges=[5]), "merge"),
        ({**document(), "added_tokens": {}}, "added_tokens"),
        ({**document(), "added_tokens": [5]}, "added token"),
        ({**document(), "added_tokens": [{"id": "1", "content": "x"}]}, "added token"),
        ({**document(), "added_tokens": [{"id": 1}]}, "added token"),
        ({**document(), "normalizer": {"type": "Lowercase"}}, "Lowercase"),
        ({**document(), "normalizer": {"type": "NFD"}}, "NFD"),
        ({**document(), "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, "space in front"),
    ],
)
def test_what_a_map_cannot_say(changed: Any, says: str) -> None:
    with pytest.raises(MapInvalidError, match=says):
        read(changed)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff{}", b"[" * 100_000, b"\x0a\x05ab", b"nonsense"])
def test_no_tokenizer(raw: bytes) -> None:
    with pytest.raises(MapInvalidError, match=r"not JSON|no ranks|neither"):
        read_tokenizer(raw, where="x")


# Metaspace


def metaspace(**changes: Any) -> dict[str, Any]:
    """The bundled toy, as the other library would write it."""
    toy = json.loads((MAPS / "toy-metaspace.json").read_bytes())
    return {
        "added_tokens": [{"id": 0, "content": "<s>", "special": True}],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "model": {"type": "BPE", "byte_fallback": True, "vocab": toy["vocab"], "merges": toy["merges"]},
        **changes,
    }


def test_the_bundled_metaspace_map_has_the_same_ids() -> None:
    bundled = read_map((MAPS / "toy-metaspace.json").read_bytes(), where="toy")
    ours = built(read(metaspace()))
    assert ours.map.token_of_id.items() <= bundled.token_of_id.items()
    for text in ("the cat", "  the  cat in a", "Ω\t<s>"):
        assert ours.encode(text) == make_encoder(bundled).encode(text)


@pytest.mark.parametrize("scheme", ["first", "always"])
def test_the_newer_way_to_write_it(scheme: str) -> None:
    step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}
    assert read(metaspace(normalizer=None, pre_tokenizer=step)) == read(metaspace())


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": None},
        {"normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}},
        {
            "normalizer": None,
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        },
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}},
        {"pre_tokenizer": {"type": "Whitespace"}},
    ],
)
def test_other_ways_with_spaces_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MapInvalidError, match="spaces"):
        read(metaspace(**changes))


@pytest.mark.parametrize("token", ["<0x00>", "<0x7F>", "<0xFF>"])
def test_fallback_bytes_are_in_a_row(token: str) -> None:
    changed = metaspace()
    changed["model"]["vocab"] = {**changed["model"]["vocab"], token: 5000}
    with pytest.raises(MapInvalidError, match="fallback"):
        read(changed)


# Writing


def test_what_is_given_counts_more_than_what_is_found() -> None:
    parts = with_choices(read(document()), pattern="given", specials={"<|start|>": 7, "<more>": 8})
    assert parts.patterns == ("given",)
    assert parts.specials["<|start|>"] == 7
    assert parts.specials["<more>"] == 8
    assert with_choices(read(document()), pattern=None, specials={}) == read(document())


def test_a_name_that_is_no_utf8() -> None:
    parts = MapParts("byte_level", {char: i for i, char in enumerate(BYTE_ALPHABET)}, {"\udcff": 300}, patterns=("x",))
    with pytest.raises(MapInvalidError, match="UTF-8"):
        write_map(parts, id="a/b")


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
