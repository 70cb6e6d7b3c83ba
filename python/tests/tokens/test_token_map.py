"""Reading maps: what is refused and why, and that the maps at hand are the published vocabularies."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from leafgate.model.errors import MapDigestError, MapHashMismatchError, MapInvalidError, MapUnreachableError
from leafgate.model.leaf import digest_of
from leafgate.tokens import token_map
from leafgate.tokens.encoder import make_encoder
from leafgate.tokens.token_map import BYTE_ALPHABET, TokenMap, read_map

MAPS = Path(__file__).resolve().parents[3] / "maps"
TOY = (MAPS / "toy.json").read_bytes()
METASPACE = (MAPS / "toy-metaspace.json").read_bytes()


def edited(raw: bytes = TOY, **fields: Any) -> bytes:
    document = {**json.loads(raw), **fields}
    return json.dumps({key: value for key, value in document.items() if value is not ...}).encode()


def read(raw: bytes) -> TokenMap:
    return read_map(raw, where="a test")


def test_toy() -> None:
    toy = read(TOY)
    assert (toy.id, toy.kind, toy.digest) == ("toy", "byte_level", digest_of(TOY))
    assert toy.token_of_id[261] == b"the"
    assert toy.special_ids == {300}
    assert 300 not in toy.token_of_id


def test_the_alphabet() -> None:
    assert len(set(BYTE_ALPHABET)) == 256
    assert (BYTE_ALPHABET[0], BYTE_ALPHABET[32], BYTE_ALPHABET[65], BYTE_ALPHABET[255]) == ("Ā", "Ġ", "A", "ÿ")


def test_cl100k_is_the_published_rank_file() -> None:
    tokens = read((MAPS / "openai" / "cl100k_base.json").read_bytes()).token_of_id
    lines = [base64.b64encode(tokens[rank]) + b" %d\n" % rank for rank in sorted(tokens)]
    published = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
    assert hashlib.sha256(b"".join(lines)).hexdigest() == published


def test_a_map_edited_by_one_byte_names_both_digests() -> None:
    changed = TOY.replace(b'"toy"', b'"tox"')
    with pytest.raises(MapHashMismatchError) as caught:
        read_map(changed, where="a test", expected_digest=digest_of(TOY))
    assert digest_of(TOY) in str(caught.value)
    assert digest_of(changed) in str(caught.value)


def test_the_expected_digest_in_any_spelling() -> None:
    assert read_map(TOY, where="a test", expected_digest=digest_of(TOY)[7:].upper()).id == "toy"
    with pytest.raises(MapDigestError):
        read_map(TOY, where="a test", expected_digest="sha256:12")


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_map, "MAX_MAP_BYTES", 100)
    with pytest.raises(MapUnreachableError, match="limit"):
        read(TOY)


VOCAB: dict[str, int] = json.loads(TOY)["vocab"]
OTHER_VOCAB: dict[str, int] = json.loads(METASPACE)["vocab"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"\xff\xfe", "not JSON", id="no UTF-8"),
        pytest.param(TOY.decode().encode("utf-16"), "not JSON", id="UTF-16"),
        pytest.param(b"[" * 100_000, "not JSON", id="nested deeply"),
        pytest.param(b'{"x": NaN}', "not JSON", id="NaN"),
        pytest.param(b"[]", "object", id="array"),
        pytest.param(edited(_synthetic=True), "placeholder", id="synthetic"),
        pytest.param(edited(vocab={}), "placeholder", id="empty vocabulary"),
        pytest.param(edited(vocab_size=268), "declares 268 entries and holds 267", id="cut off"),
        pytest.param(edited(vocab=...), "missing", id="no vocabulary"),
        pytest.param(edited(vocab={**VOCAB, "x": -1}), "integer", id="negative id"),
        pytest.param(edited(vocab={**VOCAB, "x": 2**32}), "integer", id="id too large"),
        pytest.param(edited(vocab={**VOCAB, "x": 1.0}), "integer", id="fraction"),
        pytest.param(edited(vocab={**VOCAB, "x": True}), "integer", id="boolean"),
        pytest.param(edited(special_tokens={"x": "5"}), "integer", id="special id"),
        pytest.param(edited(vocab={**VOCAB, "xx": 97}), "share", id="id given twice"),
        pytest.param(edited(vocab={**VOCAB, "": 999}), "empty token", id="empty token"),
        pytest.param(edited(vocab={**VOCAB, "a b": 999}), "alphabet", id="raw space"),
        pytest.param(edited(vocab={**VOCAB, "a\u00a0b": 999}), "alphabet", id="raw no-break space"),
        pytest.param(edited(vocab={**VOCAB, "a\nb": 999}), "alphabet", id="raw newline"),
        pytest.param(edited(vocab={**VOCAB, "€": 999}), "alphabet", id="euro"),
        pytest.param(edited(vocab={k: v for k, v in VOCAB.items() if v}, vocab_size=1), "1 of the 256", id="no byte 0"),
        pytest.param(edited(pre_tokenizer_pattern=...), "pattern", id="no pattern"),
        pytest.param(edited(encoder="wordpiece"), "encoder", id="unknown encoder"),
        pytest.param(edited(merges=["t h e"]), "left right", id="merge of three"),
        pytest.param(edited(merges=["x y"]), "not a token", id="merge of nothing"),
        pytest.param(edited(merges="t h"), "array", id="merges no array"),
        pytest.param(edited(merges=["t €"]), "alphabet", id="merge outside the alphabet"),
        pytest.param(edited(METASPACE, prefix="first"), "prefix", id="metaspace, another prefix"),
        pytest.param(edited(METASPACE, added_tokens=["a"]), "prefix", id="metaspace, added tokens with a prefix"),
        pytest.param(edited(METASPACE, normalizer="nfd"), "normalizer", id="another normalizer"),
        pytest.param(edited(METASPACE, added_tokens=["nope"]), "added_tokens", id="an added token without an id"),
        pytest.param(edited(METASPACE, byte_fallback_end=255), "256", id="metaspace, 255 bytes"),
        pytest.param(edited(METASPACE, byte_fallback_start=True), "256", id="metaspace, boolean start"),
        pytest.param(edited(METASPACE, vocab={**OTHER_VOCAB, "": 999}), "empty token", id="metaspace, empty token"),
        pytest.param(
            edited(METASPACE, vocab={**{k: v for k, v in OTHER_VOCAB.items() if v != 66}, "Q": 66}),
            "fallback byte share",
            id="metaspace, a token under a fallback id",
        ),
    ],
)
def test_refused(raw: bytes, says: str) -> None:
    with pytest.raises(MapInvalidError, match=says):
        read(raw)


def test_version_1_has_tokens() -> None:
    document = json.loads(TOY)
    old = edited(version="1", tokens=document["vocab"], vocab=...)
    assert read(old).token_of_id == read(TOY).token_of_id


def test_an_entry_with_a_special_id_is_special() -> None:
    listed = read(edited(vocab={**VOCAB, "<|stop|>": 300}))
    assert 300 not in listed.token_of_id
    assert b"<|stop|>" not in listed.ranks


def test_merges_order_the_joins_and_ids_are_free() -> None:
    vocab = {token: 1000 - id for token, id in VOCAB.items()}
    merges = ["h e", "t h", "i n", "e r", "a n", "t he", "Ġ c", "Ġc a", "Ġca t", "Ġ the"]
    shuffled = make_encoder(read(edited(vocab=vocab, merges=merges)))
    assert shuffled.encode("the cat") == [1000 - 261, 1000 - 264]
    assert shuffled.decode_bytes(shuffled.encode("the cat")) == b"the cat"


@pytest.mark.parametrize(("lead_space", "warned"), [(True, True), (False, False)])
def test_a_program_that_disagrees_with_the_pattern(lead_space: bool, warned: bool) -> None:
    program = {"ops": [{"op": "numbers", "lead_space": lead_space}]}
    assert bool(read(edited(pre_tokenizer_program=program)).warnings) == warned
