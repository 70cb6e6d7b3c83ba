"""The SQLite file that a gateway keeps its state in: its schema, how it is opened, and its transactions.

One thread does all the work, a transaction at a time. Several processes may share a file: it is in WAL mode, and a
second writer waits a bounded time. Only the owner of the file can read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from importlib.resources import files
from pathlib import Path
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypeVar

from leafgate.model.errors import StoreError

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x1EAF6A7E
BUSY_SECONDS: Final = 5.0

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_EXPLANATIONS: Final = {
    "SQLITE_BUSY": "another process holds the file for too long",
    "SQLITE_LOCKED": "another process holds the file for too long",
    "SQLITE_READONLY": "the file cannot be written; check its permissions and those of its folder",
    "SQLITE_CANTOPEN": "the file cannot be opened; check its permissions and those of its folder",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "the disk fails, or is full",
    "SQLITE_CORRUPT": "the database is damaged; move it away, and a new one is created",
    "SQLITE_NOTADB": "this is not an SQLite database; name another file",
}


class SqliteFile:
    """The file. The first transaction opens it; so does the first one after it was damaged or moved away."""

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `work` as one transaction and return its result. StoreError if the file fails."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="leafgate-state")
        return await asyncio.wrap_future(self._thread.submit(self._transact, work))

    async def open(self) -> None:
        """Open the file. StoreError if it cannot be used."""
        await self.run(lambda connection: None)

    async def close(self) -> None:
        """Close the file. The next transaction opens it again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.wrap_future(thread.submit(self._disconnect))
            thread.shutdown(wait=False)

    def _transact(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        try:
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # some failures end it themselves
                    connection.execute("ROLLBACK")
                raise
            return result
        except (sqlite3.Error, OSError) as error:
            if _name(error) not in ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL"):  # these leave it usable
                self._disconnect()
            raise StoreError(f"{self.path}: {_explain(error)}") from error

    def _connect(self) -> sqlite3.Connection:
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
        # A process that dies loses nothing; a power failure may lose the last transactions.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        is_new = not self._is_ours(connection)
        for statement in files(__package__).joinpath("schema.sql").read_text("utf-8").split(";\n"):
            if is_new or "IF NOT EXISTS" in statement.partition("(")[0]:
                connection.execute(statement)
        if is_new:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """Whether the file has our tables; False if it is empty. StoreError if it has those of another program."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not version and not tables:
            return False
        if application != APPLICATION_ID:
            raise StoreError(f"{self.path}: this is a database of another program; name another file")
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path}: its schema has version {version}, and this leafgate needs {SCHEMA_VERSION}; "
                "name another file, or run the leafgate that wrote it"
            )
        return True

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


class InFile(Protocol):
    """Anything that is stored in a file."""

    file: SqliteFile


Store = TypeVar("Store", bound=InFile)


def transaction(
    step: Callable[Concatenate[Store, sqlite3.Connection, Arguments], Result],
) -> Callable[Concatenate[Store, Arguments], Coroutine[Any, Any, Result]]:
    """A method that takes a connection as one without it, which runs as one transaction of the file."""

    @wraps(step)
    async def run(store: Store, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        return await store.file.run(lambda connection: step(store, connection, *args, **options))

    return run


def next_tick(connection: sqlite3.Connection) -> int:
    """A number that grows with every use, in all processes. It orders uses independently of clocks."""
    connection.execute("UPDATE tick SET last = last + 1")
    (tick,) = connection.execute("SELECT last FROM tick").fetchone()
    return int(tick)


def keep_newest(connection: sqlite3.Connection, table: Literal["usage", "browse_states"], most: int, tick: int) -> None:
    """Drop the least recently used rows beyond `most`. Loosely: counting is slow, so not every tick does it."""
    if tick % (1 + most // 100) == 0:
        older = f"SELECT used FROM {table} ORDER BY used DESC LIMIT -1 OFFSET ?"
        connection.execute(f"DELETE FROM {table} WHERE used IN ({older})", (most,))


def _name(error: sqlite3.Error | OSError) -> str:
    return str(getattr(error, "sqlite_errorname", ""))


def _explain(error: sqlite3.Error | OSError) -> str:
    """The cause, in words that an operator can act on."""
    name = _name(error)
    explanation = next((text for start, text in _EXPLANATIONS.items() if name.startswith(start)), None)
    if explanation is not None:
        return explanation
    return str(error.strerror or error).lower() if isinstance(error, OSError) else str(error)
