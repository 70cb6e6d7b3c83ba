"""Every string of a JSON value through one function. In: a JSON value. Out: a new one of the same shape. Pure.

Iterative and bounded in depth: hostile nesting ends in a visible note, never in a RecursionError. Keys are strings too;
two keys that become equal are told apart by a suffix, so no member is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

MAX_DEPTH: Final = 200  # well below the depth at which json.dumps gives up
TOO_DEEP: Final = "[withheld: nested too deeply]"


Clean = Callable[[str, str | None], str]  # a string and, where it has one, the name of the member that holds it


@dataclass(frozen=True)
class Strings:
    """The strings and keys of a value, down to the depth that was asked for."""

    found: list[str]
    too_deep: bool


def all_strings(value: Any, max_depth: int = MAX_DEPTH) -> Strings:
    """Every string and key in the value."""
    found: list[str] = []
    level: list[Any] = [value]
    for _ in range(max_depth + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                found.append(item)
            elif isinstance(item, dict):
                below.extend(item)
                below.extend(item.values())
            elif isinstance(item, list | tuple):
                below.extend(item)
        if not below:
            return Strings(found, too_deep=False)
        level = below
    return Strings(found, too_deep=True)


def map_strings(value: Any, clean: Clean, max_depth: int = MAX_DEPTH) -> tuple[Any, int]:
    """The value with `clean` applied to each string and key, and how many subtrees lay too deep and were withheld."""
    holder: list[Any] = [None]
    withheld = 0
    # (target container, slot in it, source value, depth, name of the member it stands under)
    waiting: list[tuple[Any, Any, Any, int, str | None]] = [(holder, 0, value, 0, None)]
    while waiting:
        target, slot, source, depth, name = waiting.pop()
        if isinstance(source, str):
            target[slot] = clean(source, name)
        elif isinstance(source, dict):
            if depth >= max_depth:
                target[slot] = TOO_DEEP
                withheld += 1
                continue
            keys = unique_keys(source, clean)
            made: dict[Any, Any] = dict.fromkeys(keys)
            target[slot] = made
            waiting.extend(
                (made, key, item, depth + 1, old if isinstance(old, str) else None)
                for key, (old, item) in zip(keys, source.items(), strict=True)
            )
        elif isinstance(source, list | tuple):
            if depth >= max_depth:
                target[slot] = TOO_DEEP
                withheld += 1
                continue
            row: list[Any] = [None] * len(source)
            target[slot] = row
            waiting.extend((row, place, item, depth + 1, name) for place, item in enumerate(source))
        else:
            target[slot] = source
    return holder[0], withheld


def unique_keys(keys: Iterable[Any], clean: Clean) -> list[Any]:
    """The cleaned keys in order. A key that was clean keeps its name; one that becomes equal to it gets `~2`, `~3`."""
    originals = list(keys)
    cleaned = [clean(key, None) if isinstance(key, str) else key for key in originals]
    if cleaned == originals:
        return cleaned
    taken = {new for old, new in zip(originals, cleaned, strict=True) if old == new}
    result: list[Any] = []
    next_number: dict[str, int] = {}
    for old, new in zip(originals, cleaned, strict=True):
        name = new
        if old != new:
            number = next_number.get(new, 2)
            while name in taken:
                name = f"{new}~{number}"
                number += 1
            next_number[new] = number
            taken.add(name)
        result.append(name)
    return result
