"""Reading of tokenizer maps from the raw bytes of a map file (spec 5.3).

Everything in a map is foreign until it is checked here; errors say what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from leafgate.model.errors import MapHashMismatchError, MapInvalidError, MapUnreachableError
from leafgate.model.leaf import MAX_ID, digest_of, parse_digest
from leafgate.tokens.ids import TokenTable, make_table

MAX_MAP_BYTES: Final = 64 * 1024 * 1024
_ASCII_SPACE: Final = " \t\n\r\x0b\x0c"

EncoderKind = Literal["byte_level", "metaspace"]
Normalizer = Literal["nfc", "nfkc"]
SPACE_MARK: Final = "\u2581"
BYTE_NAMES: Final = tuple(f"<0x{byte:02X}>" for byte in range(256))


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
    """A valid map. `ranks` is the order of merges; `id_of_rank` is None if every rank is its token's id.

    `patterns` are those of a map that splits in several stages; `pattern` is then empty. `added` are the tokens that
    are found in the text as wholes.
    """

    id: str
    digest: str
    kind: EncoderKind
    token_of_id: Mapping[int, bytes]
    specials: Mapping[str, int]
    # Of other maps that give the same ids (spec 5.10); the file does not say it, the caller does.
    equal_digests: frozenset[str] = frozenset()
    normalizer: Normalizer | None = None
    added: Mapping[str, int] = field(default_factory=dict)
    # byte_level
    pattern: str = ""
    patterns: tuple[str, ...] = ()
    ranks: Mapping[bytes, int] = field(default_factory=dict)
    id_of_rank: tuple[int, ...] | None = None
    warnings: tuple[str, ...] = ()
    # metaspace; `merges` is None if a token's id is its rank
    merges: tuple[tuple[str, str], ...] | None = None
    vocab: Mapping[str, int] = field(default_factory=dict)
    byte_fallback_start: int = 0
    has_prefix: bool = False

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

    def refuse_tokenizer_file(self) -> None:
        """Other files that describe a tokenizer are often given in the place of a map."""
        document = self.document
        if isinstance(document.get("model"), dict):
            kind = "a Hugging Face tokenizer.json"
        elif "bpe_ranks" in document:
            kind = "a tiktoken file"
        elif isinstance(document.get("config"), dict) and isinstance(document.get("vocab"), list):
            kind = "a tekken.json"
        else:
            return
        raise self.refuse(f"{kind}, not a map; build a map of it: leafgate maps build FILE --id OWNER/NAME")

    def token_map(self) -> TokenMap:
        self.refuse_tokenizer_file()
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

    def _choice(self, field: str, choices: tuple[str, ...]) -> Any:
        value = self.document.get(field)
        if value is not None and value not in choices:
            raise self.refuse(f"`{field}` is {value!r}; it is one of {', '.join(choices)}")
        return value

    def _added(self, ordinary: dict[str, int]) -> dict[str, int]:
        """Return the tokens to find as wholes, spelled as in `vocab`."""
        tokens = self.document.get("added_tokens", [])
        if not isinstance(tokens, list) or any(not isinstance(token, str) for token in tokens):
            raise self.refuse("`added_tokens` is not an array of tokens")
        if len(set(tokens)) != len(tokens) or not ordinary.keys() >= set(tokens):
            raise self.refuse("`added_tokens` names a token twice, or one that is not an ordinary token of `vocab`")
        return {token: ordinary[token] for token in tokens}

    def _refuse_added_beside_normalizer(self, added: Iterable[str]) -> None:
        if self.document.get("normalizer") is not None and any(token.strip(_ASCII_SPACE) for token in added):
            raise self.refuse("beside a `normalizer`, `added_tokens` consist of ASCII white space")

    def _patterns(self) -> tuple[str, tuple[str, ...]]:
        """Return the pattern, or the patterns of several stages."""
        one, several = self.document.get("pre_tokenizer_pattern"), self.document.get("pre_tokenizer_patterns")
        if several is None:
            if not isinstance(one, str) or not one:
                raise self.refuse("`pre_tokenizer_pattern` is missing; byte_level maps need one")
            return one, ()
        if one is not None:
            raise self.refuse("it has both `pre_tokenizer_pattern` and `pre_tokenizer_patterns`")
        if not isinstance(several, list) or not several or any(not isinstance(p, str) or not p for p in several):
            raise self.refuse("`pre_tokenizer_patterns` is not an array of patterns")
        return "", tuple(several)

    def _byte_level(self, ordinary: dict[str, int], specials: dict[str, int]) -> TokenMap:
        pattern, patterns = self._patterns()
        tokens = self._bytes_of(ordinary)
        missing = [b for b in range(256) if bytes([b]) not in tokens]
        if missing:
            raise self.refuse(f"no token for {len(missing)} of the 256 bytes, the first is 0x{missing[0]:02x}")
        added = self._added_texts(ordinary)
        ranks, id_of_rank = self._ranks(tokens, frozenset(added.values()))
        return TokenMap(
            id=self._id(),
            digest=self.digest,
            kind="byte_level",
            token_of_id={id: token for token, id in tokens.items()},
            specials=specials,
            normalizer=self._choice("normalizer", ("nfc", "nfkc")),
            added=added,
            pattern=pattern,
            patterns=patterns,
            ranks=ranks,
            id_of_rank=id_of_rank,
            warnings=self._warnings(pattern),
        )

    def _added_texts(self, ordinary: dict[str, int]) -> dict[str, int]:
        try:
            added = {self._as_bytes(token).decode(): id for token, id in self._added(ordinary).items()}
        except UnicodeDecodeError:
            raise self.refuse("`added_tokens` holds a token that is not UTF-8") from None
        self._refuse_added_beside_normalizer(added)
        return added

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

    def _ranks(
        self, tokens: dict[bytes, int], added: frozenset[int]
    ) -> tuple[dict[bytes, int], tuple[int, ...] | None]:
        merges = self._merges()
        if merges is None:
            return ({token: id for token, id in tokens.items() if id not in added} if added else tokens), None
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
        if "" in ordinary:
            raise self.refuse("an empty token")
        if "pre_tokenizer_pattern" in self.document or "pre_tokenizer_patterns" in self.document:
            raise self.refuse("metaspace maps have no patterns: the text is one piece")
        start = self._fallback_start(ordinary)
        has_prefix = self._choice("prefix", ("always", "never")) != "never"
        added = self._added(ordinary)
        if added and (has_prefix or any(SPACE_MARK in token for token in added)):
            raise self.refuse(f"`added_tokens` need the `prefix` never, and cannot hold {SPACE_MARK}")
        self._refuse_added_beside_normalizer(added)
        token_of_id = {
            id: token.replace(SPACE_MARK, " ").encode("utf-8", "surrogatepass") for token, id in ordinary.items()
        }
        token_of_id |= {start + b: bytes([b]) for b in range(256)}
        return TokenMap(
            id=self._id(),
            digest=self.digest,
            kind="metaspace",
            token_of_id=token_of_id,
            specials=specials,
            normalizer=self._choice("normalizer", ("nfc", "nfkc")),
            added=added,
            merges=self._merges(),
            vocab=ordinary,
            byte_fallback_start=start,
            has_prefix=has_prefix,
        )

    def _fallback_start(self, ordinary: dict[str, int]) -> int:
        start, end = self.document.get("byte_fallback_start"), self.document.get("byte_fallback_end")
        if type(start) is not int or type(end) is not int or end - start != 255:
            raise self.refuse("`byte_fallback_start` and `byte_fallback_end` do not span 256 ids")
        # A byte's id may be that of its character, which has the same bytes: Gemma's tab.
        if any(start <= id <= end and token not in _names_of(id - start) for token, id in ordinary.items()):
            raise self.refuse("a token and a fallback byte share an id")
        return start


def _names_of(byte: int) -> tuple[str, ...]:
    return (BYTE_NAMES[byte], chr(byte)) if byte < 0x80 else (BYTE_NAMES[byte],)
