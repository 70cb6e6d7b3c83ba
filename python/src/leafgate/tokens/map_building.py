"""Building of maps from a tokenizer's own file: a rank file or a tokenizer.json.

The same input gives the same bytes, and so the same digest. A feature that a map cannot express is refused, or noted if
it affects only rare texts.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from leafgate.model.errors import MapInvalidError
from leafgate.tokens.token_map import BYTE_ALPHABET, EncoderKind

SPACE_MARK: Final = "\u2581"

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
}

# Equivalent spellings of two of them, as tiktoken has them
_SPELLINGS: Final[Mapping[str, str]] = {
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s": "cl100k",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
}
_FAMILIES: Final = {**{pattern: name for name, pattern in PATTERNS.items()}, **_SPELLINGS}


def family_of(pattern: str) -> str | None:
    """Return the name of a pattern in wide use, or None for any other."""
    return _FAMILIES.get(pattern)


# Tokenizer files


@dataclass(frozen=True)
class MapParts:
    """The parts of a map. `vocab` is spelled as in map files; `merges` is empty if every id is its token's rank."""

    kind: EncoderKind
    vocab: Mapping[str, int]
    specials: Mapping[str, int]
    merges: Sequence[str] = ()
    pattern: str | None = None
    byte_fallback_start: int | None = None
    notes: tuple[str, ...] = ()


def read_rank_file(raw: bytes, *, where: str) -> MapParts:
    """Read a `.tiktoken` file: one token in base64 and its rank per line, without a pattern or special tokens."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(raw.splitlines(), start=1):
        if not line.strip():
            continue
        token, rank = _rank_line(line, f"{where}:{number}")
        if token in ranks:
            raise MapInvalidError(f"{where}:{number}: the token occurs twice")
        ranks[token] = rank
    if not ranks:
        raise MapInvalidError(f"{where}: no ranks in it")
    vocab = {"".join(BYTE_ALPHABET[byte] for byte in token): rank for token, rank in ranks.items()}
    return MapParts("byte_level", vocab, {})


def _rank_line(line: bytes, where: str) -> tuple[bytes, int]:
    try:
        encoded, rank = line.split()
        token = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        raise MapInvalidError(f"{where}: not a token in base64 and a rank") from None
    if not token or not rank.isdigit():
        raise MapInvalidError(f"{where}: not a token in base64 and a rank")
    return token, int(rank[:20])


def read_tokenizer_json(raw: bytes, *, where: str) -> MapParts:
    """Read a Hugging Face `tokenizer.json` with a BPE model, byte-level or metaspace."""
    try:
        document = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise MapInvalidError(f"{where}: not JSON ({error})") from None
    if not isinstance(document, dict):
        raise MapInvalidError(f"{where}: not a JSON object")
    return _TokenizerJson(document, where).parts()


class _TokenizerJson:
    def __init__(self, document: dict[str, Any], where: str) -> None:
        self.document = document
        self.where = where
        model = document.get("model")
        self.model: dict[str, Any] = model if isinstance(model, dict) else {}

    def refuse(self, reason: str) -> MapInvalidError:
        return MapInvalidError(f"{self.where}: {reason}")

    def parts(self) -> MapParts:
        if self.model.get("type") != "BPE":
            raise self.refuse(f"its model is {self.model.get('type')!r}; maps support only BPE")
        for effect in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
            if self.model.get(effect):
                raise self.refuse(f"its model has a {effect}, which a map cannot express")
        vocab = self.model.get("vocab")
        if not isinstance(vocab, dict) or not vocab or any(type(id) is not int for id in vocab.values()):
            raise self.refuse("its model has no vocabulary of tokens and ids")
        specials = self._specials(vocab)
        return (
            self._metaspace(vocab, specials) if self.model.get("byte_fallback") else self._byte_level(vocab, specials)
        )

    def _specials(self, vocab: dict[str, int]) -> dict[str, int]:
        """Return control tokens and all tokens outside the model's vocabulary: no ordinary text may give them."""
        added_tokens = self.document.get("added_tokens", [])
        if not isinstance(added_tokens, list):
            raise self.refuse("`added_tokens` is not an array")
        specials: dict[str, int] = {}
        for token in added_tokens:
            if (
                not isinstance(token, dict)
                or type(token.get("id")) is not int
                or not isinstance(token.get("content"), str)
            ):
                raise self.refuse("an added token has no id or no content")
            if token.get("special") is True or token["content"] not in vocab:
                specials[token["content"]] = token["id"]
        return specials

    def _merges(self) -> list[tuple[str, str]]:
        merges = self.model.get("merges")
        if not isinstance(merges, list):
            raise self.refuse("its model has no merges")
        pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else merge for merge in merges]
        if any(not isinstance(pair, list | tuple) or len(pair) != 2 or not _are_words(pair) for pair in pairs):
            raise self.refuse("a merge is not two tokens without spaces")
        return [(left, right) for left, right in pairs]

    def _byte_level(self, vocab: dict[str, int], specials: dict[str, int]) -> MapParts:
        ordinary = {token: id for token, id in vocab.items() if token not in specials}
        merges = self._merges()
        return MapParts(
            "byte_level",
            ordinary,
            specials,
            () if _ids_are_ranks(ordinary, merges) else tuple(" ".join(pair) for pair in merges),
            self._pattern(),
            notes=self._normalizer_notes(),
        )

    def _normalizer_notes(self) -> tuple[str, ...]:
        names = [step.get("type") for step in _steps(self.document.get("normalizer"), "normalizers")]
        if set(names) - {"NFC"}:
            raise self.refuse(
                f"its normalizer ({', '.join(map(str, names))}) changes the text, which a map cannot express"
            )
        return ("it normalizes to NFC and a map does not: texts in another form get other ids",) if names else ()

    def _pattern(self) -> str | None:
        """Return the pattern, or None if the steps are not a single split by a pattern."""
        steps = _steps(self.document.get("pre_tokenizer"), "pretokenizers")
        if any(step.get("add_prefix_space") is True for step in steps):
            raise self.refuse("it puts a space in front of the text, which a byte_level map cannot express")
        if [step.get("type") for step in steps] == ["ByteLevel"]:
            return PATTERNS["gpt2"] if steps[0].get("use_regex", True) else None
        if [step.get("type") for step in steps] != ["Split", "ByteLevel"] or steps[1].get("use_regex", True):
            return None
        keeps_all = (steps[0].get("behavior"), bool(steps[0].get("invert"))) in (("Isolated", False), ("Removed", True))
        pattern = steps[0].get("pattern")
        regex = pattern.get("Regex") if isinstance(pattern, dict) else None
        return regex if keeps_all and isinstance(regex, str) else None

    def _metaspace(self, vocab: dict[str, int], specials: dict[str, int]) -> MapParts:
        if not self._puts_one_mark_in_front():
            raise self.refuse(f"it does not write spaces as a metaspace map does: one {SPACE_MARK} in front, one piece")
        fallback = [vocab.get(f"<0x{byte:02X}>") for byte in range(256)]
        start = fallback[0]
        if start is None or fallback != list(range(start, start + 256)):
            raise self.refuse("its 256 fallback bytes do not have ids in a row")
        merges = tuple(" ".join(pair) for pair in self._merges())
        return MapParts("metaspace", vocab, specials, merges, byte_fallback_start=start)

    def _puts_one_mark_in_front(self) -> bool:
        before = _steps(self.document.get("normalizer"), "normalizers")
        cut = _steps(self.document.get("pre_tokenizer"), "pretokenizers")
        if not cut:
            prepend = {"type": "Prepend", "prepend": SPACE_MARK}
            return before == [prepend, {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}]
        step = {"type": "Metaspace", "replacement": SPACE_MARK, "split": False}
        # "first" differs from "always" only behind special tokens, which texts do not contain.
        return (
            not before
            and len(cut) == 1
            and step.items() <= cut[0].items()
            and cut[0].get("prepend_scheme") in ("first", "always")
        )


def _are_words(pair: Sequence[object]) -> bool:
    return all(isinstance(part, str) and part and " " not in part for part in pair)


def _steps(value: object, inner: str) -> list[dict[str, Any]]:
    """Return a step, or a sequence of steps, as a flat list."""
    if not isinstance(value, dict):
        return []
    if value.get("type") != "Sequence":
        return [value]
    parts = value.get(inner)
    return [step for part in parts for step in _steps(part, inner)] if isinstance(parts, list) else [value]


def _ids_are_ranks(ordinary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> bool:
    """Do the ids already contain the order of the merges? A map without merges is half the size."""
    tokens = list(dict.fromkeys(left + right for left, right in merges))
    ids = [ordinary.get(token, -1) for token in tokens]
    bytes_first = max((ordinary.get(char, -1) for char in BYTE_ALPHABET), default=-1) < min(ids, default=0)
    return bytes_first and ids == sorted(set(ids)) and ordinary.keys() == {*BYTE_ALPHABET, *tokens}


def with_choices(parts: MapParts, *, pattern: str | None, specials: Mapping[str, int]) -> MapParts:
    """Return the parts with the pattern and the special tokens that the caller chose, which take precedence."""
    return replace(parts, pattern=pattern or parts.pattern, specials={**parts.specials, **specials})


def write_map(parts: MapParts, *, id: str) -> bytes:
    """Return the bytes of the map file. They are not checked here: reading them is the check (token_map)."""
    document: dict[str, Any] = {
        "id": id,
        "version": "2",
        "vocab_size": len(parts.vocab.keys() | parts.specials.keys()),
        "encoder": parts.kind,
    }
    if parts.byte_fallback_start is not None:
        document["byte_fallback_start"] = parts.byte_fallback_start
        document["byte_fallback_end"] = parts.byte_fallback_start + 255
    if parts.pattern is not None:
        document["pre_tokenizer_pattern"] = parts.pattern
    document["special_tokens"] = _by_id(parts.specials)
    document["vocab"] = _by_id(parts.vocab)
    if parts.merges:
        document["merges"] = list(parts.merges)
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise MapInvalidError(f"{id}: a token cannot be written as UTF-8") from None


def _by_id(ids: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(ids.items(), key=lambda entry: (entry[1], entry[0])))
