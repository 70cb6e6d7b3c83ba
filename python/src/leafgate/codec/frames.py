"""Messages as frames (a big-endian u32 length and the msgpack of one message), and as server-sent events.

This module decides what a message may contain (spec 6.4.2): exactly what JSON can express, and packed ids as bytes,
which are a text in the messages that it takes and returns. Foreign bytes are walked once before anything is built from
them, so a false length costs no memory.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal, NoReturn

import msgpack  # type: ignore[import-untyped]  # it has no stubs
import pydantic_core

from leafgate.model.errors import LeafgateError
from leafgate.model.leaf import CODEC_META_KEY

FRAMES_TYPE: Final = "application/x-codec-msgpack"
EVENT_ID_HEADER: Final = "codec-event-id"
MAX_MESSAGE_BYTES: Final = 64 << 20
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
# Packed ids: as bytes, and as the characters of base64 (spec 5.11).
_ID_BYTES: Final = 3
_ID_CHARS: Final = 4
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*")
_PLAIN: Final = frozenset({int, str, bool, type(None)})
_CONTAINERS: Final = frozenset({dict, list})
_LEAST_INTEGER: Final = -(2**63)
_LARGEST_INTEGER: Final = 2**64 - 1
_CR: Final = 0x0D


class FrameError(LeafgateError):
    """The bytes are not a frame or not a message. The stream cannot be read any further."""

    def __init__(self, reason: FrameReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def pack_message(message: Mapping[str, Any]) -> bytes:
    """Return the shortest msgpack of a message: the body of a request."""
    packed: bytes = msgpack.packb(_with_bytes_of_ids(message), use_bin_type=True)
    return packed


def add_frame_head(packed: bytes) -> bytes:
    return len(packed).to_bytes(_HEAD) + packed


def pack_frame(message: Mapping[str, Any]) -> bytes:
    return add_frame_head(pack_message(message))


def unpack_message(packed: bytes) -> Message:
    """Return the one message in these bytes, or raise FrameError."""
    _measure(packed)
    try:
        value = msgpack.unpackb(packed, object_pairs_hook=_members, ext_hook=_refuse_extension)
    except UnicodeDecodeError:
        raise FrameError("bad-text", "a text is not UTF-8") from None
    except ValueError as error:  # after _measure, the only causes are an invalid key and an invalid timestamp
        reason: FrameReason = "bad-key" if "map key" in str(error) else "extension"
        raise FrameError(reason, f"not a value of JSON: {error}") from None
    if not isinstance(value, dict):
        raise FrameError("not-object", "a message is an object")
    check_value(value)
    return value


def _measure(packed: bytes) -> None:
    """Raise FrameError for bytes that do not end where they should, without building anything."""
    walker = msgpack.Unpacker(max_buffer_size=len(packed) or 1)
    walker.feed(packed)
    try:
        walker.skip()
    except msgpack.OutOfData:
        raise FrameError("bad-msgpack", "the message ends in the middle of a value") from None
    except msgpack.StackError:
        raise FrameError("too-deep", f"values are nested deeper than {MAX_DEPTH}") from None
    except ValueError:
        raise FrameError("bad-msgpack", "the bytes are not msgpack") from None
    if walker.tell() != len(packed):
        raise FrameError("trailing-bytes", f"{len(packed) - walker.tell()} bytes follow the message")


def _members(pairs: list[tuple[Any, Any]]) -> Message:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise FrameError("duplicate-key", "a key occurs twice")
    payload = members.get(CODEC_META_KEY)
    if type(payload) is dict and type(payload.get("ids")) is bytes and len(payload["ids"]) % _ID_BYTES == 0:
        payload["ids"] = base64.b64encode(payload["ids"]).decode("ascii")
    return members


def _with_bytes_of_ids(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with bytes for the packed ids on the blocks of its result; the same object if there are none."""
    result = message.get("result") if isinstance(message, Mapping) else None
    content = result.get("content") if isinstance(result, Mapping) else None
    if not isinstance(result, Mapping) or not isinstance(content, list):
        return message
    blocks = [_with_bytes_in_block(block) for block in content]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return message
    return {**message, "result": {**result, "content": blocks}}


def _with_bytes_in_block(block: Any) -> Any:
    meta = block.get("_meta") if isinstance(block, Mapping) else None
    payload = meta.get(CODEC_META_KEY) if isinstance(meta, Mapping) else None
    packed = payload.get("ids") if isinstance(payload, Mapping) else None
    if not isinstance(meta, Mapping) or not isinstance(payload, Mapping) or not isinstance(packed, str):
        return block
    if len(packed) % _ID_CHARS or not _BASE64.fullmatch(packed):
        return block
    return {**block, "_meta": {**meta, CODEC_META_KEY: {**payload, "ids": base64.b64decode(packed)}}}


def _refuse_extension(code: int, data: bytes) -> None:
    raise FrameError("extension", f"extension {code} is not a value of JSON")


def check_value(value: object) -> None:
    """Raise FrameError for values that JSON lacks or that are too deep. Works by level, without recursion."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = _level_below(level)
        if not level:
            return
    raise FrameError("too-deep", f"values are nested deeper than {MAX_DEPTH}")


def _level_below(level: list[Any]) -> list[Any]:
    """Return the containers directly below these, except empty ones.

    A few megabytes may hold millions of containers, and lists of ids are long, so all types of a level are checked at
    once.
    """
    objects = [container for container in level if type(container) is dict]
    arrays = [container for container in level if type(container) is list]
    if not set(map(type, chain.from_iterable(objects))) <= {str}:
        raise FrameError("bad-key", "a key is not a text")

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
            raise FrameError("not-finite", "NaN and Infinity are not JSON")
    elif isinstance(value, bytes):
        raise FrameError("binary", "only packed ids are binary; blobs are base64 text")
    else:
        raise FrameError("extension", f"{type(value).__name__} is not a value of JSON")


class FrameReader:
    """Splits a stream into messages. Each is returned as soon as its last byte arrives."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._length: int | None = None

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Yield the messages that these bytes complete. Iterate to the end before the next chunk."""
        self._buffer += chunk
        while (packed := self._next_packed()) is not None:
            yield unpack_message(packed)

    def end(self) -> None:
        """Call it at the end of the stream: raises FrameError if the stream ends inside a frame."""
        if self._length is not None or self._buffer:
            raise FrameError("truncated", "the stream ends inside a frame")

    def _next_packed(self) -> bytes | None:
        if self._length is None:
            if len(self._buffer) < _HEAD:
                return None
            length = int.from_bytes(self._buffer[:_HEAD])
            if length == 0:
                raise FrameError("empty-frame", "a frame is empty")
            if length > self._max_bytes:
                raise FrameError("too-large", f"a frame of {length} bytes is beyond the limit of {self._max_bytes}")
            self._length = length
            del self._buffer[:_HEAD]
        if len(self._buffer) < self._length:
            return None
        packed = bytes(memoryview(self._buffer)[: self._length])
        del self._buffer[: self._length]
        self._length = None
        return packed


# JSON text to msgpack and back. JSON has two things that msgpack lacks: integers beyond 64 bits, which become floats,
# and lone surrogates, which become U+FFFD.


def message_from_json(raw: bytes) -> Message:
    """Return the message in a JSON text, or raise FrameError if it is not a message or too deep."""
    try:
        message = pydantic_core.from_json(raw, allow_inf_nan=False)
    except ValueError:
        message = _read_odd_json(raw)
    if not isinstance(message, dict):
        raise FrameError("not-object", "a message is an object")
    # Counting brackets costs a hundredth of checking each value, and most messages have too few of them to be deep.
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        check_value(message)
    return message


def packed_from_json(raw: bytes) -> bytes:
    """Return the msgpack of a JSON message, or raise FrameError."""
    message = message_from_json(raw)
    try:
        return pack_message(message)
    except (OverflowError, UnicodeEncodeError):
        return pack_message(_make_packable(message))


def json_from_packed(packed: bytes) -> bytes:
    """Return the JSON text of a packed message, or raise FrameError."""
    return pydantic_core.to_json(unpack_message(packed))


def _read_odd_json(raw: bytes) -> Any:
    """Read JSON with lone surrogates, which the fast reader refuses."""
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
    except RecursionError:
        raise FrameError("too-deep", f"values are nested deeper than {MAX_DEPTH}") from None
    except ValueError:
        raise FrameError("bad-text", "the text is not JSON") from None
    check_value(value if isinstance(value, dict | list) else [value])
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise FrameError("not-finite", f"{name} is not JSON")


def _make_packable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int) and not _LEAST_INTEGER <= value <= _LARGEST_INTEGER:
        try:
            return float(value)
        except OverflowError:
            raise FrameError("not-finite", "a number is too large for a float") from None
    if isinstance(value, list):
        return [_make_packable(item) for item in value]
    if isinstance(value, dict):
        return {_make_packable(key): _make_packable(item) for key, item in value.items()}
    return value


# Server-sent events


class EventError(LeafgateError):
    """An event is larger than the limit of the reader."""


@dataclass(frozen=True)
class Event:
    """One event: its data, which is empty if the event only marks a position in the stream, and its id."""

    data: bytes
    id: str | None = None


class EventReader:
    """Splits a stream into events. Lines end with LF or CRLF; comments (keep-alives) and other fields are dropped."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._searched = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that these bytes complete. Iterate to the end before the next chunk."""
        self._buffer += chunk
        while (line := self._next_line()) is not None:
            event = self._read_line(line)
            if event is not None:
                yield event

    def _next_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            self._check_size(self._data_bytes + self._searched)
            return None
        stop = end - 1 if end and self._buffer[end - 1] == _CR else end
        line = bytes(memoryview(self._buffer)[:stop])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _read_line(self, line: bytes) -> Event | None:
        if not line:
            event = Event(b"\n".join(self._data), self._id) if self._data or self._id is not None else None
            self._data, self._data_bytes, self._id = [], 0, None
            return event
        colon = line.find(b":")
        name = line if colon < 0 else line[:colon]
        value = b"" if colon < 0 else line[colon + (2 if line[colon + 1 : colon + 2] == b" " else 1) :]
        if name == b"data":
            self._data_bytes += len(value)
            self._check_size(self._data_bytes)
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        return None

    def _check_size(self, size: int) -> None:
        if self._max_bytes is not None and size > self._max_bytes:
            raise EventError(f"an event is larger than {self._max_bytes} bytes")
