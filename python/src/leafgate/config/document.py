"""Reads a configuration file. In: a path to YAML, TOML, JSON or JSON with comments. Out: a Document with its lines.

Touches that file. Knows no key: what the values mean is for others. A file that cannot be read is a ConfigFileError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from leafgate.config.json_text import parse_json
from leafgate.config.parsed import Malformed, Parsed
from leafgate.config.problem import ConfigFileError, KeyPath, Problem
from leafgate.config.toml_text import parse_toml
from leafgate.config.yaml_text import parse_yaml

Format = Literal["yaml", "toml", "json"]

# A client's own JSON file may hold its history beside the servers; what people write by hand is small.
MAX_BYTES: Final[Mapping[Format, int]] = {"yaml": 1024 * 1024, "toml": 1024 * 1024, "json": 16 * 1024 * 1024}
_FORMATS: Final[Mapping[str, Format]] = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".json": "json",
    ".jsonc": "json",
}
_PARSERS: Final[Mapping[Format, Callable[[str], Parsed]]] = {
    "yaml": parse_yaml,
    "toml": parse_toml,
    "json": parse_json,
}


@dataclass(frozen=True)
class Document:
    """The object in a file, the line of each key path, and numbers as they were written. Secrets are not shown."""

    path: Path
    format: Format
    value: Mapping[str, Any] = field(repr=False)
    lines: Mapping[KeyPath, int] = field(default_factory=dict, repr=False)
    literals: Mapping[KeyPath, str] = field(default_factory=dict, repr=False)

    def line_of(self, path: KeyPath) -> int | None:
        """The line of a key, or of the nearest thing round it that has one."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def problem(self, path: KeyPath, what: str) -> Problem:
        return Problem(path, what, self.line_of(path))


def load_document(path: Path) -> Document:
    """The object in this file."""
    raw = _read(path)
    kind = _FORMATS.get(path.suffix.lower()) or ("json" if raw.lstrip()[:1] == b"{" else "yaml")
    if len(raw) > MAX_BYTES[kind]:
        raise _refused(path, f"larger than {MAX_BYTES[kind]} bytes, which is no {kind.upper()} configuration")
    return document_of(path, kind, _text(path, raw))


def document_of(path: Path, kind: Format, text: str) -> Document:
    """The same for a text; `path` names it in errors."""
    try:
        parsed = _PARSERS[kind](text)
    except Malformed as malformed:
        raise ConfigFileError(path, [Problem((), f"not {kind.upper()}: {malformed.what}", malformed.line)]) from None
    if parsed.problems:
        raise ConfigFileError(path, parsed.problems)
    if not isinstance(parsed.value, dict):
        raise _refused(path, "the file does not hold an object with keys such as mcpServers")
    return Document(path, kind, parsed.value, parsed.lines, parsed.literals)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(max(MAX_BYTES.values()) + 1)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:  # a path with a NUL
        raise _refused(path, "cannot be read: not a path") from None


def _text(path: Path, raw: bytes) -> str:
    # Windows' own shells write UTF-16 with a mark; editors there put a mark before UTF-8.
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigFileError(path, [Problem((), "cannot be read: not UTF-8 text; save it as UTF-8", line)]) from None


def _refused(path: Path, what: str) -> ConfigFileError:
    return ConfigFileError(path, [Problem((), what)])
