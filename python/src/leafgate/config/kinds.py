"""The kinds of values that a configuration holds. Nouns only: the table of keys is written in them, and the reader, the
JSON Schema and the reference all follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final


@dataclass(frozen=True)
class Text:
    """A text. `hint` says what is needed; `pattern` has to fit all of it."""

    hint: str = "a text"
    pattern: str = ""
    choices: tuple[str, ...] = ()
    least: int = 0


SECURE_URL: Final = Text(
    "a URL that begins with https:// (with http:// only on this machine)",
    pattern=r"https://[^\s/]\S*|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?(/\S*)?",
)


@dataclass(frozen=True)
class Written:
    """A text; a number, true or false is taken as it was written: 1.10 stays 1.10."""

    hint: str = "a text (or a number, taken as it is written)"


@dataclass(frozen=True)
class FilePath:
    """A path, relative to the file that names it; `or_url` also takes a secure URL."""

    or_url: bool = False

    @property
    def hint(self) -> str:
        return f"the path of a file, or {SECURE_URL.hint}" if self.or_url else "the path of a file"


@dataclass(frozen=True)
class Switch:
    hint: str = "true or false"


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds."""

    least: int
    most: int | None = None

    @property
    def hint(self) -> str:
        return f"a whole number from {self.least}" + ("" if self.most is None else f" to {self.most}")


@dataclass(frozen=True)
class Number:
    """A number within bounds; the lower one may itself be too little."""

    least: float
    most: float
    above: bool = False
    unit: str = ""

    @property
    def hint(self) -> str:
        what = f"a number of {self.unit}" if self.unit else "a number"
        least = f"above {self.least:g} and up to" if self.above else f"from {self.least:g} to"
        return f"{what}, {least} {self.most:g}"


@dataclass(frozen=True)
class ListOf:
    """A list; with `or_one`, one entry may stand for a list of one."""

    entry: Kind
    what: str = ""
    or_one: bool = False
    least: int = 0

    @property
    def hint(self) -> str:
        return self.what or f"a list, each entry {self.entry.hint}"


@dataclass(frozen=True)
class MapOf:
    """An object whose keys are the operator's own.

    An entry is as if it were not there if it is null, with `drop_null`; or if its key named `switched_off` is true.
    """

    value: Kind
    what: str
    keys: str = "name"
    drop_null: bool = False
    switched_off: str = ""

    @property
    def hint(self) -> str:
        return self.what


@dataclass(frozen=True)
class Section:
    """An object with known keys. `name` lets several places share it; `foreign`: a client's own file may hold others.

    Of `exactly_one` one key is needed; of `any_of` at least one that is not empty, else `any_what` is told.
    """

    keys: tuple[Key, ...]
    what: str
    name: str = ""
    foreign: bool = False
    exactly_one: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    any_what: str = ""

    @cached_property
    def by_name(self) -> dict[str, Key]:
        return {key.name: key for key in self.keys}

    @property
    def hint(self) -> str:
        return self.what


Kind = Text | Written | FilePath | Switch | Whole | Number | ListOf | MapOf | Section


@dataclass(frozen=True)
class Key:
    """One key: what it takes, what it means, and what counts without it. `group` is its chapter in the reference."""

    name: str
    kind: Kind
    doc: str
    default: Any = None
    required: bool = False
    nullable: bool = False
    group: str = ""
