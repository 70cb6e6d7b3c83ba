"""JSON on the standard streams: print one value, or answer JSON lines.

Lines get one answer each, in order. A bad line gets an error and does not end it.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Final

import click

from leafgate.model.errors import IdsError, MapDigestError, TextError

_NAMES: Final[dict[type[Any], str]] = {str: "a string", list: "an array", dict: "an object", int: "an integer"}

Line = dict[str, Any]

AS_JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


class BadLine(Exception):
    """The line is JSON, but not what the command expects."""


def field(line: Line, name: str, kind: type[Any]) -> Any:
    """Return a required field of one type; BadLine if it is missing or of another type."""
    if name not in line:
        raise BadLine(f"`{name}` is missing")
    if not isinstance(line[name], kind) or line[name] is True or line[name] is False:
        raise BadLine(f"`{name}` is not {_NAMES[kind]}")
    return line[name]


def answers_lines(answer: Callable[..., Line]) -> Callable[..., None]:
    """Make a command of a function that answers one line; it also gets the options of the command."""

    # Every command takes --json; the output of these commands is always JSON.
    @click.option("--json", is_flag=True, expose_value=False, help="No effect: the answer is always JSON lines.")
    @functools.wraps(answer)
    def command(**options: Any) -> None:
        serve_lines(sys.stdin.buffer, sys.stdout.buffer, lambda line: answer(line, **options))

    return command


def serve_lines(source: BinaryIO, sink: BinaryIO, answer: Callable[[Line], Line]) -> None:
    """Answer every line, also an empty one, so that callers can count lines."""
    for raw in source:
        sink.write(_answer_line(raw, answer))
        sink.flush()


def _answer_line(raw: bytes, answer: Callable[[Line], Line]) -> bytes:
    try:
        return _dump(answer(_parse(raw)))
    except RecursionError:
        return _refusal("bad-line", "nested too deeply")
    except BadLine as error:
        return _refusal("bad-line", str(error))
    except TextError as error:
        return _refusal("bad-text", str(error))
    except MapDigestError as error:
        return _refusal("bad-digest", str(error))
    except IdsError as error:
        return _refusal(error.reason, str(error))


def _refusal(error: str, message: str) -> bytes:
    return _dump({"error": error, "message": message})


def _parse(raw: bytes) -> Line:
    try:
        line = _loads(raw.decode())
    except ValueError as error:  # includes UnicodeDecodeError
        raise BadLine(f"not JSON: {error}") from None
    if not isinstance(line, dict):
        raise BadLine("not a JSON object")
    return line


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of thousands of digits: valid JSON beyond Python's limit; any huge value will do
        return json.loads(text, parse_constant=_no_constant, parse_int=lambda digits: int(digits[:40]))


def _no_constant(name: str) -> float:
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)


def _dump(line: Line) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # lone surrogates can only be written escaped
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"
