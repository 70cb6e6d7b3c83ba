"""Reads an `envFile`, as VS Code and Cursor have it. In: a text of NAME=value lines. Out: names and values.

Touches nothing. Values are secrets: what is wrong is told by line, never by content.
"""

from __future__ import annotations

import re
from typing import Final

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def parse_env_file(text: str) -> tuple[dict[str, str], list[int]]:
    """The variables, the last of a name counting, and the numbers of lines that are none."""
    found: dict[str, str] = {}
    bad: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            bad.append(number)
        else:
            found[match[1]] = _value(match[2])
    return found, bad


def _value(written: str) -> str:
    if len(written) >= 2 and written[0] == written[-1] == "'":
        return written[1:-1]
    if len(written) >= 2 and written[0] == written[-1] == '"':
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), written[1:-1])
    return re.sub(r"\s+#.*$", "", written)
