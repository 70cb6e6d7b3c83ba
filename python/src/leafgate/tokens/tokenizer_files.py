"""Readers of tokenizers' own files: what each says becomes the parts of a map (spec 5.9).

A feature that a map cannot express is refused, with the part of the file that asks for it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

from leafgate.model.errors import MapInvalidError
from leafgate.tokens import sentencepiece_model
from leafgate.tokens.encoder import all_merges
from leafgate.tokens.map_building import (
    PATTERNS,
    MapParts,
    Pair,
    are_complete,
    ascend,
    fallback_start,
    in_order,
    own_merges,
    spell_bytes,
)
from leafgate.tokens.token_map import BYTE_ALPHABET, BYTE_NAMES, SPACE_MARK, Normalizer

_RANK_LINE: Final = re.compile(rb"[A-Za-z0-9+/]+={0,2} +[0-9]+\s*")
_NORMALIZERS: Final[Mapping[str, Normalizer]] = {"NFC": "nfc", "NFKC": "nfkc"}
_SPACE_TO_MARK: Final = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
_PREPEND_MARK: Final = {"type": "Prepend", "prepend": SPACE_MARK}
# Of the public tokenizer of Claude, whose program normalizes; its file does not say so.
_CLAUDE_SPECIAL: Final = "<META_START>"
_SPECIAL_TYPES: Final = (
    sentencepiece_model.UNKNOWN,
    sentencepiece_model.CONTROL,
    sentencepiece_model.USER_DEFINED,
)
_ALPHABET: Final = frozenset(BYTE_ALPHABET)
_ESCAPED: Final = frozenset(r"\.+*?()|[]{}^$#&-~")


def read_tokenizer(raw: bytes, *, where: str) -> MapParts:
    """Read a tokenizer's file of any kind."""
    if raw.lstrip()[:1] in (b"{", b"["):
        return _read_json(raw, where)
    first_line = raw.lstrip()[:2000].partition(b"\n")[0]
    if _RANK_LINE.fullmatch(first_line) or not raw.strip():
        return read_rank_file(raw, where=where)
    return read_sentencepiece(raw, where=where)


def _read_json(raw: bytes, where: str) -> MapParts:
    try:
        document = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise MapInvalidError(f"{where}: not JSON ({error})") from None
    if not isinstance(document, dict):
        raise MapInvalidError(f"{where}: not a JSON object")
    if "model" in document:
        return TokenizerJson(document, where).parts()
    if "bpe_ranks" in document:
        return _read_tiktoken_json(document, where)
    if "config" in document and "vocab" in document:
        return _read_tekken(document, where)
    if "encoder" in document or "pre_tokenizer_pattern" in document:
        raise MapInvalidError(f"{where}: this is a map already")
    raise MapInvalidError(f"{where}: not a tokenizer.json, a tekken.json or a JSON file of tiktoken")


# tiktoken


def read_rank_file(raw: bytes, *, where: str) -> MapParts:
    """Read a `.tiktoken` file: one token in base64 and its rank per line, without a pattern or special tokens."""
    lines = ((number, line) for number, line in enumerate(raw.splitlines(), start=1) if line.strip())
    return _from_ranks((_rank_line(line, f"{where}:{number}") for number, line in lines), where)


def _from_ranks(rows: Iterator[tuple[bytes, int]], where: str) -> MapParts:
    ranks: dict[bytes, int] = {}
    for token, rank in rows:
        if token in ranks:
            raise MapInvalidError(f"{where}: the token {token!r} occurs twice")
        ranks[token] = rank
    if not ranks:
        raise MapInvalidError(f"{where}: no ranks in it")
    return MapParts("byte_level", {spell_bytes(token): rank for token, rank in ranks.items()}, {})


def _rank_line(line: bytes, where: str) -> tuple[bytes, int]:
    encoded, _, rank = line.strip().partition(b" ")
    if not rank.strip().isdigit():
        raise MapInvalidError(f"{where}: not a token in base64 and a rank")
    return _token(encoded, where), int(rank[:20])


def _token(encoded: bytes | str, where: str) -> bytes:
    try:
        token = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        token = b""
    if not token:
        raise MapInvalidError(f"{where}: not a token in base64 and a rank")
    return token


def _read_tiktoken_json(document: dict[str, Any], where: str) -> MapParts:
    """Read the JSON of tiktoken for JavaScript: lines of a first rank and tokens in base64."""
    pattern, specials, lines = (document.get(name) for name in ("pat_str", "special_tokens", "bpe_ranks"))
    if not isinstance(pattern, str) or not _are_ids(specials) or not isinstance(lines, str):
        raise MapInvalidError(f"{where}: `pat_str`, `special_tokens` or `bpe_ranks` is missing")

    def rows() -> Iterator[tuple[bytes, int]]:
        for line in filter(None, lines.split("\n")):
            _, first, *tokens = line.split(" ") if " " in line else (line, "")
            if not (first.isascii() and first.isdigit()):
                raise MapInvalidError(f"{where}: a line of `bpe_ranks` has no first rank")
            yield from ((_token(token, where), int(first[:20]) + place) for place, token in enumerate(tokens))

    parts = _from_ranks(rows(), where)
    normalizer: Normalizer | None = "nfkc" if _CLAUDE_SPECIAL in specials else None
    return MapParts("byte_level", parts.vocab, specials, patterns=(pattern,), normalizer=normalizer)


# Mistral


def _read_tekken(document: dict[str, Any], where: str) -> MapParts:
    config, rows, listed = document["config"], document["vocab"], document.get("special_tokens")
    try:
        specials_count = config["default_num_special_tokens"]
        most = config["default_vocab_size"] - specials_count
        _require_ints(specials_count, most, *(row["rank"] for row in (*rows, *(listed or ()))))
        ranks = ((_token(row["token_bytes"], where), row["rank"]) for row in rows if row["rank"] < most)
        parts = _from_ranks(((token, rank + specials_count) for token, rank in ranks), where)
        specials = {row["token_str"]: row["rank"] for row in listed or ()}
        pattern = config["pattern"]
        if any(not isinstance(text, str) for text in (pattern, *specials)):
            raise TypeError("not a text")
    except (KeyError, TypeError):
        raise MapInvalidError(f"{where}: `config`, `vocab` or `special_tokens` is not as in a tekken.json") from None
    taken = set(specials.values())
    specials |= {f"<SPECIAL_{id}>": id for id in range(specials_count) if id not in taken}
    notes = () if listed else ("it does not name its special tokens; they are called <SPECIAL_0> and so on",)
    return MapParts("byte_level", parts.vocab, specials, patterns=(pattern,), notes=notes)


def _require_ints(*values: object) -> None:
    if any(type(value) is not int for value in values):
        raise TypeError("not an integer")


# SentencePiece


def read_sentencepiece(raw: bytes, *, where: str) -> MapParts:
    """Read a .model file. Pieces of equal score join from left to right there; by their ids in the map."""
    model = sentencepiece_model.read_model(raw, where)

    def refuse(reason: str) -> MapInvalidError:
        return MapInvalidError(f"{where}: {reason}")

    if model.type != sentencepiece_model.BPE:
        raise refuse(f"a {sentencepiece_model.MODEL_NAMES.get(model.type, '?')} model; maps support only BPE")
    if not model.byte_fallback:
        raise refuse("no byte fallback: characters outside its vocabulary would be lost")
    if model.has_normalizer or model.removes_spaces or model.space_is_suffix or not model.escapes_spaces:
        raise refuse("its normalizer (a table of characters, or rules for spaces) changes the text")
    ids = {piece.text: id for id, piece in enumerate(model.pieces)}
    types = {piece.text: piece.type for piece in model.pieces}
    ordinary = {
        text: id for text, id in ids.items() if types[text] in (sentencepiece_model.NORMAL, sentencepiece_model.BYTE)
    }
    specials = {text: id for text, id in ids.items() if types[text] in _SPECIAL_TYPES}
    if len(ordinary) + len(specials) != len(model.pieces):
        raise refuse("it has unused pieces, or two pieces with the same text")
    named = [text for text in specials if types[text] == sentencepiece_model.USER_DEFINED]
    plain = [text for text in named if not _is_bracketed(text)]
    if plain:
        raise refuse(f"its user-defined piece {plain[0]!r} is part of texts; build from its tokenizer.json")
    scores = {piece.text: -piece.score for piece in model.pieces}
    joined = sorted(
        (t for t in ordinary if types[t] == sentencepiece_model.NORMAL), key=lambda token: (scores[token], ids[token])
    )
    merges = [*all_merges(joined)]
    return _metaspace_parts(ordinary, specials, merges, has_prefix=model.adds_prefix, where=where)


def _is_bracketed(text: str) -> bool:
    return len(text) > 2 and (text[0], text[-1]) in (("<", ">"), ("[", "]"))


# Hugging Face


class TokenizerJson:
    """A `tokenizer.json` with a BPE model, byte-level or metaspace."""

    def __init__(self, document: dict[str, Any], where: str) -> None:
        self.document = document
        self.where = where
        model = document.get("model")
        self.model: dict[str, Any] = model if isinstance(model, dict) else {}
        self.normalizers = [*_steps(document.get("normalizer"), "normalizers")]
        self.splits = [*_steps(document.get("pre_tokenizer"), "pretokenizers")]

    def refuse(self, reason: str) -> MapInvalidError:
        return MapInvalidError(f"{self.where}: {reason}")

    def parts(self) -> MapParts:
        if self.model.get("type") != "BPE":
            raise self.refuse(f"its model is {self.model.get('type')!r}; maps support only BPE")
        for effect in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
            if self.model.get(effect):
                raise self.refuse(f"its model has a {effect}, which a map cannot express")
        vocab = self.model.get("vocab")
        if not _are_ids(vocab) or not vocab:
            raise self.refuse("its model has no vocabulary of tokens and ids")
        specials, added = self.added_tokens(vocab)
        vocab = {token: id for token, id in vocab.items() if token not in specials}
        if self.model.get("byte_fallback"):
            return self._metaspace(vocab, specials, added)
        return self._byte_level(vocab, specials, added)

    def added_tokens(self, vocab: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Return the special tokens, which no ordinary text may give, and the others, which texts contain as wholes."""
        rows = self.document.get("added_tokens", [])
        if not isinstance(rows, list):
            raise self.refuse("`added_tokens` is not an array")
        specials: dict[str, int] = {}
        added: dict[str, int] = {}
        for row in rows:
            if not isinstance(row, dict) or type(row.get("id")) is not int or not isinstance(row.get("content"), str):
                raise self.refuse("an added token has no id or no content")
            content = row["content"]
            if row.get("special") is True or (content not in vocab and not content.isspace()):
                specials[content] = row["id"]
            else:
                self._check_flags(row)
                added[content] = row["id"]
        if len({bool(row.get("normalized")) for row in rows if row["content"] in added}) > 1:
            raise self.refuse("some of its added tokens are found before all others (`normalized` differs)")
        return specials, added

    def _check_flags(self, row: Mapping[str, Any]) -> None:
        for flag in ("single_word", "lstrip", "rstrip"):
            if row.get(flag):
                raise self.refuse(f"its added token {row['content']!r} is `{flag}`, which a map cannot express")
        if row.get("normalized") and self.normalizers and not row["content"].isspace():
            raise self.refuse(f"its added token {row['content']!r} is found in the normalized text, not in the text")

    def merges(self) -> list[Pair]:
        merges = self.model.get("merges")
        if not isinstance(merges, list):
            raise self.refuse("its model has no merges")
        pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else merge for merge in merges]
        if any(not isinstance(pair, list | tuple) or len(pair) != 2 or not _are_words(pair) for pair in pairs):
            raise self.refuse("a merge is not two tokens without spaces")
        return [(left, right) for left, right in pairs]

    def _normalizer(self, steps: list[dict[str, Any]]) -> Normalizer | None:
        names = [str(step.get("type")) for step in steps]
        if len(names) > 1 or not _NORMALIZERS.keys() >= set(names):
            raise self.refuse(
                f"its normalizer ({', '.join(names)}) changes the text in a way that a map cannot express"
            )
        return _NORMALIZERS[names[0]] if names else None

    def _byte_level(self, vocab: dict[str, int], specials: dict[str, int], added: dict[str, int]) -> MapParts:
        # A piece is written in the byte alphabet before it is looked up: other tokens (emoji in Command R) never match.
        lost = [token for token in vocab if not _ALPHABET.issuperset(token) and token not in added]
        vocab = {token: id for token, id in vocab.items() if _ALPHABET.issuperset(token)}
        for content, id in added.items():
            vocab.pop(content, None)
            if vocab.setdefault(spell_bytes(content.encode()), id) != id:
                raise self.refuse(f"its added token {content!r} has the bytes of another token")
        spelled = tuple(spell_bytes(content.encode()) for content in added)
        joined = {token: id for token, id in vocab.items() if token not in spelled}
        merges = self._byte_level_merges(joined, self.merges())
        normalizer = self._normalizer(self.normalizers)
        keeps_gaps = not any(step.get("behavior") == "Removed" for step in self.splits)
        return MapParts(
            "byte_level",
            vocab,
            specials,
            merges,
            self._patterns(),
            normalizer,
            spelled,
            keeps_gaps,
            notes=_left_out(lost),
        )

    def _byte_level_merges(self, vocab: dict[str, int], merges: list[Pair]) -> tuple[str, ...]:
        """Return the merges that the map needs, or none. Refuses if ranks of tokens do not say what pairs say."""
        made = dict.fromkeys(left + right for left, right in merges)
        unknown = next((token for token in made if token not in vocab), None)
        if unknown is not None:
            raise self.refuse(f"a merge makes {unknown!r}, which is not an ordinary token")
        ranks = own_merges(made, merges)
        highest_byte = max((vocab.get(char, -1) for char in BYTE_ALPHABET), default=-1)
        bytes_first = highest_byte < min((vocab[token] for token in made), default=0)
        if self.model.get("ignore_merges"):
            if len(ranks) < len(made) and not are_complete([*vocab], merges):
                raise self.refuse("it takes pieces as wholes (`ignore_merges`), and its merges lack splits of tokens")
            if not bytes_first or not ascend(made, vocab):
                raise self.refuse("it takes pieces as wholes (`ignore_merges`), and its ids do not follow its merges")
            return ()
        wrong = next((token for token in made if token not in ranks), None)
        if wrong is not None:
            raise self.refuse(f"its merges never make the token {wrong!r} of that text, which a map would")
        order = in_order(ranks)
        if bytes_first and ascend(order, vocab) and vocab.keys() == {*BYTE_ALPHABET, *made}:
            return ()
        return tuple(" ".join(merges[ranks[token]]) for token in order)

    def _patterns(self) -> tuple[str, ...]:
        """Return the pattern of each stage of splitting."""
        *stages, last = self.splits or [{}]
        if last.get("type") != "ByteLevel":
            raise self.refuse(f"its last step of splitting is {last.get('type')!r}, not ByteLevel")
        if last.get("add_prefix_space"):
            raise self.refuse("it puts a space in front of the text, which a byte_level map cannot express")
        own = [PATTERNS["gpt2"]] if last.get("use_regex", True) else []
        patterns = [*(self._stage(step, len(stages)) for step in stages), *own]
        if not patterns:
            raise self.refuse("it does not split texts, which a byte_level map has to")
        return tuple(patterns)

    def _stage(self, step: Mapping[str, Any], stages: int) -> str:
        if step.get("type") == "Digits":
            return r"\p{N}" if step.get("individual_digits") else r"\p{N}+"
        if step.get("type") != "Split":
            raise self.refuse(f"its step of splitting {step.get('type')!r} is not one that a map can express")
        behaviour = step.get("behavior"), bool(step.get("invert"))
        if behaviour != ("Isolated", False) and (behaviour != ("Removed", True) or stages > 1):
            raise self.refuse(f"it splits with the behaviour {behaviour[0]!r}; a map isolates what it matches")
        pattern = step.get("pattern")
        pattern = pattern if isinstance(pattern, dict) else {}
        string = pattern.get("String")
        escaped = "".join(f"\\{c}" if c in _ESCAPED else c for c in string) if isinstance(string, str) else ""
        regex = pattern.get("Regex") or escaped
        if not isinstance(regex, str) or not regex:
            raise self.refuse("a step of splitting has no pattern")
        return regex

    def _metaspace(self, vocab: dict[str, int], specials: dict[str, int], added: dict[str, int]) -> MapParts:
        # No text that has a tokenization contains the mark, so tokens with it are never found in one.
        findable = tuple(token for token in added if SPACE_MARK not in token)
        has_prefix = self._has_prefix()
        if findable and has_prefix:
            raise self.refuse(f"its added token {findable[0]!r} beside a {SPACE_MARK} in front of the text")
        merges = [pair for pair in self.merges() if "".join(pair) not in specials and not specials.keys() & set(pair)]
        return _metaspace_parts(
            vocab | added, specials, merges, added=findable, has_prefix=has_prefix, where=self.where
        )

    def _has_prefix(self) -> bool:
        """Whether it puts one mark in front of the text. Refuses any other way to write spaces."""
        before, splits = self.normalizers, self.splits
        # Where every space became a mark, none is left to split at.
        one_piece = not splits or (len(splits) == 1 and splits[0].get("pattern") == {"String": " "})
        if before in ([_PREPEND_MARK, _SPACE_TO_MARK], [_SPACE_TO_MARK]) and one_piece:
            return len(before) == 2
        whole = {"type": "Metaspace", "replacement": SPACE_MARK, "split": False}
        if not before and len(splits) == 1 and whole.items() <= splits[0].items():
            # "first" differs from "always" only behind special tokens, which texts do not contain.
            return splits[0].get("prepend_scheme") != "never"
        raise self.refuse(f"it does not write spaces as a metaspace map does: as {SPACE_MARK}, the text in one piece")


def _metaspace_parts(
    vocab: Mapping[str, int],
    specials: Mapping[str, int],
    merges: Sequence[Pair],
    *,
    added: tuple[str, ...] = (),
    has_prefix: bool,
    where: str,
) -> MapParts:
    start = fallback_start(vocab)
    if start is None:
        raise MapInvalidError(f"{where}: its 256 fallback bytes do not have ids in a row")
    made = dict.fromkeys(left + right for left, right in merges)
    reachable = made.keys() | {part for pair in merges for part in pair} | set(added) | set(BYTE_NAMES)
    kept = {token: id for token, id in vocab.items() if token in reachable or len(token) == 1}
    unknown = next((part for pair in merges for part in (*pair, "".join(pair)) if part not in kept), None)
    if unknown is not None:
        raise MapInvalidError(f"{where}: a merge names {unknown!r}, which is not a token that texts give")
    ranks = own_merges(made, merges)
    order = in_order(ranks)
    joined = [token for token in kept if token not in added and token not in BYTE_NAMES]
    by_id = are_complete(joined, merges) and ascend(order, kept) and not made.keys() & set(added)
    return MapParts(
        "metaspace",
        kept,
        specials,
        () if by_id else tuple(" ".join(merges[ranks[token]]) for token in order),
        added=added,
        has_prefix=has_prefix,
        byte_fallback_start=start,
        notes=_left_out([token for token in vocab if token not in kept]),
    )


def _left_out(tokens: Sequence[str]) -> tuple[str, ...]:
    return (f"left out {len(tokens)} tokens that no text gives, such as {tokens[0]}",) if tokens else ()


def _are_ids(value: object) -> TypeGuard[dict[str, int]]:
    return isinstance(value, dict) and all(type(id) is int for id in value.values())


def _are_words(pair: Sequence[object]) -> bool:
    return all(isinstance(part, str) and part and " " not in part for part in pair)


def _steps(value: object, inner: str) -> Iterator[dict[str, Any]]:
    """Yield a step, or those of a sequence of steps."""
    if not isinstance(value, dict):
        return
    parts = value.get(inner)
    if value.get("type") != "Sequence" or not isinstance(parts, list):
        yield value
        return
    for part in parts:
        yield from _steps(part, inner)
