"""Building of maps: the parts that a tokenizer's file gives become the bytes of a map (spec 5.9).

The same parts give the same bytes, in both languages, and so the same digest. Readers of files are in tokenizer_files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import tiktoken

from leafgate.model.errors import MapInvalidError, TextError
from leafgate.tokens.encoder import all_merges, call_engine
from leafgate.tokens.token_map import BYTE_ALPHABET, BYTE_NAMES, EncoderKind, Normalizer

_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LEAD: Final = r"[^\r\n\p{L}\p{N}]?"
_SIGNS: Final = r" ?[^\s\p{L}\p{N}]+"
_BLANKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

# The pre-tokenizer patterns in wide use
PATTERNS: Final[Mapping[str, str]] = {
    "cl100k": rf"{_CONTRACTIONS}|{_LEAD}\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}[\r\n]*|{_BLANKS}",
    "o200k": (
        rf"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}|{_SIGNS}[\r\n/]*|{_BLANKS}"
    ),
    "qwen2": rf"{_CONTRACTIONS}|{_LEAD}\p{{L}}+|\p{{N}}|{_SIGNS}[\r\n]*|{_BLANKS}",
    "gpt2": rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+|{_SIGNS}|\s+(?!\S)|\s+",
    "tekken": rf"{_LEAD}{_UPPER}*{_LOWER}+|{_LEAD}{_UPPER}+{_LOWER}*|\p{{N}}|{_SIGNS}[\r\n/]*|{_BLANKS}",
}

# Other spellings of two of them, as tiktoken has them. That of cl100k splits white space at the end of a text
# differently; the ids of its vocabulary are the same.
_SPELLINGS: Final[Mapping[str, str]] = {
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s": "cl100k",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
}
_FAMILIES: Final = {**{pattern: name for name, pattern in PATTERNS.items()}, **_SPELLINGS}

Pair = tuple[str, str]


def family_of(pattern: str) -> str | None:
    """Return the name of a pattern in wide use, or None for any other."""
    return _FAMILIES.get(pattern)


@dataclass(frozen=True)
class MapParts:
    """The parts of a map. `vocab` has the ordinary tokens, spelled as in map files; `merges` is empty if every id is
    its token's rank; `patterns` are the stages of splitting, which keep what they do not match if `keeps_gaps`."""

    kind: EncoderKind
    vocab: Mapping[str, int]
    specials: Mapping[str, int]
    merges: Sequence[str] = ()
    patterns: tuple[str, ...] = ()
    normalizer: Normalizer | None = None
    added: tuple[str, ...] = ()
    keeps_gaps: bool = False
    has_prefix: bool = True
    byte_fallback_start: int | None = None
    notes: tuple[str, ...] = ()


def with_choices(
    parts: MapParts, *, pattern: str | None, specials: Mapping[str, int], normalizer: str | None
) -> MapParts:
    """Return the parts with what the caller chose, which takes precedence. The normalizer `none` removes one."""
    if pattern is not None:
        parts = replace(parts, patterns=(pattern,), keeps_gaps=False)
    if normalizer is not None:
        names: dict[str, Normalizer] = {"nfc": "nfc", "nfkc": "nfkc"}
        parts = replace(parts, normalizer=names.get(normalizer))
    chosen_ids = frozenset(specials.values())
    vocab = {token: id for token, id in parts.vocab.items() if id not in chosen_ids}
    others = {name: id for name, id in parts.specials.items() if id not in chosen_ids}
    added = tuple(token for token in parts.added if token in vocab)
    return replace(parts, vocab=vocab, specials={**others, **specials}, added=added)


def spell_bytes(token: bytes) -> str:
    """Return a token in the byte alphabet."""
    return "".join(BYTE_ALPHABET[byte] for byte in token)


# Merges


def own_merges(tokens: Iterable[str], merges: Sequence[Pair]) -> dict[str, int]:
    """Return, for each token that its own text ends as when it is encoded alone, the position of the merge that makes
    it. Nothing else ever makes this token: inside of its text, joining does not depend on what is around it."""
    ranks: dict[Pair, int] = {}
    for rank, pair in enumerate(merges):
        ranks.setdefault(pair, rank)
    last = ((token, _last_merge(token, ranks)) for token in tokens)
    return {token: rank for token, rank in last if rank is not None}


def _last_merge(token: str, ranks: Mapping[Pair, int]) -> int | None:
    symbols = list(token)
    best: int | None = None
    while len(symbols) > 1:
        pairs = ((ranks.get(pair), at) for at, pair in enumerate(pairwise(symbols)))
        joinable = [(rank, at) for rank, at in pairs if rank is not None]
        if not joinable:
            return None
        best, at = min(joinable)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    return best


def are_complete(tokens: Sequence[str], merges: Sequence[Pair]) -> bool:
    """Do the merges have every split of every token into two of these tokens?"""
    return frozenset(merges) >= frozenset(all_merges(tokens))


def in_order(ranks: Mapping[str, int]) -> list[str]:
    return sorted(ranks, key=ranks.__getitem__)


def ascend(tokens: Iterable[str], ids: Mapping[str, int]) -> bool:
    """Do these tokens have ascending ids?"""
    row = [ids[token] for token in tokens]
    return row == sorted(set(row))


# The file


def write_map(parts: MapParts, *, id: str) -> bytes:
    """Return the bytes of the map file. They are not checked here: reading them is the check (token_map)."""
    document: dict[str, Any] = {
        "id": id,
        "version": "2",
        "vocab_size": len(parts.vocab.keys() | parts.specials.keys()),
        "encoder": parts.kind,
    }
    if parts.normalizer is not None:
        document["normalizer"] = parts.normalizer
    if parts.kind == "metaspace" and not parts.has_prefix:
        document["prefix"] = "never"
    if parts.byte_fallback_start is not None:
        document["byte_fallback_start"] = parts.byte_fallback_start
        document["byte_fallback_end"] = parts.byte_fallback_start + 255
    if len(parts.patterns) == 1 and not (parts.keeps_gaps and _leaves_out(parts.patterns[0])):
        document["pre_tokenizer_pattern"] = parts.patterns[0]
    elif parts.patterns:
        document["pre_tokenizer_patterns"] = list(parts.patterns)
    document["special_tokens"] = _by_id(parts.specials)
    if parts.added:
        document["added_tokens"] = sorted(parts.added, key=parts.vocab.__getitem__)
    document["vocab"] = _by_id(parts.vocab)
    if parts.merges:
        document["merges"] = list(parts.merges)
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise MapInvalidError(f"{id}: a token cannot be written as UTF-8") from None


def _by_id(ids: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(ids.items(), key=lambda entry: (entry[1], entry[0])))


def _leaves_out(pattern: str) -> bool:
    """Does the pattern leave out a part of a text with every code point? An encoder of single bytes shows it."""
    text = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    try:
        singles = call_engine(
            tiktoken.Encoding,
            "bytes",
            pat_str=pattern,
            mergeable_ranks={bytes([byte]): byte for byte in range(256)},
            special_tokens={},
        )
        return bytes(call_engine(singles.encode_ordinary, text)) != text.encode()
    except ValueError as error:
        raise MapInvalidError(f"unusable pattern ({error})") from None
    except TextError:  # it matches empty pieces
        return True


def fallback_start(vocab: Mapping[str, int]) -> int | None:
    """Return the id of byte 00, if all 256 bytes have ids in a row: each as `<0x..>`, or as its character."""
    start = vocab.get(BYTE_NAMES[0])
    if start is None:
        return None
    ids = (vocab.get(name, vocab.get(chr(byte))) for byte, name in enumerate(BYTE_NAMES))
    return start if all(id == start + byte for byte, id in enumerate(ids)) else None
