"""Reads TOML. In: a text. Out: Parsed. Touches nothing. Values are the standard library's; lines, toml_lines'."""

from __future__ import annotations

import re
import tomllib
from datetime import date, datetime, time
from typing import Any, Final

from leafgate.config.parsed import MAX_DEPTH, Malformed, Parsed, repeated
from leafgate.config.toml_lines import toml_lines

_PLACE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_CLASH: Final = re.compile("Cannot|Duplicate")


def parse_toml(text: str) -> Parsed:
    """The value in the text. Dates and times are texts here, as in the other formats."""
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise Malformed("nested too deeply", None) from None
    except ValueError as error:
        return _refused(text, error)
    return Parsed(_plain(value, 0), toml_lines(text).lines)


def _refused(text: str, error: ValueError) -> Parsed:
    said = str(error)
    found = _PLACE.search(said)
    line = int(found[1]) if found and found[1] else text.rstrip("\n").count("\n") + 1
    # A repeated key is told like in the other formats: with both lines.
    repeats = [again for again in toml_lines(text).repeats if again.second <= line] if _CLASH.match(said) else []
    if repeats:
        return Parsed({}, problems=(repeated(repeats[0].path, repeats[0].first, repeats[0].second),))
    raise Malformed(said[: found.start()] if found else said.split("\n", 1)[0], line) from None


def _plain(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise Malformed("nested too deeply", None)
    if isinstance(value, dict):
        return {key: _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value
