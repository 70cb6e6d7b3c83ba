"""Sessions of the handshake era, and what was sent to them, in an SQLite file. In: a session's id. Out: what is kept.

Touches the file. A session ends an hour after it was last used, its events after ten minutes. One that was ended has no
words: nobody can keep it again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence

from leafgate.ports import KeptEvent, KeptSession
from leafgate.storage.owner_name import name_of
from leafgate.storage.session_bounds import ALIVE_SECONDS, EVENT_SECONDS, MAX_EVENTS, SESSION_SECONDS, is_event_name
from leafgate.storage.sqlite_file import SqliteFile

Clock = Callable[[], float]


class SqliteSessions:
    """Fills the Sessions port."""

    def __init__(self, file: SqliteFile, clock: Clock = time.time) -> None:
        self._file = file
        self._clock = clock

    async def keep(self, id: str, session: KeptSession) -> bool:
        now = self._clock()
        row = (name_of(id), session.user, session.hello, now + SESSION_SECONDS)

        into = (
            "INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET user = excluded.user, hello = excluded.hello, expires = excluded.expires WHERE hello != x''"
        )

        def put(connection: sqlite3.Connection) -> bool:
            connection.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
            return connection.execute(into, row).rowcount > 0

        return await self._file.run(put)

    async def find(self, id: str) -> KeptSession | None:
        one = "SELECT user, hello FROM sessions WHERE name = ? AND expires > ? AND hello != x''"
        asked = (name_of(id), self._clock())
        found = await self._file.run(lambda connection: connection.execute(one, asked).fetchone())
        return None if found is None else KeptSession(*found)

    async def end(self, id: str) -> None:
        name, expires = name_of(id), self._clock() + SESSION_SECONDS

        def put(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO sessions VALUES (?, '', x'', ?)", (name, expires))
            connection.execute("DELETE FROM session_events WHERE session = ?", (name,))

        await self._file.run(put)

    async def note(self, id: str, stream: str, gateway: str, message: bytes) -> str:
        now, name = self._clock(), name_of(id)
        row = (name, stream, gateway, message, now + EVENT_SECONDS)

        def put(connection: sqlite3.Connection) -> int | None:
            connection.execute("DELETE FROM session_events WHERE expires <= ?", (now,))
            into = "INSERT INTO session_events (session, stream, gateway, message, expires) VALUES (?, ?, ?, ?, ?)"
            number = connection.execute(into, row).lastrowid
            older = "SELECT number FROM session_events WHERE session = ? ORDER BY number DESC LIMIT -1 OFFSET ?"
            connection.execute(f"DELETE FROM session_events WHERE number IN ({older})", (name, MAX_EVENTS))
            return number

        return str(await self._file.run(put))

    async def noted(self, id: str, since: str) -> Sequence[KeptEvent]:
        if not is_event_name(since):
            return []
        those = (
            "SELECT number, stream, gateway, message FROM session_events "
            "WHERE session = ? AND number >= ? AND expires > ? ORDER BY number"
        )
        asked = (name_of(id), int(since), self._clock())
        rows = await self._file.run(lambda connection: connection.execute(those, asked).fetchall())
        found = [KeptEvent(str(number), stream, gateway, message) for number, stream, gateway, message in rows]
        return found if found and found[0].id == since else []

    async def beat(self, gateway: str) -> None:
        row = (gateway, self._clock() + ALIVE_SECONDS)

        def put(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM gateways WHERE expires <= ?", (self._clock(),))
            connection.execute("INSERT OR REPLACE INTO gateways VALUES (?, ?)", row)

        await self._file.run(put)

    async def is_alive(self, gateway: str) -> bool:
        one = "SELECT 1 FROM gateways WHERE name = ? AND expires > ?"
        asked = (gateway, self._clock())
        return await self._file.run(lambda connection: connection.execute(one, asked).fetchone()) is not None
