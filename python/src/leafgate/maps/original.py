"""The original engines of tokenizers' files, to compare maps with: Hugging Face's tokenizers, tiktoken, sentencepiece.

Tool text is ordinary text, so every engine runs without its special tokens, as spec 5.9 says which these are.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import tiktoken

from leafgate.maps.corpus import corpus
from leafgate.model.errors import ConfigError, MapInvalidError, TextError
from leafgate.tokens.encoder import Encoder, call_engine
from leafgate.tokens.map_building import MapParts
from leafgate.tokens.token_map import BYTE_ALPHABET
from leafgate.tokens.tokenizer_files import TokenizerJson, read_tokenizer

try:
    import tokenizers
except ImportError:  # an extra
    tokenizers = None  # type: ignore[assignment]
try:
    import sentencepiece  # type: ignore[import-not-found, unused-ignore]
except ImportError:  # only to compare with SentencePiece models
    sentencepiece = None

_BYTE: Final = {char: byte for byte, char in enumerate(BYTE_ALPHABET)}
_SHOWN: Final = 60


@dataclass(frozen=True)
class Original:
    """An engine by name, and its encoding of ordinary text."""

    name: str
    encode: Callable[[str], list[int]]


@dataclass(frozen=True)
class Comparison:
    """Texts that were compared, texts that the map has no tokenization for, and those whose ids differ."""

    against: str
    texts: int
    without_ids: int
    differences: int
    first_difference: str | None


def open_original(raw: bytes, *, where: str, encoder: Encoder) -> Original:
    """Open the engine for a tokenizer's file. A rank file has no pattern: it gets that of the map."""
    if raw.lstrip()[:1] == b"{" and b'"model"' in raw and "model" in (document := json.loads(raw)):
        return _hugging_face(document, where)
    parts = read_tokenizer(raw, where=where)
    if parts.kind == "metaspace":
        return _sentencepiece(raw, where)
    return _tiktoken(parts, encoder)


def compare(encoder: Encoder, original: Original) -> Comparison:
    """Compare the ids of every text of the corpus."""
    compared = without_ids = 0
    different: list[str] = []
    for text in corpus():
        try:
            ids = encoder.encode(text)
        except TextError:
            without_ids += 1
            continue
        compared += 1
        if ids != original.encode(text):
            different.append(text)
    first = describe_difference(encoder, different[0], original.encode(different[0])) if different else None
    return Comparison(original.name, compared, without_ids, len(different), first)


def describe_difference(encoder: Encoder, text: str, theirs: list[int]) -> str:
    """Say in words where two lists of ids for a text part."""
    ours = encoder.encode(text)
    pairs = zip(ours, theirs, strict=False)
    at = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
    begun = len(encoder.decode_bytes(ours[:at]).decode(errors="ignore")) if at else 0
    shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r} and {len(text) - _SHOWN} more characters"
    return (
        f"in the text {shown}, at token {at} (character {begun}): the map gives {_spell(encoder, ours[at : at + 4])}, "
        f"the original {_spell(encoder, theirs[at : at + 4])}"
    )


def _spell(encoder: Encoder, ids: list[int]) -> str:
    tokens = encoder.map.token_of_id
    names = (f"{id} {tokens[id].decode(errors='backslashreplace')!r}" if id in tokens else f"{id}" for id in ids)
    return ", ".join(names) or "no more"


def _hugging_face(document: dict[str, Any], where: str) -> Original:
    if tokenizers is None:
        raise ConfigError("comparing with a tokenizer.json needs the extra `leafgate[metaspace]`")
    reading = TokenizerJson(document, where)
    specials, _ = reading.added_tokens(reading.model.get("vocab", {}))
    rows = [row for row in document.get("added_tokens", []) if row["content"] not in specials]
    try:
        tokenizer = call_engine(
            tokenizers.Tokenizer.from_str, json.dumps({**document, "added_tokens": rows, "post_processor": None})
        )
    except Exception as error:  # the library raises plain Exception
        raise MapInvalidError(f"{where}: {error}") from None

    def encode(text: str) -> list[int]:
        ids: list[int] = call_engine(tokenizer.encode, text, add_special_tokens=False).ids
        return ids

    return Original(f"tokenizers {tokenizers.__version__} ({where})", encode)


def _tiktoken(parts: MapParts, encoder: Encoder) -> Original:
    ranks = {bytes(_BYTE[char] for char in token): id for token, id in parts.vocab.items()}
    pattern = parts.patterns[0] if parts.patterns else encoder.map.pattern
    if not pattern:
        raise ConfigError("a rank file has no pattern, and the map has several: there is nothing to compare with")
    engine = tiktoken.Encoding("original", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    form: Mapping[str | None, Any] = {"nfc": "NFC", "nfkc": "NFKC"}
    name = form.get(parts.normalizer)

    def encode(text: str) -> list[int]:
        return call_engine(engine.encode_ordinary, unicodedata.normalize(name, text) if name else text)

    whose = "" if parts.patterns else ", with the pattern of the map"
    return Original(f"tiktoken {tiktoken.__version__}{whose}", encode)


def _sentencepiece(raw: bytes, where: str) -> Original:
    if sentencepiece is None:
        raise ConfigError(f"comparing with {where} needs the package sentencepiece")
    engine = sentencepiece.SentencePieceProcessor(model_proto=_without_user_defined(raw))
    return Original(f"sentencepiece {sentencepiece.__version__}", lambda text: list(engine.encode(text)))


def _without_user_defined(raw: bytes) -> bytes:
    """Return the model with its user-defined pieces as control pieces, which are not found in texts."""
    at = 0
    parts: list[bytes] = []
    while at < len(raw) and raw[at] == 0x0A:  # field 1: a piece
        size, start = _varint(raw, at + 1)
        body = raw[start : start + size]
        parts.append(raw[at:start] + (body[:-2] + b"\x18\x03" if body.endswith(b"\x18\x04") else body))
        at = start + size
    return b"".join(parts) + raw[at:]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
