"""One SQLite file for everything that a gateway keeps. In: work on a connection. Out: what it returns, or a StoreError.

Touches the file, and one thread in which all work is done, a transaction at a time. Several processes may share a file:
it is in WAL mode, and who comes second waits a bounded time. Only the file's owner can read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Literal, TypeVar

from leafgate.model.errors import StoreError

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x1EAF6A7E
BUSY_SECONDS: Final = 5.0

Answer = TypeVar("Answer")

_WORDS: Final = {
    "SQLITE_BUSY": "another process holds the file for too long",
    "SQLITE_LOCKED": "another process holds the file for too long",
    "SQLITE_READONLY": "the file cannot be written; check its permissions and those of its folder",
    "SQLITE_CANTOPEN": "the file cannot be opened; check its permissions and those of its folder",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "the disk fails, or is full",
    "SQLITE_CORRUPT": "the database is damaged; move it away, and a new one is made",
    "SQLITE_NOTADB": "this is no SQLite database; name another file",
}

_SCHEMA: Final = """
CREATE TABLE tick (last INTEGER NOT NULL);
INSERT INTO tick VALUES (0);

CREATE TABLE contents (
    digest TEXT PRIMARY KEY, packed BLOB NOT NULL, length INTEGER NOT NULL, entries INTEGER NOT NULL
);
CREATE TABLE artifacts (
    owner TEXT NOT NULL, handle TEXT NOT NULL, identity TEXT NOT NULL, digest TEXT NOT NULL, about TEXT NOT NULL,
    size INTEGER NOT NULL, used INTEGER NOT NULL, expires REAL NOT NULL,
    PRIMARY KEY (owner, handle), UNIQUE (owner, identity)
) WITHOUT ROWID;
CREATE INDEX artifacts_by_use ON artifacts (used);
CREATE INDEX artifacts_of_owner ON artifacts (owner, used);
CREATE INDEX artifacts_by_age ON artifacts (expires);
CREATE TABLE artifact_owners (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE artifact_bytes (total INTEGER NOT NULL);
INSERT INTO artifact_bytes VALUES (0);

CREATE TABLE results (
    key TEXT PRIMARY KEY, packed BLOB NOT NULL, size INTEGER NOT NULL, used INTEGER NOT NULL, expires REAL NOT NULL
);
CREATE INDEX results_by_use ON results (used);
CREATE TABLE result_bytes (total INTEGER NOT NULL, entries INTEGER NOT NULL);
INSERT INTO result_bytes VALUES (0, 0);

CREATE TABLE usage (
    space TEXT NOT NULL, owner TEXT NOT NULL, scope TEXT NOT NULL,
    recent TEXT NOT NULL, total INTEGER NOT NULL, last REAL NOT NULL, used INTEGER NOT NULL,
    PRIMARY KEY (space, owner, scope)
) WITHOUT ROWID;
CREATE INDEX usage_by_use ON usage (used);

CREATE TABLE browse_states (owner TEXT PRIMARY KEY, catalog TEXT NOT NULL, cards BLOB NOT NULL, used INTEGER NOT NULL);
CREATE INDEX browse_states_by_use ON browse_states (used);

CREATE TABLE counts (name TEXT PRIMARY KEY, times REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE counts_since (since TEXT NOT NULL);

CREATE TABLE sessions (name TEXT PRIMARY KEY, user TEXT NOT NULL, hello BLOB NOT NULL, expires REAL NOT NULL);
CREATE INDEX sessions_by_age ON sessions (expires);
CREATE TABLE session_events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, stream TEXT NOT NULL, gateway TEXT NOT NULL,
    message BLOB NOT NULL, expires REAL NOT NULL
);
CREATE INDEX session_events_of ON session_events (session, number);
CREATE INDEX session_events_by_age ON session_events (expires);
CREATE TABLE gateways (name TEXT PRIMARY KEY, expires REAL NOT NULL) WITHOUT ROWID;
"""


class SqliteFile:
    """The file. It is opened by the first work, and again after it was damaged or moved away."""

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Does the work as one transaction: whole, or not at all."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="leafgate-state")
        return await asyncio.wrap_future(self._thread.submit(self._transact, work))

    async def open(self) -> None:
        """StoreError where the file cannot be used."""
        await self.run(lambda connection: None)

    async def close(self) -> None:
        """To be used again, it is opened again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.wrap_future(thread.submit(self._disconnect))
            thread.shutdown(wait=False)

    def _transact(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                answer = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # some failures end it themselves
                    connection.execute("ROLLBACK")
                raise
            return answer
        except (sqlite3.Error, OSError) as error:
            if not _is_passing(error):
                self._disconnect()
            raise StoreError(f"{self.path}: {_told(error)}") from error

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(self.path, timeout=self._busy_seconds, isolation_level=None)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._is_ours(connection)  # before anything is written: WAL changes the file
        # A process that dies loses nothing; with the machine's power the last moments may go.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        if not self._is_ours(connection):
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """Whether our tables are there; StoreError where somebody else's are."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not version and not tables:
            return False
        if application != APPLICATION_ID:
            raise StoreError(f"{self.path}: this is a database of another program; name another file")
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path}: its schema has version {version}, and this leafgate knows {SCHEMA_VERSION}; "
                "name another file, or run the leafgate that wrote it"
            )
        return True

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def next_tick(connection: sqlite3.Connection) -> int:
    """Grows with every use, in all processes: what was used last, whatever clocks say."""
    connection.execute("UPDATE tick SET last = last + 1")
    (tick,) = connection.execute("SELECT last FROM tick").fetchone()
    return int(tick)


def keep_newest(connection: sqlite3.Connection, table: Literal["usage", "browse_states"], most: int, tick: int) -> None:
    """Drops what was longest not used. Counting takes a while: it is done now and then, and the bound is that loose."""
    if tick % (1 + most // 100) == 0:
        older = f"SELECT used FROM {table} ORDER BY used DESC LIMIT -1 OFFSET ?"
        connection.execute(f"DELETE FROM {table} WHERE used IN ({older})", (most,))


def _is_passing(error: sqlite3.Error | OSError) -> bool:
    """Whether the connection is still good, and only the moment was not."""
    return _name(error) in ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL")


def _name(error: sqlite3.Error | OSError) -> str:
    return str(getattr(error, "sqlite_errorname", ""))


def _told(error: sqlite3.Error | OSError) -> str:
    """What is the matter, as an operator can act on it."""
    name = _name(error)
    known = next((words for start, words in _WORDS.items() if name.startswith(start)), None)
    if known is not None:
        return known
    return str(error.strerror or error).lower() if isinstance(error, OSError) else str(error)
