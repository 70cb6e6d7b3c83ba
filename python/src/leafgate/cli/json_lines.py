"""Serves JSON lines: one answer per line, in order, and a bad line never ends the service.

In: a binary stream of lines. Out: a binary stream of lines. The commands that people and checks pipe through use this.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Final

import click

from leafgate.model.errors import IdsError, TextError

_NAMES: Final[dict[type[Any], str]] = {str: "a string", list: "an array", dict: "an object", int: "an integer"}


# Every command takes --json; these speak nothing else, so it changes nothing.
JSON_OPTION = click.option("--json", is_flag=True, expose_value=False, help="The answer is JSON lines in any case.")


class BadLine(Exception):
    """The line is JSON, but not what the command takes."""


def field(line: dict[str, Any], name: str, kind: type[Any]) -> Any:
    """A required field of one type."""
    if name not in line:
        raise BadLine(f"`{name}` is missing")
    if not isinstance(line[name], kind) or line[name] is True or line[name] is False:
        raise BadLine(f"`{name}` is not {_NAMES[kind]}")
    return line[name]


def serve_standard_streams(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    serve_lines(sys.stdin.buffer, sys.stdout.buffer, answer)


def serve_lines(source: BinaryIO, sink: BinaryIO, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answers every line, an empty one too: whoever counts lines must not lose count."""
    for raw in source:
        sink.write(_answer_line(raw, answer))
        sink.flush()


def _answer_line(raw: bytes, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    try:
        return _dump(answer(_parse(raw)))
    except RecursionError:
        return _refusal("bad-line", "nested too deeply")
    except BadLine as error:
        return _refusal("bad-line", str(error))
    except TextError as error:
        return _refusal("bad-text", str(error))
    except IdsError as error:
        return _refusal(error.reason, str(error))


def _refusal(error: str, message: str) -> bytes:
    return _dump({"error": error, "message": message})


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        line = _loads(raw.decode())
    except ValueError as error:  # that bytes are no UTF-8 is one too
        raise BadLine(f"not JSON: {error}") from None
    if not isinstance(line, dict):
        raise BadLine("not a JSON object")
    return line


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of thousands of digits: legal JSON, and Python's own limit; any huge one will do
        return json.loads(text, parse_constant=_no_constant, parse_int=_bounded_int)


def _no_constant(name: str) -> float:
    raise json.JSONDecodeError(f"{name} is no JSON", name, 0)


def _bounded_int(digits: str) -> int:
    return int(digits) if len(digits) < 40 else int(digits[:40])


def _dump(line: dict[str, Any]) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # lone surrogates can only be written escaped
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"
