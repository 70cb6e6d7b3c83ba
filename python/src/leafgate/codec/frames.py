"""Messages as frames: a big-endian u32 length and the msgpack of one message. In: messages or bytes. Out: the other.

Touches nothing. This file owns what a message may hold (spec 6.4.2): exactly what JSON can say. Bytes of others are
walked once before anything is built from them, so a length that lies costs no memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, Literal

import msgpack  # type: ignore[import-untyped]  # it has no stubs

from leafgate.model.errors import LeafgateError

CONTENT_TYPE: Final = "application/x-codec-msgpack"
EVENT_ID_HEADER: Final = "codec-event-id"
MAX_FRAME_BYTES: Final = 64 << 20
MAX_DEPTH: Final = 128

FrameReason = Literal[
    "truncated",
    "empty-frame",
    "too-large",
    "bad-msgpack",
    "trailing-bytes",
    "too-deep",
    "bad-text",
    "not-object",
    "bad-key",
    "duplicate-key",
    "binary",
    "extension",
    "not-finite",
]
Message = dict[str, Any]

_HEAD: Final = 4
_PLAIN: Final = frozenset({int, str, bool, type(None)})
_CONTAINERS: Final = frozenset({dict, list})


class FrameError(LeafgateError):
    """The bytes are no frame, or no message. A stream cannot be read on after it."""

    def __init__(self, reason: FrameReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def pack_message(message: Mapping[str, Any]) -> bytes:
    """The shortest msgpack of a message; what a request body is."""
    packed: bytes = msgpack.packb(message, use_bin_type=True)
    return packed


def frame_of(packed: bytes) -> bytes:
    """The frame round a packed message."""
    return len(packed).to_bytes(_HEAD) + packed


def pack_frame(message: Mapping[str, Any]) -> bytes:
    return frame_of(pack_message(message))


def unpack_message(packed: bytes) -> Message:
    """The one message in these bytes, or FrameError."""
    _measure(packed)
    try:
        value = msgpack.unpackb(packed, object_pairs_hook=_members, ext_hook=_refuse_extension)
    except UnicodeDecodeError:
        raise FrameError("bad-text", "a text is no UTF-8") from None
    except ValueError as error:  # after _measure, only such a key and a timestamp that is none are left
        reason: FrameReason = "bad-key" if "map key" in str(error) else "extension"
        raise FrameError(reason, f"no value of JSON: {error}") from None
    if not isinstance(value, dict):
        raise FrameError("not-object", "a message is an object, and nothing else is one")
    check_value(value)
    return value


def _measure(packed: bytes) -> None:
    """Refuses what does not end where it says, without building anything."""
    walker = msgpack.Unpacker(max_buffer_size=len(packed) or 1)
    walker.feed(packed)
    try:
        walker.skip()
    except msgpack.OutOfData:
        raise FrameError("bad-msgpack", "the message ends in the middle of a value") from None
    except msgpack.StackError:
        raise FrameError("too-deep", f"values are nested deeper than {MAX_DEPTH}") from None
    except ValueError:
        raise FrameError("bad-msgpack", "the bytes are no msgpack") from None
    if walker.tell() != len(packed):
        raise FrameError("trailing-bytes", f"{len(packed) - walker.tell()} bytes follow the message")


def _members(pairs: list[tuple[Any, Any]]) -> Message:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise FrameError("duplicate-key", "a key is there twice")
    return members


def _refuse_extension(code: int, data: bytes) -> None:
    raise FrameError("extension", f"extension {code} is no value of JSON")


def check_value(value: object) -> None:
    """FrameError for what JSON cannot say, and for what lies too deep. Level by level: no depth ends the stack."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = _level_below(level)
        if not level:
            return
    raise FrameError("too-deep", f"values are nested deeper than {MAX_DEPTH}")


def _level_below(level: list[Any]) -> list[Any]:
    """The containers directly below these, but for empty ones.

    A few megabytes may hold millions of containers, and lists of ids are long: a level is judged by its types, whole.
    """
    objects = [container for container in level if type(container) is dict]
    arrays = [container for container in level if type(container) is list]
    if not set(map(type, chain.from_iterable(objects))) <= {str}:
        raise FrameError("bad-key", "a key is no text")

    def values() -> Iterator[Any]:
        return chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(arrays))

    kinds = set(map(type, values()))
    if not kinds <= _PLAIN | _CONTAINERS:
        for value in values():
            if type(value) not in _PLAIN and type(value) not in _CONTAINERS:
                _check_scalar(value)
    if kinds.isdisjoint(_CONTAINERS):
        return []
    return [value for value in values() if type(value) in _CONTAINERS and value]


def _check_scalar(value: object) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise FrameError("not-finite", "NaN and Infinity are no JSON")
    elif isinstance(value, bytes):
        raise FrameError("binary", "JSON has no binary values; blobs are base64 text")
    else:
        raise FrameError("extension", f"{type(value).__name__} is no value of JSON")


class FrameReader:
    """Cuts a stream into messages. Each is given as soon as its last byte is there."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._wanted: int | None = None

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that these bytes complete; to be iterated to its end before the next chunk."""
        self._held += chunk
        while (packed := self._next_packed()) is not None:
            yield unpack_message(packed)

    def end(self) -> None:
        """To be called when the stream is over: FrameError where it ends inside a frame."""
        if self._wanted is not None or self._held:
            raise FrameError("truncated", "the stream ends inside a frame")

    def _next_packed(self) -> bytes | None:
        if self._wanted is None:
            if len(self._held) < _HEAD:
                return None
            self._wanted = self._checked_length(int.from_bytes(self._held[:_HEAD]))
            del self._held[:_HEAD]
        if len(self._held) < self._wanted:
            return None
        packed = bytes(memoryview(self._held)[: self._wanted])
        del self._held[: self._wanted]
        self._wanted = None
        return packed

    def _checked_length(self, length: int) -> int:
        if length == 0:
            raise FrameError("empty-frame", "a frame is empty")
        if length > self._max_bytes:
            raise FrameError("too-large", f"a frame of {length} bytes is beyond the limit of {self._max_bytes}")
        return length
