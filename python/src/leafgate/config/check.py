"""Holds a document against the table of keys. In: a Document, the table, variables. Out: checked values, and problems.

Touches only files that variables name. Every problem is collected, none raised. In the values, variables and defaults
are filled in, paths are Paths, and nothing is there that the table does not know.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leafgate.config.document import Document
from leafgate.config.keys import TOP
from leafgate.config.kinds import (
    SECURE_URL,
    FilePath,
    Key,
    Kind,
    ListOf,
    MapOf,
    Number,
    Section,
    Switch,
    Text,
    Whole,
    Written,
)
from leafgate.config.problem import KeyPath, Problem, nearest, show_path, suggest
from leafgate.config.variables import Filled, Unfilled, Variables

_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")
_SWITCHES: Final = {"true": True, "false": False}
_YES: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"} | {word: word for word in _SWITCHES}
_UNTEXT: Final = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True)
class Checked:
    """The values, where they can be used; else the problems. `files` were read on the way."""

    value: dict[str, Any]
    problems: tuple[Problem, ...]
    notices: tuple[str, ...]
    files: tuple[Path, ...]


def check(document: Document, variables: Variables, *, client_file: bool) -> Checked:
    """A whole document. In a client's own file, keys that are not for us are passed over with a notice."""
    checking = _Checking(document, variables, client_file)
    value = checking.section(document.value, TOP, ())
    return Checked(value or {}, tuple(checking.problems), tuple(checking.notices), tuple(checking.files))


class _Checking:
    """One pass over a document. A value that is refused comes out as None, and leaves a problem behind."""

    def __init__(self, document: Document, variables: Variables, client_file: bool) -> None:
        self.document = document
        self.variables = variables
        self.client_file = client_file
        self.problems: list[Problem] = []
        self.notices: list[str] = []
        self.files: list[Path] = []

    def refuse(self, at: KeyPath, what: str) -> None:
        self.problems.append(self.document.problem(at, what))

    def value(self, value: Any, kind: Kind, at: KeyPath) -> Any:
        match kind:
            case Section():
                return self.section(value, kind, at)
            case MapOf():
                return self._map(value, kind, at)
            case ListOf():
                return self._list(value, kind, at)
            case _:
                return self._scalar(value, kind, at)

    def section(self, value: Any, kind: Section, at: KeyPath) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self.refuse(at, f"needs to be {kind.hint}")
            return None
        refused = self._unknown(value, kind, at)
        if not {nearest(name, [*kind.by_name]) for name in refused} & {*kind.exactly_one}:
            self._combined(value, kind, at)
        found: dict[str, Any] = {}
        for key in kind.keys:
            if key.name in value:
                kept = self._given(value[key.name], key, (*at, key.name))
            else:
                kept = None
                if key.required:
                    self.refuse(at, f"{key.name} is missing: {key.kind.hint}")
            if kept is None and key.default is not None:
                kept = self.value(key.default, key.kind, (*at, key.name))
            if kept is not None:
                found[key.name] = kept
        return found

    def _given(self, value: Any, key: Key, at: KeyPath) -> Any:
        if value is not None:
            return self.value(value, key.kind, at)
        if not key.nullable:
            # An empty `policy:` would otherwise switch the policy off.
            self.refuse(at, f"has no value; leave it out, or give {key.kind.hint}")
        return None

    def _unknown(self, value: dict[str, Any], kind: Section, at: KeyPath) -> list[str]:
        """Those that are refused: in a client's own file keys for that client are not, unless what they seem to be
        misspellings of is needed and missing."""
        refused = [name for name in value if name not in kind.by_name]
        if kind.foreign and self.client_file:
            lacking = {*kind.exactly_one} if not any(value.get(name) for name in kind.exactly_one) else set()
            passed = [name for name in refused if nearest(name, [*kind.by_name]) not in lacking]
            refused = [name for name in refused if name not in passed]
            if passed:
                self.notices.append(self._passed_over(passed, kind, at))
        for name in refused:
            self.refuse((*at, name), f"unknown key{_where_known(name, kind)}")
        return refused

    def _passed_over(self, unknown: list[str], kind: Section, at: KeyPath) -> str:
        told = []
        for name in unknown:
            near = nearest(name, [*kind.by_name])
            told.append(show_path((name,)) + (f" (did you mean {near}?)" if near else ""))
        place = ": ".join((str(self.document.path), *([show_path(at)] if at else [])))
        return f"{place}: not for leafgate, passed over: {', '.join(told)}"

    def _combined(self, value: dict[str, Any], kind: Section, at: KeyPath) -> None:
        if kind.exactly_one and sum(value.get(name) is not None for name in kind.exactly_one) != 1:
            self.refuse(at, f"give either a {' or a '.join(kind.exactly_one)}")
        if kind.any_of and not any(value.get(name) for name in kind.any_of):
            given = next(((*at, name) for name in kind.any_of if name in value), at)
            self.refuse(given, kind.any_what)

    def _map(self, value: Any, kind: MapOf, at: KeyPath) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self.refuse(at, f"needs to be {kind.hint}")
            return None
        given = {name: each for name, each in value.items() if not _left_out(each, kind)}
        for name in given:
            if not name or _UNTEXT.search(name):
                self.refuse((*at, name), "a name that is not empty, of characters that a text may hold")
        return {name: self.value(each, kind.value, (*at, name)) for name, each in given.items()}

    def _list(self, value: Any, kind: ListOf, at: KeyPath) -> list[Any] | None:
        if kind.or_one and not isinstance(value, list):
            return [self.value(value, kind.entry, at)]
        if not isinstance(value, list):
            self.refuse(at, f"needs to be {kind.hint}")
            return None
        if len(value) < kind.least:
            self.refuse(at, f"needs to be {kind.hint}, not empty")
            return None
        return [self.value(each, kind.entry, (*at, index)) for index, each in enumerate(value)]

    def _scalar(self, value: Any, kind: Kind, at: KeyPath) -> Any:
        filled = self._fill(value, at) if isinstance(value, str) else None
        if isinstance(value, str) and filled is None:
            return None
        had_variables = filled is not None and filled.had_variables
        plain = value if filled is None else filled.text
        if isinstance(plain, str) and _UNTEXT.search(plain):
            self.refuse(at, "holds a character that no text may hold (NUL or half of a pair)")
            return None
        read = _READERS[type(kind)](self, plain, kind, at, had_variables)
        if read is None:
            self.refuse(at, _needed(kind, plain, had_variables))
        return read

    def _fill(self, text: str, at: KeyPath) -> Filled | None:
        try:
            filled = self.variables.fill(text)
        except Unfilled as unfilled:
            self.refuse(at, str(unfilled))
            return None
        self.files.extend(filled.files)
        return filled

    def read_text(self, value: Any, kind: Text, _at: KeyPath, _filled: bool) -> str | None:
        if not isinstance(value, str) or len(value) < kind.least:
            return None
        if (kind.choices and value not in kind.choices) or (kind.pattern and not re.fullmatch(kind.pattern, value)):
            return None
        return value

    def read_written(self, value: Any, _kind: Written, at: KeyPath, _filled: bool) -> str | None:
        if isinstance(value, str):
            return value
        if not isinstance(value, bool | int | float):
            return None
        return self.document.literals.get(at) or (str(value).lower() if isinstance(value, bool) else str(value))

    def read_path(self, value: Any, kind: FilePath, _at: KeyPath, _filled: bool) -> Path | str | None:
        if not isinstance(value, str) or not value:
            return None
        if "://" in value:
            return value if kind.or_url and re.fullmatch(SECURE_URL.pattern, value) else None
        return self.variables.path(value)

    def read_switch(self, value: Any, _kind: Switch, _at: KeyPath, filled: bool) -> bool | None:
        if filled:
            return _SWITCHES.get(str(value).lower())
        return value if isinstance(value, bool) else None

    def read_whole(self, value: Any, kind: Whole, _at: KeyPath, filled: bool) -> int | None:
        if filled and _WHOLE.fullmatch(value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < kind.least:
            return None
        return value if kind.most is None or value <= kind.most else None

    def read_number(self, value: Any, kind: Number, _at: KeyPath, filled: bool) -> float | None:
        if filled:
            value = _float(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not kind.least <= value <= kind.most:
            return None
        return None if kind.above and value == kind.least else float(value)


_READERS: Final[dict[type[Any], Callable[[_Checking, Any, Any, KeyPath, bool], Any]]] = {
    Text: _Checking.read_text,
    Written: _Checking.read_written,
    FilePath: _Checking.read_path,
    Switch: _Checking.read_switch,
    Whole: _Checking.read_whole,
    Number: _Checking.read_number,
}


def _needed(kind: Kind, value: Any, had_variables: bool) -> str:
    """What is needed in place of a value, which is only used to guess what was meant, and not even that if secret."""
    if isinstance(kind, Text) and kind.choices:
        near = nearest(value, kind.choices) if isinstance(value, str) and not had_variables else None
        needed = f"one of {', '.join(kind.choices)}" + (f"; did you mean {near}?" if near else "")
    elif isinstance(kind, Switch) and isinstance(value, str) and value.lower() in _YES and not had_variables:
        needed = f"{kind.hint}; write {_YES[value.lower()]} without quotes"
    else:
        needed = f"needs to be {kind.hint}"
    return f"{needed} (this is what its variables gave)" if had_variables else needed


def _left_out(value: Any, kind: MapOf) -> bool:
    if value is None:
        return kind.drop_null
    return isinstance(value, dict) and value.get(kind.switched_off) is True


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _where_known(name: str, kind: Section) -> str:
    """What may have been meant: a key of this section, or the section that the key belongs to."""
    if nearest(name, [*kind.by_name]) is None:
        homes = [path for path, section in _sections(TOP, "") if section is not kind and name in section.by_name]
        if homes:
            return f"; it belongs into {homes[0] or 'the top of the file'}"
    return suggest(name, [*kind.by_name])


def _sections(kind: Kind, path: str) -> Iterator[tuple[str, Section]]:
    """Every section of the table, with its path in words."""
    match kind:
        case Section():
            yield path, kind
            for key in kind.keys:
                yield from _sections(key.kind, f"{path}.{key.name}" if path else key.name)
        case MapOf():
            yield from _sections(kind.value, f"{path}.<{kind.keys}>")
        case ListOf():
            yield from _sections(kind.entry, f"{path}[]")
        case _:
            return
