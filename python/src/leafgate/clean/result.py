"""The result of cleaning, and the walk that applies a cleaning function to every string of a JSON value.

The walk is iterative and limited in depth: hostile nesting ends in a visible note, never in a RecursionError. Keys are
cleaned too; if two keys become equal, a suffix keeps them apart, so no member is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, AnyStr, Final, Generic, TypeVar

from leafgate.model.errors import LeafgateError

MAX_DEPTH: Final = 200  # well below the depth at which json.dumps gives up
TOO_DEEP: Final = "[withheld: nested too deeply]"
DEPTH: Final = "too-deep"  # the kind under which withheld subtrees are counted

_VALUE_KEYS: Final = frozenset(("value", "val"))
_NAME_KEYS: Final = ("name", "key", "Name", "Key", "variable", "field", "property", "label", "header", "parameter")
_PRIVATE_MEMBERS: Final = frozenset(("d", "k", "p", "q", "dp", "dq", "qi"))  # of a JSON Web Key
_ROW_KEYS: Final = frozenset(("rows", "data", "values", "records", "items"))
_COLUMN_KEYS: Final = ("columns", "headers", "header", "fields", "column_names", "columnNames")

_CONTAINERS: Final = (dict, list, tuple)  # created once: a union in a call is created again by every call

T = TypeVar("T")
CleanString = Callable[[str, str | None], str]  # (string, name of the member, variable or column it is of, or None)


@dataclass(frozen=True)
class CleaningReport:
    """How many items of each kind were removed or made inert, redacted, or only flagged."""

    removed: Mapping[str, int] = field(default_factory=dict)
    redacted: Mapping[str, int] = field(default_factory=dict)
    flagged: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: CleaningReport) -> CleaningReport:
        pairs = ((self.removed, other.removed), (self.redacted, other.redacted), (self.flagged, other.flagged))
        sums = ({**one, **{kind: one.get(kind, 0) + more[kind] for kind in more}} for one, more in pairs)
        return CleaningReport(*sums)


class CleaningTimeout(LeafgateError):
    """A text was not cleaned, because it took too long. It must not be shown."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"cleaning took longer than {seconds:g} s")
        self.seconds = seconds


NO_CHANGES: Final = CleaningReport()


@dataclass(frozen=True)
class Cleaned(Generic[T]):
    """A clean text or JSON value, and what cleaning did to it."""

    value: T
    report: CleaningReport = NO_CHANGES


@dataclass(frozen=True)
class Strings:
    """The strings and keys of a value, down to a maximum depth."""

    items: list[str]
    too_deep: bool


def all_strings(value: Any, max_depth: int = MAX_DEPTH) -> Strings:
    """Return every string and key of the value."""
    items: list[str] = []
    level: list[Any] = [value]
    for _ in range(max_depth + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                items.append(item)
            elif isinstance(item, dict):
                below.extend(item)
                below.extend(item.values())
            elif isinstance(item, list | tuple):
                below.extend(item)
        if not below:
            return Strings(items, too_deep=False)
        level = below
    return Strings(items, too_deep=True)


def map_strings(value: Any, clean: CleanString, max_depth: int = MAX_DEPTH) -> tuple[Any, int]:
    """Apply `clean` to each string and key. Return the new value and the number of subtrees withheld as too deep."""
    holder: list[Any] = [None]
    withheld = 0
    # (target container, slot in it, source value, depth, its name: see CleanString; of a table's rows, all of them)
    pending: list[tuple[Any, Any, Any, int, str | tuple[str, ...] | None]] = [(holder, 0, value, 0, None)]
    while pending:
        target, slot, source, depth, name = pending.pop()
        if isinstance(source, str):
            target[slot] = clean(source, name if isinstance(name, str) else None)
        elif not isinstance(source, _CONTAINERS):
            target[slot] = source
        elif depth >= max_depth:
            target[slot] = TOO_DEEP
            withheld += 1
        elif isinstance(source, dict):
            keys = unique_keys(source, clean)
            members: dict[Any, Any] = dict.fromkeys(keys)
            target[slot] = members
            pending.extend(
                (members, key, item, depth + 1, _name_of(old, source, name))
                for key, (old, item) in zip(keys, source.items(), strict=True)
            )
        else:
            row: list[Any] = [None] * len(source)
            target[slot] = row
            names: Iterable[Any] = repeat(name)
            if isinstance(name, tuple) and len(name) == len(source) and not any(map(_is_container, source)):
                names = name
            pending.extend((row, place, item, depth + 1, each) for place, (item, each) in enumerate(zip(source, names)))  # noqa: B905 (repeat has no end)
    return holder[0], withheld


def _is_container(value: Any) -> bool:
    return isinstance(value, _CONTAINERS)


def _name_of(key: Any, source: Mapping[Any, Any], outer: object) -> str | tuple[str, ...] | None:
    """Return the name of a member's value: its key, but in {"name": NAME, "value": ...} the NAME, in NAME: {"value":
    ...} the name of the object, and for the rows of a table the names of its columns."""
    if not isinstance(key, str):
        return None
    plain = key.lower()
    if plain in _VALUE_KEYS:
        default = outer if isinstance(outer, str) else key
        return next((source[name] for name in _NAME_KEYS if isinstance(source.get(name), str)), default)
    if key in _PRIVATE_MEMBERS and "kty" in source:
        return "private_key"
    if plain in _ROW_KEYS:
        columns = next((source[name] for name in _COLUMN_KEYS if isinstance(source.get(name), list)), ())
        if columns and all(isinstance(column, dict) for column in columns):
            columns = [column.get("name") for column in columns]
        if columns and all(isinstance(column, str) for column in columns):
            return tuple(columns)
    return key


def unique_keys(keys: Iterable[Any], clean: CleanString) -> list[Any]:
    """Return the clean keys in order. A key that was clean keeps its name; one that becomes equal to it gets `~2`."""
    originals = list(keys)
    clean_keys = [clean(key, None) if isinstance(key, str) else key for key in originals]
    if clean_keys == originals:
        return clean_keys
    names = {new for old, new in zip(originals, clean_keys, strict=True) if old == new}
    result: list[Any] = []
    next_number: dict[str, int] = {}
    for old, new in zip(originals, clean_keys, strict=True):
        name = new
        if old != new:
            number = next_number.get(new, 2)
            while name in names:
                name = f"{new}~{number}"
                number += 1
            next_number[new] = number
            names.add(name)
        result.append(name)
    return result


def replace_spans(text: AnyStr, spans: Iterable[tuple[int, int, AnyStr]]) -> AnyStr:
    """Replace each span (start, end, new text); one that begins inside the span before it stays as it is."""
    pieces: list[AnyStr] = []
    done = 0
    for start, end, new in spans:
        if start >= done:
            pieces += (text[done:start], new)
            done = end
    pieces.append(text[done:])
    return text[:0].join(pieces)
