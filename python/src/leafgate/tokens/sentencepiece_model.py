"""Reading of SentencePiece .model files, which are protocol buffers, without their library."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from leafgate.model.errors import MapInvalidError

# Types of pieces and of models, as sentencepiece_model.proto numbers them
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BPE: Final = 2
MODEL_NAMES: Final = {1: "unigram", 2: "BPE", 3: "word", 4: "char"}

Field = int | bytes


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    type: int


@dataclass(frozen=True)
class SentencePieceModel:
    """What of a model says how it tokenizes."""

    pieces: tuple[Piece, ...]
    type: int
    byte_fallback: bool
    space_is_suffix: bool
    has_normalizer: bool
    adds_prefix: bool
    removes_spaces: bool
    escapes_spaces: bool


def read_model(raw: bytes, where: str) -> SentencePieceModel:
    """Read the model, or raise MapInvalidError if the bytes are not one."""
    try:
        fields = [*_fields(raw)]
        pieces = tuple(_piece(value) for number, value in fields if number == 1)
        trainer, normalizer = (dict(_fields(_last(fields, number))) for number in (2, 3))
        model_type = _number(trainer.get(3, 1))
    except (ValueError, LookupError, struct.error, TypeError):
        raise MapInvalidError(f"{where}: neither JSON, nor a rank file, nor a SentencePiece model") from None
    if not pieces:
        raise MapInvalidError(f"{where}: a SentencePiece model without pieces")
    return SentencePieceModel(
        pieces,
        type=model_type,
        byte_fallback=bool(trainer.get(35, 0)),
        space_is_suffix=bool(trainer.get(24, 0)),
        has_normalizer=bool(normalizer.get(2, b"")),
        adds_prefix=bool(normalizer.get(3, 1)),
        removes_spaces=bool(normalizer.get(4, 1)),
        escapes_spaces=bool(normalizer.get(5, 1)),
    )


def _piece(value: Field) -> Piece:
    fields = dict(_fields(value))
    text, score = fields[1], fields.get(2, bytes(4))
    if not isinstance(text, bytes) or not isinstance(score, bytes):
        raise ValueError("not a piece")
    return Piece(text.decode(), struct.unpack("<f", score)[0], _number(fields.get(3, NORMAL)))


def _number(value: Field) -> int:
    if not isinstance(value, int):
        raise ValueError("not a number")
    return value


def _last(fields: list[tuple[int, Field]], number: int) -> Field:
    return next((value for found, value in reversed(fields) if found == number), b"")


def _fields(message: Field) -> Iterator[tuple[int, Field]]:
    """Yield the fields of a message: their number, and an integer or bytes."""
    if not isinstance(message, bytes):
        raise ValueError("not a message")
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(message, at)
        else:
            size = {1: 8, 5: 4}[wire] if wire in (1, 5) else -1
        if size < 0 or at + size > len(message):
            raise ValueError("not a protocol buffer")
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        byte = message[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("not a protocol buffer")
