"""The SQLite file: whole transactions, several processes, and every way in which a file can fail."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from leafgate.model.errors import StoreError
from leafgate.state.sqlite_file import SCHEMA_VERSION, SqliteFile, next_tick

pytestmark = pytest.mark.anyio


async def ticks(file: SqliteFile) -> int:
    return await file.run(lambda connection: int(connection.execute("SELECT last FROM tick").fetchone()[0]))


async def test_work_is_whole_or_not_there(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "state.db")

    def half(connection: sqlite3.Connection) -> None:
        next_tick(connection)
        raise RuntimeError("half-way")

    await file.run(next_tick)
    with pytest.raises(RuntimeError):
        await file.run(half)
    assert await ticks(file) == 1
    await file.close()


async def test_it_is_opened_again_after_it_was_closed(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "deep" / "er" / "state.db")
    assert await file.run(next_tick) == 1
    await file.close()
    await file.close()
    assert await file.run(next_tick) == 2
    await file.close()


async def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "state.db")
    await file.run(next_tick)
    modes = [each.stat().st_mode & 0o077 for each in files_in(tmp_path)]
    assert modes == [0, 0, 0]  # with WAL's own two
    await file.close()


def files_in(folder: Path) -> list[Path]:
    return [*folder.iterdir()]


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    code = (
        "import anyio, sys, pathlib\n"
        "from leafgate.state.sqlite_file import SqliteFile, next_tick\n"
        "async def main():\n"
        "    file = SqliteFile(pathlib.Path(sys.argv[1]), busy_seconds=120)\n"
        "    for _ in range(100): await file.run(next_tick)\n"
        "    await file.close()\n"
        "anyio.run(main)\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(3)]
    assert [child.wait(180) for child in children] == [0, 0, 0]
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT last FROM tick").fetchone() == (300,)
    connection.close()


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()


async def made(path: Path) -> None:
    file = SqliteFile(path)
    await file.open()
    await file.close()


def newer(path: Path) -> None:
    anyio.run(made, path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()


def noise(path: Path) -> None:
    path.write_bytes(b"not a database " * 1000)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (foreign, "another program"),
        (newer, f"version {SCHEMA_VERSION + 1}"),
        (noise, "not an SQLite database"),
        (folder, "is a directory"),
    ],
)
def test_what_is_no_state_of_ours_is_left_alone(tmp_path: Path, make: object, told: str) -> None:
    path = tmp_path / "state.db"
    make(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=told):
        anyio.run(SqliteFile(path).open)
    assert (path.read_bytes() if path.is_file() else b"") == before


async def test_a_folder_that_cannot_be_is_told() -> None:
    with pytest.raises(StoreError, match=r"/proc/none/state\.db"):
        await SqliteFile(Path("/proc/none/state.db")).open()


async def test_a_file_that_is_damaged_while_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = SqliteFile(path)
    await file.run(next_tick)
    await file.close()
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 8_000)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"damaged|no SQLite"):
            await file.run(next_tick)
    path.unlink()
    assert await file.run(next_tick) == 1
    await file.close()


async def test_who_comes_second_waits_a_bounded_time(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = SqliteFile(path, busy_seconds=0.05)
    await file.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process holds the file"):
        await file.run(next_tick)
    other.execute("ROLLBACK")
    other.close()
    assert await file.run(next_tick) == 1
    await file.close()


FULL = """
import pathlib, resource, signal, sys
import anyio
from leafgate.model.envelope import Artifact
from leafgate.model.errors import StoreError
from leafgate.state.sqlite import SqliteArtifactStore
from leafgate.state.sqlite_file import SqliteFile

async def main():
    file = SqliteFile(pathlib.Path(sys.argv[1]))
    store = SqliteArtifactStore(file)
    import os
    before = await store.put("me", Artifact(os.urandom(1000), "", ""))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    try:
        await store.put("me", Artifact(os.urandom(2_000_000), "", ""))
    except StoreError as error:
        print(error)
    assert await store.get("me", before) is not None
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    after = await store.put("me", Artifact(os.urandom(2_000_000), "", ""))
    assert await store.get("me", after) is not None
    await file.close()

anyio.run(main)
"""


def test_a_full_disk_is_told_and_what_was_kept_stays(tmp_path: Path) -> None:
    words = [sys.executable, "-c", FULL, str(tmp_path / "state.db")]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "full" in ended.stdout


async def test_a_file_of_before_gets_the_tables_that_were_added(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = SqliteFile(path)
    await file.run(next_tick)
    await file.run(lambda connection: connection.execute("DROP TABLE tasks") and None)
    await file.close()
    assert await file.run(lambda connection: connection.execute("SELECT count(*) FROM tasks").fetchone()) == (0,)
    assert await ticks(file) == 1
    await file.close()
