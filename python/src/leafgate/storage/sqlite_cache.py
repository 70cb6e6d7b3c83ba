"""Results of tools in an SQLite file, bounded in number, bytes and age. In: a key and a result. Out: an equal result.

Touches the file. Entries belong to a catalog: gateways with equal catalogs, also later ones, share them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from leafgate.ports import Clock
from leafgate.storage.packed import pack
from leafgate.storage.result_cache import ENTRY_OVERHEAD, CacheBounds, read_result, written
from leafgate.storage.sqlite_file import SqliteFile, next_tick


class SqliteResultCache:
    """Fills the ResultCache port. The least recently used entry goes first."""

    def __init__(self, file: SqliteFile, bounds: CacheBounds, *, clock: Clock = time.time) -> None:
        self._file = file
        self._bounds = bounds
        self._clock = clock
        self._catalog = ""

    def epoch(self) -> str:
        return self._catalog

    def renew(self, catalog: str) -> None:
        self._catalog = catalog

    async def get(self, key: str) -> Mapping[str, Any] | None:
        packed = await self._file.run(partial(self._get, f"{self._catalog}:{key}"))
        return None if packed is None else read_result(packed, self._bounds.max_bytes)

    async def put(self, key: str, raw: Mapping[str, Any], epoch: str) -> None:
        content = written(raw, self._bounds.max_bytes)
        if content is not None and len(content) + ENTRY_OVERHEAD <= self._bounds.max_bytes:
            size = len(content) + ENTRY_OVERHEAD
            await self._file.run(partial(self._put, f"{epoch}:{key}", pack(content), size))

    def _get(self, key: str, connection: sqlite3.Connection) -> bytes | None:
        now = self._clock()
        found = connection.execute("SELECT packed, expires FROM results WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None
        if not now < found[1] <= now + 2 * self._bounds.ttl:  # its time is over, or the clock was set back
            _drop(connection, key)
            return None
        connection.execute("UPDATE results SET used = ? WHERE key = ?", (next_tick(connection), key))
        return bytes(found[0])

    def _put(self, key: str, packed: bytes, size: int, connection: sqlite3.Connection) -> None:
        _drop(connection, key)
        expires = self._clock() + self._bounds.ttl
        row = (key, packed, size, next_tick(connection), expires)
        connection.execute("INSERT INTO results VALUES (?, ?, ?, ?, ?)", row)
        connection.execute("UPDATE result_bytes SET total = total + ?, entries = entries + 1", (size,))
        while True:
            total, entries = connection.execute("SELECT total, entries FROM result_bytes").fetchone()
            if total <= self._bounds.max_bytes and entries <= self._bounds.max_entries:
                break
            (oldest,) = connection.execute("SELECT key FROM results ORDER BY used LIMIT 1").fetchone()
            _drop(connection, oldest)


def _drop(connection: sqlite3.Connection, key: str) -> None:
    for (size,) in connection.execute("DELETE FROM results WHERE key = ? RETURNING size", (key,)).fetchall():
        connection.execute("UPDATE result_bytes SET total = total - ?, entries = entries - 1", (size,))
