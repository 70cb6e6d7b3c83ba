"""The ids digest: maps that give the same ids for ordinary text have the same one (spec 5.10).

It covers tokens, ids, the order of joining, splitting, added tokens and the prefix. Names, special tokens and the
normalizer are not part of it: checking the ids of a text shows whether a normalizer changed the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from leafgate.tokens.map_building import PATTERNS
from leafgate.tokens.token_map import BYTE_NAMES, TokenMap

# Patterns that split every text as another one does, which is written in their place. A test proves it over the corpus.
EQUAL_PATTERNS: Final = {
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": PATTERNS["gpt2"],
}


def ids_digest(token_map: TokenMap) -> str:
    """Return `sha256:` and the digest of everything that decides the ids of ordinary text."""
    hash = hashlib.sha256()
    for line in _lines(token_map):
        hash.update(line.encode() + b"\n")
    return f"sha256:{hash.hexdigest()}"


def _lines(token_map: TokenMap) -> Iterator[str]:
    yield "ids 1"
    if token_map.kind == "byte_level":
        yield "byte_level"
    else:
        yield f"metaspace {'always' if token_map.has_prefix else 'never'} {token_map.byte_fallback_start}"
    for pattern in token_map.patterns or filter(None, (token_map.pattern,)):
        yield f"split {EQUAL_PATTERNS.get(pattern, pattern).encode().hex()}"
    for token, id in sorted(token_map.added.items(), key=lambda entry: entry[1]):
        yield f"added {token.encode().hex()} {id}"
    yield from _joined(token_map) if token_map.kind == "byte_level" else _pieces(token_map)


def _joined(token_map: TokenMap) -> Iterator[str]:
    ids = token_map.id_of_rank
    for token, rank in sorted(token_map.ranks.items(), key=lambda entry: entry[1]):
        yield f"token {token.hex()} {rank if ids is None else ids[rank]}"


def _pieces(token_map: TokenMap) -> Iterator[str]:
    apart = token_map.added.keys() | set(BYTE_NAMES)
    for token, id in sorted(token_map.vocab.items(), key=lambda entry: entry[1]):
        if token not in apart:
            yield f"token {token.encode('utf-8', 'surrogatepass').hex()} {id}"
    for left, right in token_map.merges or ():
        yield f"merge {left.encode().hex()} {right.encode().hex()}"
