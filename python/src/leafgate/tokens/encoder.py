"""Encoders: text to ids and back under one map.

This module handles three facts about tiktoken: text is always ordinary text (it never gets the special tokens), a
panic of its Rust side is not an Exception, and a long run of white space overflows the stack of its pattern engine.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import numpy as np
import tiktoken

from leafgate.model.errors import IdsError, MapInvalidError, TextError
from leafgate.model.leaf import MAX_ID, Reason
from leafgate.tokens.ids import IdArray
from leafgate.tokens.token_map import TokenMap

try:
    import tokenizers
except ImportError:  # an extra: only metaspace maps need it
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
    encoder = ByteLevelEncoder(token_map) if token_map.kind == "byte_level" else MetaspaceEncoder(token_map)
    try:
        proof = encoder.decode_bytes(encoder.encode(_SELF_TEST))
    except TextError:
        # The tokenizer fails on a pattern that matches empty pieces.
        raise MapInvalidError(f"{token_map.id}: its pattern cannot be used") from None
    if proof != _SELF_TEST.encode():
        raise MapInvalidError(f"{token_map.id}: its pattern leaves out some characters")
    return encoder


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
            self._tiktoken = tiktoken.Encoding(
                token_map.digest, pat_str=token_map.pattern, mergeable_ranks=dict(token_map.ranks), special_tokens={}
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
        if self.map.id_of_rank is not None:
            return _join_tokens(self.map, ids)
        try:
            return self._tiktoken.decode_bytes(ids)
        except (KeyError, TypeError, OverflowError):
            raise _ids_error(self.map, ids) from None

    def _encode_ordinary(self, text: str) -> list[int]:
        try:
            return self._tiktoken.encode_ordinary(text)
        except BaseException as error:
            if type(error).__name__ == "PanicException":  # not importable, and not an Exception
                raise TextError("the tokenizer cannot process this text") from None
            raise

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


class MetaspaceEncoder:
    """A metaspace map on Hugging Face's tokenizers, which is an extra."""

    def __init__(self, token_map: TokenMap) -> None:
        if tokenizers is None:
            raise MapInvalidError(f"{token_map.id}: metaspace maps need the extra `leafgate[metaspace]`")
        self.map = token_map
        start = token_map.byte_fallback_start or 0
        vocab = dict(token_map.vocab) | {f"<0x{b:02X}>": start + b for b in range(256)}
        try:
            model = tokenizers.models.BPE(vocab=vocab, merges=list(token_map.merges), byte_fallback=True)
        except Exception as error:  # the library raises plain Exception for a merge without a token
            raise MapInvalidError(f"{token_map.id}: {error}") from None
        self._tokenizer = tokenizers.Tokenizer(model)

    def encode(self, text: str) -> list[int]:
        _utf8(text)
        if not text:
            return []
        if "▁" in text:  # it would decode to a space, and ids must decode to their text
            raise TextError("the text holds U+2581, which a metaspace map writes for a space")
        ids: list[int] = self._tokenizer.encode("▁" + text.replace(" ", "▁"), add_special_tokens=False).ids
        return ids

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return _join_tokens(self.map, ids).removeprefix(b" ")
