"""What is wrong with a configuration file. In: a key path, words, a line. Out: text that names file, line, key and fix.

Touches nothing. A problem never holds a value of the file: what came from the environment must not be shown.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leafgate.model.errors import ConfigError

KeyPath = tuple[str | int, ...]

SHOWN_PROBLEMS: Final = 10
_SHOWN_KEY: Final = 80
_SHOWN_KNOWN: Final = 20
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_*$/@-]+")


@dataclass(frozen=True)
class Problem:
    """One thing to mend: where, what, and on which line (from 1; None where the file has no such line)."""

    path: KeyPath
    what: str
    line: int | None = None

    def told(self, file: str) -> str:
        place = file if self.line is None else f"{file}:{self.line}"
        return ": ".join((place, *([show_path(self.path)] if self.path else []), self.what))

    def as_json(self) -> dict[str, Any]:
        return {"line": self.line, "path": show_path(self.path), "message": self.what}


class ConfigFileError(ConfigError):
    """A ConfigError that still knows its single problems."""

    def __init__(self, file: Path, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        super().__init__(told_problems(str(file), self.problems))


def told_problems(file: str, problems: Sequence[Problem]) -> str:
    """The first problems, a line each."""
    lines = [problem.told(file) for problem in problems[:SHOWN_PROBLEMS]]
    if len(problems) > 1:
        lines.insert(0, f"{file}: {len(problems)} problems")
    if len(problems) > SHOWN_PROBLEMS:
        lines.append(f"{file}: and {len(problems) - SHOWN_PROBLEMS} more")
    return "\n".join(lines)


def show_path(path: KeyPath) -> str:
    """`mcpServers.files.args[0]`; a key that is not a plain word stands in quotes."""
    shown = ""
    for step in path:
        if isinstance(step, int):
            shown += f"[{step}]"
        else:
            shown += f"{'.' if shown else ''}{_show_key(step)}"
    return shown


def _show_key(key: str) -> str:
    short = key if len(key) <= _SHOWN_KEY else f"{key[:_SHOWN_KEY]}…"
    return short if _PLAIN_KEY.fullmatch(short) else json.dumps(short)


def suggest(word: str, known: Sequence[str]) -> str:
    """The known word that was probably meant, or all of them if they are few."""
    near = nearest(word, known)
    if near is not None:
        return f"; did you mean {near}?"
    if len(known) > _SHOWN_KNOWN:
        return "; `leafgate config reference` lists all keys"
    return f"; known are {', '.join(known)}"


def nearest(word: str, known: Sequence[str]) -> str | None:
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word[:_SHOWN_KEY].lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None
