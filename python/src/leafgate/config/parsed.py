"""What a reader of one format gives. Nouns: a value, the line of each key path, repeated keys; or a malformed text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leafgate.config.problem import KeyPath, Problem

MAX_DEPTH: Final = 64


class Malformed(Exception):
    """The text is not of its format; caught where the file's name is known."""

    def __init__(self, what: str, line: int | None) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


@dataclass(frozen=True)
class Parsed:
    """A value of dicts with text keys, lists and scalars. `literals` has numbers and booleans as they were written."""

    value: Any
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    literals: Mapping[KeyPath, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def repeated(path: KeyPath, first: int, second: int) -> Problem:
    return Problem(path, f"given twice, first on line {first}; keep one of them", second)
