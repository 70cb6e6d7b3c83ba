"""Artifacts in an SQLite file. In: an owner and an artifact. Out: a handle that only that owner can use.

Touches the file. The same rules as in memory (storage/memory), and handles outlive the process.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial

from leafgate.model.envelope import Artifact
from leafgate.ports import Clock
from leafgate.storage.artifact_record import ArtifactRecord, artifact_of, is_handle, new_handle, record_of
from leafgate.storage.memory import DEFAULT_CAPACITY, DEFAULT_QUOTA, DEFAULT_TTL, ENTRY_COST
from leafgate.storage.owner_name import name_of
from leafgate.storage.sqlite_file import SqliteFile, next_tick


class SqliteArtifactStore:
    """Fills the ArtifactStore port."""

    def __init__(
        self,
        file: SqliteFile,
        *,
        capacity: int = DEFAULT_CAPACITY,
        quota: int = DEFAULT_QUOTA,
        ttl: float = DEFAULT_TTL,
        quota_of: Callable[[str], int | None] = lambda owner: None,
        now: Clock = time.time,
    ) -> None:
        self._file = file
        self._capacity = capacity
        self._quota = quota
        self._ttl = ttl
        self._quota_of = quota_of
        self._now = now

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        if len(artifact.content) + ENTRY_COST > self._capacity:
            return None
        record = await record_of(artifact)
        own = self._quota_of(owner)
        quota = self._quota if own is None else own
        return await self._file.run(partial(self._put, name_of(owner), record, quota))

    async def get(self, owner: str, handle: str) -> Artifact | None:
        if not is_handle(handle):
            return None
        found = await self._file.run(partial(self._get, name_of(owner), handle))
        return None if found is None else await artifact_of(*found)

    async def used(self) -> int:
        """Bytes held, content counted once and before it is compressed."""
        return await self._file.run(_used)

    def _put(self, owner: str, record: ArtifactRecord, quota: int, connection: sqlite3.Connection) -> str:
        self._drop_expired(connection)
        tick, expires = next_tick(connection), self._now() + self._ttl
        known = connection.execute(
            "UPDATE artifacts SET used = ?, expires = ? WHERE owner = ? AND identity = ? RETURNING handle",
            (tick, expires, owner, record.identity),
        ).fetchall()
        if known:
            return str(known[0][0])
        handle = new_handle()
        _add_content(connection, record)
        connection.execute(
            "INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (owner, handle, record.identity, record.digest, record.about, record.size, tick, expires),
        )
        connection.execute(
            "INSERT INTO artifact_owners VALUES (?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes",
            (owner, record.size),
        )
        self._make_room(connection, owner, handle, quota)
        return handle

    def _get(self, owner: str, handle: str, connection: sqlite3.Connection) -> tuple[str, bytes] | None:
        self._drop_expired(connection)
        found = connection.execute(
            "SELECT about, packed FROM artifacts JOIN contents USING (digest) "
            "WHERE owner = ? AND handle = ? AND expires > ?",
            (owner, handle, self._now()),
        ).fetchone()
        if found is None:
            return None
        tick = next_tick(connection)
        connection.execute("UPDATE artifacts SET used = ? WHERE owner = ? AND handle = ?", (tick, owner, handle))
        return str(found[0]), bytes(found[1])

    def _drop_expired(self, connection: sqlite3.Connection) -> None:
        """Some at a time: nobody waits for thousands. What ends too far in the future was written by another clock."""
        now = self._now()
        gone = "SELECT owner, handle FROM artifacts WHERE expires <= ? OR expires > ? LIMIT 200"
        for owner, handle in connection.execute(gone, (now, now + 2 * self._ttl)).fetchall():
            _drop(connection, owner, handle)

    def _make_room(self, connection: sqlite3.Connection, owner: str, newest: str, quota: int) -> None:
        """One artifact may be larger than its owner's quota; it is then the only one."""
        mine = "SELECT owner, handle FROM artifacts WHERE owner = ? AND handle != ? ORDER BY used LIMIT 1"
        anybody = "SELECT owner, handle FROM artifacts WHERE NOT (owner = ? AND handle = ?) ORDER BY used LIMIT 1"
        while _used_by(connection, owner) > quota:
            oldest = connection.execute(mine, (owner, newest)).fetchone()
            if oldest is None:
                break
            _drop(connection, *oldest)
        while _used(connection) > self._capacity:
            oldest = connection.execute(anybody, (owner, newest)).fetchone()
            if oldest is None:
                break
            _drop(connection, *oldest)


def _add_content(connection: sqlite3.Connection, record: ArtifactRecord) -> None:
    shared = connection.execute("UPDATE contents SET entries = entries + 1 WHERE digest = ?", (record.digest,))
    more = ENTRY_COST
    if not shared.rowcount:
        row = (record.digest, record.packed, record.length)
        connection.execute("INSERT INTO contents VALUES (?, ?, ?, 1)", row)
        more += record.length
    connection.execute("UPDATE artifact_bytes SET total = total + ?", (more,))


def _drop(connection: sqlite3.Connection, owner: str, handle: str) -> None:
    one = "DELETE FROM artifacts WHERE owner = ? AND handle = ? RETURNING digest, size"
    ((digest, size),) = connection.execute(one, (owner, handle)).fetchall()
    connection.execute("UPDATE artifact_owners SET bytes = bytes - ? WHERE owner = ?", (size, owner))
    connection.execute("DELETE FROM artifact_owners WHERE owner = ? AND bytes <= 0", (owner,))
    connection.execute("UPDATE contents SET entries = entries - 1 WHERE digest = ?", (digest,))
    unused = "DELETE FROM contents WHERE digest = ? AND entries <= 0 RETURNING length"
    less = ENTRY_COST + sum(length for (length,) in connection.execute(unused, (digest,)).fetchall())
    connection.execute("UPDATE artifact_bytes SET total = total - ?", (less,))


def _used(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT total FROM artifact_bytes").fetchone()[0])


def _used_by(connection: sqlite3.Connection, owner: str) -> int:
    found = connection.execute("SELECT bytes FROM artifact_owners WHERE owner = ?", (owner,)).fetchone()
    return 0 if found is None else int(found[0])
