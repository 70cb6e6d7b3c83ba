"""The tables that rules and patterns are read from, one TOML file each, read once when their module is imported."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_FRAGMENT = re.compile(r"\{([A-Z_]+)\}")


def load_table(name: str, sections: Mapping[str, type]) -> dict[str, Any]:
    """Return the file `name`.toml, or raise ValueError if it does not consist of these sections."""
    table = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))
    check_types(f"{name}.toml", table, sections)
    if table.keys() != sections.keys():
        raise ValueError(f"{name}.toml has {sorted(table)} in place of {sorted(sections)}")
    return table


def load_word_sets(name: str, sections: Sequence[str]) -> list[frozenset[str]]:
    """Return the words of each section of the file `name`.toml, whose values are texts."""
    table = load_table(name, dict.fromkeys(sections, str))
    return [frozenset(table[section].split()) for section in sections]


def check_types(place: str, entry: Mapping[str, Any], types: Mapping[str, type]) -> None:
    """Raise ValueError if the entry has an unknown key, or a value of another type."""
    for key, value in entry.items():
        if type(value) is not types.get(key):
            raise ValueError(f"{place}: {key} is unknown or of a wrong type")


def expand(pattern: str, fragments: Mapping[str, str]) -> str:
    """Return the pattern with each {NAME} replaced by the fragment of that name."""
    return _FRAGMENT.sub(lambda match: fragments[match[1]], pattern)
