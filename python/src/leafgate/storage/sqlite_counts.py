"""Sums of counters in an SQLite file. In: counts to add. Out: everything that was ever added.

Touches the file. Bounded: what is beyond MAX_NAMES is not counted.
"""

from __future__ import annotations

import json
import sqlite3
from functools import partial

from leafgate.ports import Counts
from leafgate.storage.sqlite_file import SqliteFile
from leafgate.storage.state import MAX_NAMES


class SqliteSharedCounts:
    """Fills the SharedCounts port. A transaction is whole or not there: nothing is added twice."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def add(self, counts: Counts, since: str) -> None:
        await self._file.run(partial(_add, counts, since))

    async def sums(self) -> tuple[Counts, str]:
        return await self._file.run(_sums)


def _add(counts: Counts, since: str, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO counts_since SELECT ? WHERE NOT EXISTS (SELECT 1 FROM counts_since)", (since,))
    (known,) = connection.execute("SELECT count(*) FROM counts").fetchone()
    more = "UPDATE counts SET times = times + ? WHERE name = ?"
    for name, times in counts.items():
        written = json.dumps(name)
        if not connection.execute(more, (times, written)).rowcount and known < MAX_NAMES:
            connection.execute("INSERT INTO counts VALUES (?, ?)", (written, times))
            known += 1


def _sums(connection: sqlite3.Connection) -> tuple[Counts, str]:
    rows = connection.execute("SELECT name, times FROM counts").fetchall()
    since = connection.execute("SELECT since FROM counts_since").fetchone()
    return {tuple(json.loads(name)): times for name, times in rows}, "" if since is None else str(since[0])
