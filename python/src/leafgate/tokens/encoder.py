"""Encoders: text to ids and back under one map.

Maps with one pattern use tiktoken, all others use Hugging Face's tokenizers, which is an extra. Text is always
ordinary text: the engines never get the special tokens. A panic of their Rust side is not an Exception (see
`call_engine`), and a long run of white space overflows the stack of tiktoken's pattern engine.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np
import tiktoken

from leafgate.model.errors import IdsError, MapInvalidError, MissingExtraError, TextError
from leafgate.model.leaf import MAX_ID, Reason
from leafgate.tokens.ids import IdArray
from leafgate.tokens.normalize import normalize
from leafgate.tokens.token_map import BYTE_ALPHABET, BYTE_NAMES, SPACE_MARK, TokenMap

try:
    import tokenizers
except ImportError:  # an extra: maps with one pattern do not need it
    tokenizers = None  # type: ignore[assignment]

# Unicode White_Space, the meaning of \s in the patterns; Python's own \s also includes U+001C to U+001F.
_SPACE = "\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LONG_RUN: Final = 8192
_LONG_BLANK = re.compile(f"[{_SPACE}]{{{_LONG_RUN},}}")
_LONG_SPACE = re.compile(f"[{_SPACE}\r\n]{{{_LONG_RUN},}}")
_ANY_SPACE = re.compile(f"[{_SPACE}\r\n]")

_SELF_TEST = "Aa'll 1234 \u01c5\u0301\u4e2d\u0663 <|x|>\t\r\n\n  \u00a0\u2003{}\x00\x1b\U0001f600\u200d\ue000 z  "


class Encoder(Protocol):
    """The interface of a tokenizer to the other rooms."""

    @property
    def map(self) -> TokenMap: ...

    def encode(self, text: str) -> list[int]:
        """Return the canonical ids, or raise TextError if the text has none."""
        ...

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """Return the bytes of these ids, or raise IdsError with the reason of the first wrong one."""
        ...


Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def call_engine(
    function: Callable[Parameters, Returned], *args: Parameters.args, **options: Parameters.kwargs
) -> Returned:
    """Call a tokenizer that is written in Rust. Its panics, which are not Exceptions, become a TextError."""
    try:
        return function(*args, **options)
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # not importable
            raise TextError("the tokenizer cannot process this text") from None
        raise


@runtime_checkable
class ArrayEncoder(Protocol):
    """An encoder whose tokenizer returns arrays."""

    def encode_array(self, text: str) -> IdArray:
        """Return the canonical ids, or raise TextError if the text has none."""
        ...


def encode_array(encoder: Encoder, text: str) -> IdArray:
    """Return the canonical ids as an array, without a list of them where the tokenizer can do without."""
    if isinstance(encoder, ArrayEncoder):
        return encoder.encode_array(text)
    return np.array(encoder.encode(text), dtype=np.uint32)  # tiktoken's own arrays take 1.7 times as long


def make_encoder(token_map: TokenMap) -> Encoder:
    """Build the encoder for a map, and test that its pattern loses nothing."""
    try:
        encoder = _engine(token_map)
        proof = encoder.decode_bytes(encoder.encode(_SELF_TEST))
    except TextError:
        # The tokenizer fails on a pattern that matches empty pieces.
        raise MapInvalidError(f"{token_map.id}: its pattern cannot be used") from None
    if proof != normalize(token_map, _SELF_TEST).encode():
        raise MapInvalidError(f"{token_map.id}: its pattern leaves out some characters")
    return encoder


def _engine(token_map: TokenMap) -> Encoder:
    if token_map.kind == "metaspace":
        engine: Encoder = MetaspaceEncoder(token_map)
    else:
        engine = ByteLevelEncoder(token_map) if token_map.pattern else StagedEncoder(token_map)
    return PreparingEncoder(engine) if token_map.normalizer or token_map.added else engine


def classify_ids(token_map: TokenMap, ids: Sequence[object]) -> Reason | None:
    """Return the reason of the first wrong element (spec 5.7, order 5), or None."""
    specials = token_map.special_ids
    for id in ids:
        if type(id) is not int:
            return "not-integer"
        if id < 0:
            return "negative"
        if id > MAX_ID:
            return "too-large"
        if id in specials:
            return "special-id"
        if id not in token_map.token_of_id:
            return "unknown-id"
    return None


def _ids_error(token_map: TokenMap, ids: Sequence[object]) -> IdsError:
    reason = classify_ids(token_map, ids) or "unknown-id"
    return IdsError(reason, f"{reason} in ids for map {token_map.id}")


def _join_tokens(token_map: TokenMap, ids: Sequence[int]) -> bytes:
    tokens = token_map.token_of_id
    if operator.countOf(map(type, ids), int) != len(ids):  # a dict finds 5.0 and True under 5 and 1
        raise _ids_error(token_map, ids)
    try:
        return b"".join([tokens[id] for id in ids])
    except KeyError:
        raise _ids_error(token_map, ids) from None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise TextError("the text holds lone surrogates and cannot be written as UTF-8") from None


class ByteLevelEncoder:
    """A byte_level map on tiktoken."""

    def __init__(self, token_map: TokenMap) -> None:
        self.map = token_map
        try:
            self._tiktoken = call_engine(
                tiktoken.Encoding,
                token_map.digest,
                pat_str=token_map.pattern,
                mergeable_ranks=dict(token_map.ranks),
                special_tokens={},
            )
        except ValueError as error:
            raise MapInvalidError(f"{token_map.id}: unusable pattern ({error})") from None
        # The rule for runs of white space is known for the two families of patterns in use, but not for others.
        newline_ends_run = re.search(r"\|\\s\*\[\\r\\n\]\+?\|\\s\+\(\?!\\S\)\|\\s\+?$", token_map.pattern)
        plain_run = re.search(r"\|\\s\+\(\?!\\S\)\|\\s\+?$", token_map.pattern)
        self._long_run = _LONG_BLANK if newline_ends_run else _LONG_SPACE if plain_run else None

    def encode(self, text: str) -> list[int]:
        _utf8(text)
        ranks = self._encode_long_runs(text) if _may_hold_long_run(text) else self._encode_ordinary(text)
        ids = self.map.id_of_rank
        return ranks if ids is None else [ids[rank] for rank in ranks]

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        if self.map.id_of_rank is not None or self.map.added:  # tiktoken does not have all of these ids
            return _join_tokens(self.map, ids)
        try:
            return self._tiktoken.decode_bytes(ids)
        except (KeyError, TypeError, OverflowError):
            raise _ids_error(self.map, ids) from None

    def _encode_ordinary(self, text: str) -> list[int]:
        return call_engine(self._tiktoken.encode_ordinary, text)

    def _encode_long_runs(self, text: str) -> list[int]:
        """Encode long runs of white space separately, by the rule that the pattern would apply to them.

        The last blank before a visible character belongs to that character; the rest of the run is one piece.
        """
        if self._long_run is None:
            raise TextError(f"a run of more than {_LONG_RUN} blanks, under a pattern whose rule for them is unknown")
        ids: list[int] = []
        done = 0
        for run in self._long_run.finditer(text):
            at_newline = text[run.end() : run.end() + 1] in ("\r", "\n")
            if at_newline:
                continue  # the pattern's newline alternative matches such a run without backtracking
            end = run.end() if run.end() == len(text) else run.end() - 1
            ids += self._encode_ordinary(text[done : run.start()])
            ids += self._tiktoken._encode_single_piece(text[run.start() : end])
            done = end
        return ids + self._encode_ordinary(text[done:])


def _may_hold_long_run(text: str) -> bool:
    """May the text contain a long run? It would cover one of these samples, which are cheap to check."""
    return len(text) >= _LONG_RUN and _ANY_SPACE.search(text[_LONG_RUN - 1 :: _LONG_RUN]) is not None


class StagedEncoder:
    """A byte_level map with several patterns, on Hugging Face's tokenizers."""

    def __init__(self, token_map: TokenMap) -> None:
        _require_tokenizers(token_map)
        self.map = token_map
        names = {token: "".join(BYTE_ALPHABET[byte] for byte in token) for token in token_map.ranks}
        order = sorted(token_map.ranks, key=token_map.ranks.__getitem__)
        ids = token_map.id_of_rank
        vocab = {names[token]: rank if ids is None else ids[rank] for token, rank in token_map.ranks.items()}
        merges = [*all_merges([names[token] for token in order])]
        self._tokenizer = _load_bpe(token_map, vocab, merges, ignore_merges=True)
        splits = tokenizers.pre_tokenizers
        try:
            stages = [splits.Split(tokenizers.Regex(each), behavior="isolated") for each in token_map.patterns]
        except Exception as error:  # the library raises plain Exception
            raise MapInvalidError(f"{token_map.id}: unusable pattern ({error})") from None
        as_bytes = splits.ByteLevel(add_prefix_space=False, use_regex=False)
        self._tokenizer.pre_tokenizer = splits.Sequence([*stages, as_bytes])

    def encode(self, text: str) -> list[int]:
        _utf8(text)
        return _ids_of(self._tokenizer, text)

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return _join_tokens(self.map, ids)


class MetaspaceEncoder:
    """A metaspace map on Hugging Face's tokenizers."""

    def __init__(self, token_map: TokenMap) -> None:
        _require_tokenizers(token_map)
        self.map = token_map
        characters = {id: token for token, id in token_map.vocab.items()}
        ids = range(token_map.byte_fallback_start, token_map.byte_fallback_start + 256)
        bytes_ = {name: id for name, id in zip(BYTE_NAMES, ids, strict=True) if characters.get(id, name) == name}
        merges = token_map.merges
        if merges is None:
            apart = token_map.added.keys() | bytes_.keys()
            order = sorted((token for token in token_map.vocab if token not in apart), key=token_map.vocab.__getitem__)
            merges = tuple(all_merges(order))
        self._tokenizer = _load_bpe(token_map, {**token_map.vocab, **bytes_}, merges, byte_fallback=True)
        self._prefix = SPACE_MARK if token_map.has_prefix else ""

    def encode(self, text: str) -> list[int]:
        _utf8(text)
        if not text:
            return []
        if SPACE_MARK in text:  # it would decode to a space, and ids must decode to their text
            raise TextError("the text holds U+2581, which a metaspace map writes for a space")
        return _ids_of(self._tokenizer, self._prefix + text.replace(" ", SPACE_MARK))

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return _join_tokens(self.map, ids).removeprefix(b" " if self._prefix else b"")


def _require_tokenizers(token_map: TokenMap) -> None:
    kind = "metaspace maps" if token_map.kind == "metaspace" else "maps with several patterns"
    if tokenizers is None:
        raise MissingExtraError(f"{token_map.id}: {kind} need the extra `leafgate[metaspace]`")


def all_merges(order: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield every pair that makes one of these tokens, in their order."""
    tokens = frozenset(order)
    for token in order:
        for cut in range(1, len(token)):
            head, tail = token[:cut], token[cut:]
            if head in tokens and tail in tokens:
                yield head, tail


def _load_bpe(
    token_map: TokenMap, vocab: Mapping[str, int], merges: Collection[tuple[str, str]], **options: bool
) -> Any:
    try:
        model = call_engine(tokenizers.models.BPE, vocab=dict(vocab), merges=[*merges], **options)
    except Exception as error:  # the library raises plain Exception for a merge without a token
        raise MapInvalidError(f"{token_map.id}: {error}") from None
    return tokenizers.Tokenizer(model)


def _ids_of(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = call_engine(tokenizer.encode, text, add_special_tokens=False).ids
    return ids


class PreparingEncoder:
    """Finds added tokens and normalizes the text between them (spec 5.4, steps 1 and 2), for another encoder."""

    def __init__(self, engine: Encoder) -> None:
        self.map = engine.map
        self.decode_bytes = engine.decode_bytes
        self._engine = engine
        self._added = re.compile(f"({_any_of(sorted(self.map.added))})") if self.map.added else None

    def encode(self, text: str) -> list[int]:
        _utf8(text)
        if self._added is None:
            return self._engine.encode(normalize(self.map, text))
        ids: list[int] = []
        for place, stretch in enumerate(self._added.split(text)):
            if place % 2:  # what the group of the expression matched
                ids.append(self.map.added[stretch])
            elif stretch:
                ids += self._engine.encode(normalize(self.map, stretch))
        return ids


def _any_of(words: Sequence[str]) -> str:
    """Return an expression for the longest of these sorted words, as a tree: thousands of them are found fast."""
    branches: list[str] = []
    start = 0
    while start < len(words):
        first = words[start][:1]
        end = next((at for at in range(start, len(words)) if words[at][:1] != first), len(words))
        rest = [word[1:] for word in words[start:end]]
        if first:
            branches.append(re.escape(first) + (_any_of(rest) if rest != [""] else ""))
        start = end
    optional = "?" if words[0] == "" else ""
    return f"(?:{'|'.join(branches)}){optional}"
