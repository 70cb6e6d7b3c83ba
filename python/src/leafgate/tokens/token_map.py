"""Reading of tokenizer maps from the raw bytes of a map file (spec 5.3).

Everything in a map is foreign until it is checked here; errors say what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from leafgate.model.errors import MapHashMismatchError, MapInvalidError, MapUnreachableError
from leafgate.model.leaf import MAX_ID, digest_of, parse_digest
from leafgate.tokens.ids import TokenTable, make_table

MAX_MAP_BYTES: Final = 64 * 1024 * 1024

EncoderKind = Literal["byte_level", "metaspace"]


def _byte_alphabet() -> str:
    """Return the GPT-2 alphabet as one string: its n-th character represents byte n."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    stand_ins = iter(range(0x100, 0x200))
    return "".join(chr(b if b in printable else next(stand_ins)) for b in range(256))


BYTE_ALPHABET: Final = _byte_alphabet()
_TO_LATIN1: Final = {ord(char): byte for byte, char in enumerate(BYTE_ALPHABET)}
# Translates a whole vocabulary at once. A Latin-1 character that is not in the alphabet must not become a byte: it is
# mapped to a character that cannot be encoded. The line feed is not in the alphabet, so it can separate tokens.
_SEPARATOR: Final = "\u0100"
_STRICTLY_TO_LATIN1: Final = {**dict.fromkeys(range(256), 0xFFFD), **_TO_LATIN1, 0x0A: ord(_SEPARATOR)}


@dataclass(frozen=True)
class TokenMap:
    """A valid map. `ranks` is the order of merges; `id_of_rank` is None if every rank is its token's id."""

    id: str
    digest: str
    kind: EncoderKind
    token_of_id: Mapping[int, bytes]
    specials: Mapping[str, int]
    # byte_level
    pattern: str = ""
    ranks: Mapping[bytes, int] = field(default_factory=dict)
    id_of_rank: tuple[int, ...] | None = None
    warnings: tuple[str, ...] = ()
    # metaspace
    merges: tuple[tuple[str, str], ...] = ()
    vocab: Mapping[str, int] = field(default_factory=dict)
    byte_fallback_start: int | None = None

    @property
    def special_ids(self) -> frozenset[int]:
        return frozenset(self.specials.values())

    @cached_property
    def table(self) -> TokenTable | None:
        """The bytes of all tokens, for decoding many ids at once; None if the ids are too far apart for a table."""
        return make_table(self.token_of_id, self.special_ids)


def read_map(raw: bytes, *, where: str, expected_digest: str | None = None) -> TokenMap:
    """Check the digest first, then the content, and return the map. `where` names the source in errors."""
    if len(raw) > MAX_MAP_BYTES:
        raise MapUnreachableError(f"{where}: {len(raw)} bytes, more than the limit of {MAX_MAP_BYTES}")
    digest = digest_of(raw)
    if expected_digest is not None and parse_digest(expected_digest) != digest:
        raise MapHashMismatchError(where, parse_digest(expected_digest), digest)
    try:
        document = json.loads(raw.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MapInvalidError(f"{where}: not JSON ({error})") from None
    if not isinstance(document, dict):
        raise MapInvalidError(f"{where}: not a JSON object")
    return _Reading(document, where, digest).token_map()


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


class _Reading:
    def __init__(self, document: dict[str, Any], where: str, digest: str) -> None:
        self.document = document
        self.where = where
        self.digest = digest

    def refuse(self, reason: str) -> MapInvalidError:
        return MapInvalidError(f"{self.where}: {reason}")

    def token_map(self) -> TokenMap:
        kind = self.document.get("encoder", "byte_level")
        specials = self._ids("special_tokens", {})
        vocab = self._ids("tokens" if "vocab" not in self.document else "vocab", None)
        self._refuse_placeholder(vocab, specials)
        special_ids = set(specials.values())
        ordinary = {token: id for token, id in vocab.items() if id not in special_ids}
        if len(set(ordinary.values())) != len(ordinary) or len(special_ids) != len(specials):
            raise self.refuse("two tokens share an id")
        if kind == "byte_level":
            return self._byte_level(ordinary, specials)
        if kind == "metaspace":
            return self._metaspace(ordinary, specials)
        raise self.refuse(f"unknown encoder {kind!r}")

    def _id(self) -> str:
        map_id = self.document.get("id")
        return map_id if isinstance(map_id, str) else ""

    def _ids(self, field: str, default: dict[str, int] | None) -> dict[str, int]:
        ids = self.document.get(field, default)
        if isinstance(ids, list):  # version 1 may list its tokens in the order of their ids
            ids = {token: id for id, token in enumerate(ids) if isinstance(token, str)}
        if not isinstance(ids, dict):
            raise self.refuse(f"`{field}` is missing or not an object")
        values = ids.values()
        if set(map(type, values)) - {int} or (values and not 0 <= min(values) <= max(values) <= MAX_ID):
            raise self.refuse(f"`{field}` holds an id that is not an integer from 0 to {MAX_ID}")
        return ids

    def _refuse_placeholder(self, vocab: dict[str, int], specials: dict[str, int]) -> None:
        declared = self.document.get("vocab_size")
        entries = len(vocab.keys() | specials.keys())
        if self.document.get("_synthetic") is True or not vocab:
            raise self.refuse("a placeholder without a vocabulary")
        if type(declared) is int and entries < declared:
            raise self.refuse(f"a placeholder or cut off: it declares {declared} entries and holds {entries}")

    def _merges(self) -> tuple[tuple[str, str], ...] | None:
        merges = self.document.get("merges")
        if merges is None or merges == []:
            return None
        if not isinstance(merges, list):
            raise self.refuse("`merges` is not an array")
        pairs = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) if isinstance(m, list) else () for m in merges]
        if any(len(p) != 2 or not all(isinstance(part, str) and part for part in p) for p in pairs):
            raise self.refuse('`merges` holds an entry that is not "left right"')
        return tuple((p[0], p[1]) for p in pairs)

    def _byte_level(self, ordinary: dict[str, int], specials: dict[str, int]) -> TokenMap:
        pattern = self.document.get("pre_tokenizer_pattern")
        if not isinstance(pattern, str) or not pattern:
            raise self.refuse("`pre_tokenizer_pattern` is missing; byte_level maps need one")
        tokens = self._bytes_of(ordinary)
        missing = [b for b in range(256) if bytes([b]) not in tokens]
        if missing:
            raise self.refuse(f"no token for {len(missing)} of the 256 bytes, the first is 0x{missing[0]:02x}")
        ranks, id_of_rank = self._ranks(tokens)
        return TokenMap(
            id=self._id(),
            digest=self.digest,
            kind="byte_level",
            token_of_id={id: token for token, id in tokens.items()},
            specials=specials,
            pattern=pattern,
            ranks=ranks,
            id_of_rank=id_of_rank,
            warnings=self._warnings(pattern),
        )

    def _bytes_of(self, ordinary: dict[str, int]) -> dict[bytes, int]:
        text = "\n".join(ordinary)
        if text.count("\n") != len(ordinary) - 1:
            raise self.refuse("a token is not written in the byte alphabet")
        try:
            tokens = text.translate(_STRICTLY_TO_LATIN1).split(_SEPARATOR)
            encoded = [token.encode("latin-1") for token in tokens]
        except UnicodeEncodeError:
            raise self.refuse("a token is not written in the byte alphabet") from None
        if b"" in encoded:
            raise self.refuse("an empty token")
        return dict(zip(encoded, ordinary.values(), strict=True))

    def _ranks(self, tokens: dict[bytes, int]) -> tuple[dict[bytes, int], tuple[int, ...] | None]:
        merges = self._merges()
        if merges is None:
            return tokens, None
        results = (self._as_bytes(left) + self._as_bytes(right) for left, right in merges)
        order = dict.fromkeys([*(bytes([b]) for b in range(256)), *results])
        unknown = next((token for token in order if token not in tokens), None)
        if unknown is not None:
            raise self.refuse(f"a merge makes {unknown!r}, which is not a token")
        ids = tuple(tokens[token] for token in order)
        return {token: rank for rank, token in enumerate(order)}, ids

    def _as_bytes(self, token: str) -> bytes:
        try:
            return bytes(_TO_LATIN1[ord(char)] for char in token)
        except KeyError:
            raise self.refuse("a merge is not written in the byte alphabet") from None

    def _warnings(self, pattern: str) -> tuple[str, ...]:
        program = self.document.get("pre_tokenizer_program")
        ops = program.get("ops") if isinstance(program, dict) else None
        if not isinstance(ops, list):
            return ()
        numbers = [op for op in ops if isinstance(op, dict) and op.get("op") == "numbers"]
        if any(bool(op.get("lead_space")) != (r" ?\p{N}" in pattern) for op in numbers):
            return ('its program and its pattern cut " 1" differently; the pattern counts',)
        return ()

    def _metaspace(self, ordinary: dict[str, int], specials: dict[str, int]) -> TokenMap:
        merges = self._merges()
        if merges is None:
            raise self.refuse("`merges` is missing; metaspace maps need them")
        if "" in ordinary:
            raise self.refuse("an empty token")
        start, end = self.document.get("byte_fallback_start"), self.document.get("byte_fallback_end")
        if type(start) is not int or type(end) is not int or end - start != 255:
            raise self.refuse("`byte_fallback_start` and `byte_fallback_end` do not span 256 ids")
        if any(start <= id <= end and token != f"<0x{id - start:02X}>" for token, id in ordinary.items()):
            raise self.refuse("a token and a fallback byte share an id")
        token_of_id = {id: token.replace("▁", " ").encode("utf-8", "surrogatepass") for token, id in ordinary.items()}
        token_of_id |= {start + b: bytes([b]) for b in range(256)}
        return TokenMap(
            id=self._id(),
            digest=self.digest,
            kind="metaspace",
            token_of_id=token_of_id,
            specials=specials,
            merges=merges,
            vocab=ordinary,
            byte_fallback_start=start,
        )
