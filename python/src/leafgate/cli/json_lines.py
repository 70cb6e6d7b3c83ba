"""Serves JSON lines: one answer per line, in order, and a bad line never ends the service.

In: a binary stream of lines. Out: a binary stream of lines. The commands that people and checks pipe through use this.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, BinaryIO

from leafgate.model.errors import IdsError, TextError


class BadLine(Exception):
    """The line is JSON, but not what the command takes."""


def field(line: dict[str, Any], name: str, kind: type[Any]) -> Any:
    """A required field of one type."""
    if name not in line:
        raise BadLine(f"`{name}` is missing")
    if not isinstance(line[name], kind):
        raise BadLine(f"`{name}` is not {'a string' if kind is str else 'an array' if kind is list else 'an object'}")
    return line[name]


def serve_lines(source: BinaryIO, sink: BinaryIO, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answers every line. Blank lines are passed over."""
    for raw in source:
        if raw.strip():
            sink.write(_dump(_answer_line(raw, answer)))
            sink.flush()


def _answer_line(raw: bytes, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    try:
        line = json.loads(raw)
        if not isinstance(line, dict):
            raise BadLine("not a JSON object")
        return answer(line)
    except (ValueError, RecursionError) as error:
        return {"error": "bad-line", "message": f"not JSON: {error}"}
    except BadLine as error:
        return {"error": "bad-line", "message": str(error)}
    except TextError as error:
        return {"error": "bad-text", "message": str(error)}
    except IdsError as error:
        return {"error": error.reason, "message": str(error)}


def _dump(line: dict[str, Any]) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # lone surrogates can only be written escaped
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"
