"""Token ids in arrays: packed ids (spec 5.11), and the bytes of all tokens of a map for decoding many ids at once.

Packed ids are three bytes each, the lowest first. Against a varint this was measured on 9,295 ids of 32 KB of text: to
pack takes 0.04 ms and not 0.17, to unpack 0.04 and not 0.09; a varint has 0.65 of the bytes, but as compressed base64
1.05 times as many. Four characters of base64 are one id, so there is never padding.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from leafgate.model.leaf import LeafPayload, is_digest, parse_digest

MAX_PACKED_ID: Final = (1 << 24) - 1
PACKED_BYTES: Final = 3
_CHARS: Final = 4
# Ids per call into C: while a long array becomes a list, every other thread of the process waits.
_AT_ONCE: Final = 1 << 16
# A table has a place for every id up to the largest. Maps whose ids are further apart have none.
_PLACES_PER_TOKEN: Final = 8

IdArray: TypeAlias = NDArray[np.uint32]


class TokenIds(Sequence[int]):
    """Ids as an array. Their packed form, and a list of them, are made when they are first asked for."""

    def __init__(self, array: IdArray) -> None:
        self.array = array

    @classmethod
    def from_list(cls, ids: Sequence[int]) -> TokenIds:
        """The ids of an encoder, which are all in range."""
        return cls(np.array(ids, dtype=np.uint32))

    @classmethod
    def unpack(cls, packed: str) -> TokenIds | None:
        """The ids in a text, or None if it is not exactly packed ids."""
        raw = decode_packed(packed)
        if raw is None:
            return None
        ids = cls(unpack_bytes(raw))
        ids.__dict__["packed"] = packed
        return ids

    @cached_property
    def packed(self) -> str | None:
        """The ids as a text; None if one of them is larger than three bytes can hold."""
        if len(self.array) and int(self.array.max()) > MAX_PACKED_ID:
            return None
        octets = self.array.astype("<u4").view(np.uint8).reshape(-1, 4)
        return base64.b64encode(octets[:, :PACKED_BYTES].tobytes()).decode("ascii")

    def as_list(self) -> list[int]:
        ids: list[int] = self.array[:_AT_ONCE].tolist()
        for start in range(_AT_ONCE, len(self.array), _AT_ONCE):
            ids += self.array[start : start + _AT_ONCE].tolist()
        return ids

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> list[int]: ...

    def __getitem__(self, at: int | slice) -> int | list[int]:
        part: int | list[int] = self.array[at].tolist()
        return part

    def __iter__(self) -> Iterator[int]:
        return iter(self.as_list())


def decode_packed(packed: str) -> bytes | None:
    """The bytes of packed ids, or None if the text is not exactly that."""
    if len(packed) % _CHARS:
        return None
    try:
        raw = binascii.a2b_base64(packed, strict_mode=True)
    except ValueError:  # white space, another alphabet, or not ASCII
        return None
    return raw if len(raw) * _CHARS == len(packed) * PACKED_BYTES else None  # not with padding


def unpack_bytes(raw: bytes) -> IdArray:
    """The ids in bytes whose number is a multiple of three."""
    octets = np.zeros((len(raw) // PACKED_BYTES, 4), np.uint8)
    octets[:, :PACKED_BYTES] = np.frombuffer(raw, np.uint8).reshape(-1, PACKED_BYTES)
    return octets.view("<u4").ravel().astype(np.uint32, copy=False)


class TokenTable:
    """The bytes of the ordinary tokens of a map, one after another; other ids have the length 0."""

    def __init__(self, token_of_id: Mapping[int, bytes], special_ids: frozenset[int]) -> None:
        size = max(token_of_id, default=-1) + 1
        tokens = [b"" if id in special_ids else token_of_id.get(id, b"") for id in range(size)]
        self._lengths = np.fromiter(map(len, tokens), np.int32, size)
        self._starts = np.zeros(size, np.int32)
        np.cumsum(self._lengths[:-1], out=self._starts[1:])
        self._bytes = np.frombuffer(b"".join(tokens), np.uint8)

    def holds(self, ids: IdArray) -> bool:
        """Whether all of these are ids of ordinary tokens."""
        if not len(ids):
            return True
        return int(ids.max()) < len(self._lengths) and bool(self._lengths.take(ids).all())

    def spells(self, ids: IdArray, raw: bytes) -> bool:
        """Whether these are ids of ordinary tokens whose bytes are exactly these."""
        if not len(ids) or int(ids.max()) >= len(self._lengths):
            return not len(ids) and not raw
        lengths = self._lengths.take(ids)
        ends = np.cumsum(lengths, dtype=np.int64)
        if int(ends[-1]) != len(raw) or not lengths.all():
            return False
        # The place of each byte of the text in the bytes of the tokens: one gather, one comparison.
        places = np.repeat((self._starts.take(ids) - (ends - lengths)).astype(np.int32), lengths)
        places += np.arange(len(raw), dtype=np.int32)
        return self._bytes.take(places).tobytes() == raw


def make_table(token_of_id: Mapping[int, bytes], special_ids: frozenset[int]) -> TokenTable | None:
    """The table of a map; None for one with few tokens among large ids, whose table would be mostly empty."""
    if max(token_of_id, default=0) > _PLACES_PER_TOKEN * len(token_of_id) + 1024:
        return None
    return TokenTable(token_of_id, special_ids)


def read_payload(value: object) -> LeafPayload | None:
    """The payload in a JSON value; None if it is not well-formed. Packed ids are unpacked."""
    map_id, ids = (value.get("map_id"), value.get("ids")) if isinstance(value, Mapping) else (None, None)
    if not is_digest(map_id):
        return None
    ids = TokenIds.unpack(ids) if isinstance(ids, str) else ids
    if not isinstance(ids, Sequence) or isinstance(ids, bytes):
        return None
    return LeafPayload(parse_digest(map_id), ids)
