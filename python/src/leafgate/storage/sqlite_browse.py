"""Which cards each client has seen, in an SQLite file, bounded. In: an owner and cards. Out: the same, for that owner.

Touches the file. A state belongs to a catalog: under another one nothing was seen yet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import partial

from leafgate.model.card import ChoiceCard
from leafgate.storage.browse_states import MAX_OWNERS, NOTHING_SEEN
from leafgate.storage.owner_name import name_of
from leafgate.storage.sqlite_file import SqliteFile, keep_newest, next_tick
from leafgate.storage.stored_cards import read_cards, write_cards


class SqliteBrowseStates:
    """Fills the BrowseStates port."""

    def __init__(self, file: SqliteFile, max_owners: int = MAX_OWNERS) -> None:
        self._file = file
        self._max_owners = max_owners
        self._catalog = ""

    def renew(self, catalog: str) -> None:
        self._catalog = catalog

    async def seen(self, owner: str) -> Mapping[str, ChoiceCard | None]:
        one = "SELECT cards FROM browse_states WHERE owner = ? AND catalog = ?"
        asked = (name_of(owner), self._catalog)
        found = await self._file.run(lambda connection: connection.execute(one, asked).fetchone())
        return NOTHING_SEEN if found is None else read_cards(found[0])

    async def keep(self, owner: str, seen: Mapping[str, ChoiceCard | None]) -> None:
        cards = write_cards(seen)
        if cards is not None:
            await self._file.run(partial(self._keep, name_of(owner), self._catalog, cards))

    def _keep(self, owner: str, catalog: str, cards: bytes, connection: sqlite3.Connection) -> None:
        tick = next_tick(connection)
        connection.execute("INSERT OR REPLACE INTO browse_states VALUES (?, ?, ?, ?)", (owner, catalog, cards, tick))
        keep_newest(connection, "browse_states", self._max_owners, tick)
