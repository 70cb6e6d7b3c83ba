"""Messages from JSON text to msgpack and back. In: the bytes of one. Out: the bytes of the other. Touches nothing.

JSON can say two things that msgpack cannot: integers beyond 64 bits, which become floats as in every reader that has
only those, and lone surrogates, which become U+FFFD as in every writer of UTF-8.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

import pydantic_core

from leafgate.codec.frames import MAX_DEPTH, FrameError, Message, check_value, pack_message, unpack_message

_LEAST_INTEGER: Final = -(2**63)
_LARGEST_INTEGER: Final = 2**64 - 1


def message_from_json(raw: bytes) -> Message:
    """The message in a JSON text. FrameError where it is none, or lies too deep."""
    message = _read_json(raw)
    if not isinstance(message, dict):
        raise FrameError("not-object", "a message is an object, and nothing else is one")
    # Counting brackets costs a hundredth of looking at each value, and most messages have too few of them to be deep.
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        check_value(message)
    return message


def packed_from_json(raw: bytes) -> bytes:
    """The msgpack of a JSON message, or FrameError."""
    message = message_from_json(raw)
    try:
        return pack_message(message)
    except (OverflowError, UnicodeEncodeError):
        return pack_message(_speakable(message))


def json_from_packed(packed: bytes) -> bytes:
    """The JSON text of a packed message, or FrameError."""
    return pydantic_core.to_json(unpack_message(packed))


def _read_json(raw: bytes) -> Any:
    try:
        return pydantic_core.from_json(raw, allow_inf_nan=False)
    except ValueError:
        return _read_odd_json(raw)


def _read_odd_json(raw: bytes) -> Any:
    """The fast reader refuses lone surrogates; this one takes them."""
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
    except RecursionError:
        raise FrameError("too-deep", f"values are nested deeper than {MAX_DEPTH}") from None
    except ValueError:
        raise FrameError("bad-text", "the text is no JSON") from None
    check_value(value if isinstance(value, dict | list) else [value])
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise FrameError("not-finite", f"{name} is no JSON")


def _speakable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int) and not _LEAST_INTEGER <= value <= _LARGEST_INTEGER:
        return _as_float(value)
    if isinstance(value, list):
        return [_speakable(item) for item in value]
    if isinstance(value, dict):
        return {_speakable(key): _speakable(item) for key, item in value.items()}
    return value


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise FrameError("not-finite", "a number is beyond what a float can hold") from None
