"""The names of all tools as one set, in which texts are looked up word by word.

A description that mentions a tool of another server may be meant to change how that tool is used. A search for each
name in each text takes time in proportion to their product (2,000 descriptions and 3,000 names kept a core busy for 85
seconds); a lookup of each word takes time in proportion to the text, whatever the number of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from leafgate.clean.markers import shadow

MAX_WORDS: Final = 6  # of a name that is looked for; `admin/users.list` has three
_WORD: Final = re.compile(r"[\w-]+")


class ToolNames:
    """The distinctive names of tools, by server. A plain word (`search`) is not one: any description may use it."""

    def __init__(self, by_server: Mapping[str, Iterable[str]]) -> None:
        owners: dict[str, set[str]] = {}
        for server, names in by_server.items():
            for name in names:
                owners.setdefault(name, set()).add(server)
        self._most_words = 0
        # By folded name: the servers that have every name of this form. For the others, one of them is foreign.
        self._owners: dict[str, frozenset[str]] = {}
        for name, servers in owners.items():
            words = _WORD.findall(name)
            if _is_distinctive(name) and 0 < len(words) <= MAX_WORDS:
                folded = shadow(name)
                self._owners[folded] = self._owners.get(folded, frozenset(servers)) & servers
                self._most_words = max(self._most_words, len(words))

    def find(self, server: str, folded: str) -> str | None:
        """The first name in a folded text that other servers have, and this one does not."""
        words = [match.span() for match in _WORD.finditer(folded)]
        for index, (start, _) in enumerate(words):
            for _, end in words[index : index + self._most_words]:
                if self.is_foreign(server, folded[start:end]):
                    return folded[start:end]
        return None

    def is_foreign(self, server: str, folded: str) -> bool:
        """Whether a folded name is one that other servers have, and this one does not."""
        owners = self._owners.get(folded)
        return owners is not None and server not in owners


NO_NAMES: Final = ToolNames({})


class OtherNames:
    """The names of tools as one server's definition is compared with them, and a record of what was looked up.

    A scan whose lookups have the same answers among other names would have the same result.
    """

    def __init__(self, names: ToolNames, server: str) -> None:
        self._names = names
        self._server = server
        self._mentions: dict[str, str | None] = {}
        self._names_asked: dict[str, bool] = {}

    def find(self, folded: str) -> str | None:
        """The first name of another server's tool in a folded text."""
        self._mentions[folded] = self._names.find(self._server, folded)
        return self._mentions[folded]

    def __contains__(self, folded: str) -> bool:
        """Whether another server's tool has this folded name."""
        self._names_asked[folded] = self._names.is_foreign(self._server, folded)
        return self._names_asked[folded]

    def without_names(self) -> OtherNames:
        """The same record, for which nothing further can be looked up."""
        record = OtherNames(NO_NAMES, self._server)
        record._mentions, record._names_asked = self._mentions, self._names_asked
        return record

    def has_same_answers(self, names: ToolNames) -> bool:
        """Whether everything that was looked up has the same answer among these names."""
        server = self._server
        return all(names.find(server, text) == name for text, name in self._mentions.items()) and all(
            names.is_foreign(server, name) == answer for name, answer in self._names_asked.items()
        )


def _is_distinctive(name: str) -> bool:
    return len(name) > 4 and re.search(r"[_\-A-Z0-9./:]", name[1:]) is not None
