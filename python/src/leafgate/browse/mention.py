"""Finds tools that a query calls by name. In: items, a query. Out: positions of the named. May touch: nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from leafgate.browse.query import STOP_WORDS, Query
from leafgate.model.tool import SelectableItem

_LONGEST: Final = 6  # words of a name with spaces
_MARKS: Final = ("__", "/", ":", ".")
_UNCALLED: Final = STOP_WORDS | {"use", "using", "call", "run", "invoke", "execute", "tool", "function", "mcp"}


@dataclass(frozen=True)
class MentionIndex:
    """Items by what they may be called. A `plain` name is an everyday word, and means the tool only when alone."""

    names: dict[str, tuple[int, ...]] = field(repr=False)
    servers: tuple[str, ...] = field(repr=False)
    is_word: Callable[[str], bool] = field(repr=False)

    def find(self, query: Query) -> list[int]:
        spoken = [word for word in query.mentions if word.lower() not in _UNCALLED]
        alone = " ".join(spoken).casefold() if len(spoken) <= _LONGEST else ""
        found: dict[int, None] = {}
        for name in [*query.quoted, query.text.strip()[:300]]:
            found.update(dict.fromkeys(self.names.get(name.casefold(), ())))
        for start in range(len(query.mentions)):
            for end in range(start + 1, min(start + _LONGEST, len(query.mentions)) + 1):
                name = " ".join(query.mentions[start:end]).casefold()
                named = self.names.get(name) or ()
                if named and (name == alone or not self._is_plain(name)):
                    found.update(dict.fromkeys(named))
            found.update(dict.fromkeys(self._qualified(query.mentions[start].casefold())))
        return list(found)

    def _qualified(self, mention: str) -> list[int]:
        """`github.create_issue`, `github/create_issue`, `mcp__github__create_issue`."""
        for mark in _MARKS:
            server, _, name = mention.rpartition(mark)
            server = server.removeprefix(f"mcp{mark}")
            if server and name in self.names:
                return [position for position in self.names[name] if self.servers[position] == server]
        return []

    def _is_plain(self, name: str) -> bool:
        return name.isalpha() and (len(name) < 4 or self.is_word(name))


def build_mentions(items: Sequence[SelectableItem], is_word: Callable[[str], bool]) -> MentionIndex:
    names: dict[str, tuple[int, ...]] = {}
    for position, item in enumerate(items):
        short_id = item.id.partition("#")[0]
        for name in {item.name, item.upstream_name, item.id, short_id}:
            key = name.casefold()
            if position not in names.get(key, ()):
                names[key] = (*names.get(key, ()), position)
    names.pop("", None)
    return MentionIndex(names, tuple(item.server.casefold() for item in items), is_word)
