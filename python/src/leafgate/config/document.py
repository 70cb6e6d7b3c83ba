"""Reads a configuration file (YAML, TOML, JSON or JSON with comments) into a Document with line numbers.

Does not know any key. A ConfigFileError has all problems of a file: where they are, what is wrong, and how to fix it.
A problem never holds a value of the file: a value that came from the environment must not be shown.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from leafgate.config.formats import KeyPath, Malformed, Parsed, parse_json, parse_toml, parse_yaml
from leafgate.model.errors import ConfigError

Format = Literal["yaml", "toml", "json"]

# A client's own JSON file may hold its history beside the servers; what people write by hand is small.
MAX_BYTES: Final[Mapping[Format, int]] = {"yaml": 1024 * 1024, "toml": 1024 * 1024, "json": 16 * 1024 * 1024}
FORMATS: Final[Mapping[str, Format]] = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".json": "json",
    ".jsonc": "json",
}
PARSERS: Final[Mapping[Format, Callable[[str], Parsed]]] = {
    "yaml": parse_yaml,
    "toml": parse_toml,
    "json": parse_json,
}
SHOWN_PROBLEMS: Final = 10
_SHOWN_KEY: Final = 80
_SHOWN_WORDS: Final = 20
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_*$/@-]+")


@dataclass(frozen=True)
class Problem:
    """One thing to fix: where, what, and on which line (from 1; None where the file has no such line)."""

    path: KeyPath
    what: str
    line: int | None = None

    def describe(self, file: str) -> str:
        place = file if self.line is None else f"{file}:{self.line}"
        return ": ".join((place, *([show_path(self.path)] if self.path else []), self.what))

    def as_json(self) -> dict[str, Any]:
        return {"line": self.line, "path": show_path(self.path), "message": self.what}


class ConfigFileError(ConfigError):
    """A ConfigError with its single problems; the message shows the first of them, one per line."""

    def __init__(self, file: Path, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        lines = [problem.describe(str(file)) for problem in self.problems[:SHOWN_PROBLEMS]]
        if len(problems) > 1:
            lines.insert(0, f"{file}: {len(problems)} problems")
        if len(problems) > SHOWN_PROBLEMS:
            lines.append(f"{file}: and {len(problems) - SHOWN_PROBLEMS} more")
        super().__init__("\n".join(lines))


def show_path(path: KeyPath) -> str:
    """`mcpServers.files.args[0]`; a key that is not a plain word is quoted."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            short = step if len(step) <= _SHOWN_KEY else f"{step[:_SHOWN_KEY]}…"
            text += f"{'.' if text else ''}{short if _PLAIN_KEY.fullmatch(short) else json.dumps(short)}"
    return text


def suggest(word: str, words: Sequence[str]) -> str:
    """The word that was probably meant, or all of them if they are few."""
    near = nearest(word, words)
    if near is not None:
        return f"; did you mean {near}?"
    if len(words) > _SHOWN_WORDS:
        return "; `leafgate config reference` lists all keys"
    return f"; known are {', '.join(words)}"


def nearest(word: str, words: Sequence[str]) -> str | None:
    by_lower = {name.lower(): name for name in words}
    near = difflib.get_close_matches(word[:_SHOWN_KEY].lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


@dataclass(frozen=True)
class Document:
    """The object in a file, the line of each key path, and numbers as they were written. The repr shows no values."""

    path: Path
    format: Format
    value: Mapping[str, Any] = field(repr=False)
    lines: Mapping[KeyPath, int] = field(default_factory=dict, repr=False)
    literals: Mapping[KeyPath, str] = field(default_factory=dict, repr=False)

    def line_of(self, path: KeyPath) -> int | None:
        """The line of a key, or of the innermost section around it that has one."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def problem(self, path: KeyPath, what: str) -> Problem:
        return Problem(path, what, self.line_of(path))


def load_document(path: Path) -> Document:
    """Reads a file; its ending says which format it has, or else its first character."""
    try:
        with path.open("rb") as file:
            raw = file.read(max(MAX_BYTES.values()) + 1)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:  # a path with a NUL
        raise _refused(path, "cannot be read: not a path") from None
    kind = FORMATS.get(path.suffix.lower()) or ("json" if raw.lstrip()[:1] == b"{" else "yaml")
    if len(raw) > MAX_BYTES[kind]:
        raise _refused(path, f"larger than {MAX_BYTES[kind]} bytes, too large for a {kind.upper()} configuration")
    # Windows' own shells write UTF-16 with a mark; editors there put a mark before UTF-8.
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refused(path, "cannot be read: not UTF-8 text; save it as UTF-8", line) from None
    return document_of(path, kind, text)


def document_of(path: Path, kind: Format, text: str) -> Document:
    """Parses a text; `path` names it in errors."""
    try:
        parsed = PARSERS[kind](text)
    except Malformed as malformed:
        raise _refused(path, f"not {kind.upper()}: {malformed.what}", malformed.line) from None
    if parsed.repeats:
        what = "given twice, first on line {}; keep one of them"
        raise ConfigFileError(path, [Problem(at, what.format(first), line) for at, first, line in parsed.repeats])
    if not isinstance(parsed.value, dict):
        raise _refused(path, "the file does not hold an object with keys such as mcpServers")
    return Document(path, kind, parsed.value, parsed.lines, parsed.literals)


def _refused(path: Path, what: str, line: int | None = None) -> ConfigFileError:
    return ConfigFileError(path, [Problem((), what, line)])
