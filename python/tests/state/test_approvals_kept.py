"""One set of cases for the stores of approvals: memory, an SQLite file and a real Redis server."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest
from stores import Time, redis_stores, sqlite_stores

from leafgate.model.errors import StoreError
from leafgate.ports import Approval, Approvals
from leafgate.state.memory import MemoryApprovals, MemoryState
from leafgate.state.records import ApprovalLimits, read_approval
from leafgate.state.redis import RedisApprovals
from leafgate.state.sqlite import SqliteApprovals
from leafgate.state.sqlite_file import SqliteFile

pytestmark = pytest.mark.anyio

LIMITS = ApprovalLimits(total=5, of_one=3)
Open = Callable[[], Approvals]


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens a store: the same content each time, as another gateway has it."""
    if request.param == "memory":
        store = MemoryApprovals(LIMITS)
        yield lambda: store
    elif request.param == "sqlite":
        async with sqlite_stores(tmp_path / "state.db") as file:
            yield lambda: SqliteApprovals(file.file, LIMITS)
    else:
        server = request.getfixturevalue("redis")
        server.empty()
        async with redis_stores(server) as link:
            yield lambda: RedisApprovals(link.link, LIMITS)


def pending(id: str) -> Approval:
    return Approval(id, "pending", about={"tool": "näme \U0001f600", "created": 1.5})


async def test_an_approval_is_found_until_it_is_taken_once(open_store: Open) -> None:
    one, two = open_store(), open_store()
    asked = Approval("a1", "asked", "digest")
    assert await one.add("ada", asked, 60)
    assert await two.find("a1") == asked
    assert await two.take("a1") == asked
    assert [await store.take("a1") for store in (one, two)] == [None, None]
    assert await one.find("a1") is None
    assert await one.take("never there") is None


async def test_only_one_of_many_takes_it(open_store: Open) -> None:
    results: list[Approval | None] = []

    async def take() -> None:
        results.append(await open_store().take("a1"))

    await open_store().add("ada", Approval("a1", "asked"), 60)
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(take)
    assert sum(each is not None for each in results) == 1


async def test_what_is_pending_is_listed_and_decided_once(open_store: Open) -> None:
    one, two = open_store(), open_store()
    for id in ("p1", "p2"):
        await one.add("ada", pending(id), 60)
    await one.add("bob", Approval("a1", "asked"), 60)
    assert [*await two.list_pending()] == [pending("p1"), pending("p2")]
    assert await two.decide("p1", approve=True) == pending("p1")
    assert await two.decide("p1", approve=False) is None
    assert await two.decide("p2", approve=False) == pending("p2")
    assert [await two.decide(id, approve=True) for id in ("a1", "gone")] == [None, None]
    assert not await one.list_pending()
    assert [approval.status for id in ("p1", "p2", "a1") if (approval := await one.take(id))] == [
        "approved",
        "denied",
        "asked",
    ]


async def test_their_number_is_bounded_for_one_caller_and_in_all(open_store: Open) -> None:
    store = open_store()
    assert [await store.add("ada", pending(f"a{n}"), 60) for n in range(4)] == [True, True, True, False]
    assert [await store.add("bob", pending(f"b{n}"), 60) for n in range(3)] == [True, True, False]
    await store.take("a0")
    assert await store.add("eve", pending("e0"), 60)
    assert not await store.add("ada", pending("a5"), 60)
    assert len(await store.list_pending()) == LIMITS.total


async def test_they_end_by_themselves_and_make_room(open_store: Open) -> None:
    store = open_store()
    for n in range(3):
        assert await store.add("ada", pending(f"a{n}"), 0.05)
    for _ in range(1_000):
        if not await store.list_pending():
            break
        await anyio.sleep(0.02)
    assert await store.add("ada", pending("later"), 60)
    assert await store.take("a0") is None
    assert await store.decide("a1", approve=True) is None
    assert [*await store.list_pending()] == [pending("later")]


async def test_time_ends_them_in_a_file(tmp_path: Path) -> None:
    clock, file = Time(), SqliteFile(tmp_path / "state.db")
    store = SqliteApprovals(file, clock=clock)
    await store.add("ada", pending("p1"), 60)
    clock.now += 59
    assert await store.find("p1") is not None
    clock.now += 1
    assert await store.find("p1") is None
    await file.close()


async def test_a_file_of_an_earlier_version_gets_the_table(tmp_path: Path) -> None:
    async with sqlite_stores(tmp_path / "state.db") as file:
        await file.file.open()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("DROP TABLE approvals")
    async with sqlite_stores(tmp_path / "state.db") as file:
        assert await SqliteApprovals(file.file).add("ada", pending("p1"), 60)


async def test_callers_stand_in_a_store_as_digests(tmp_path: Path) -> None:
    async with sqlite_stores(tmp_path / "state.db") as file:
        await SqliteApprovals(file.file).add("session:secret", pending("p1"), 60)
        rows = await file.file.run(lambda connection: connection.execute("SELECT * FROM approvals").fetchall())
    assert "session:secret" not in str(rows)
    assert "p1" in str(rows)


@pytest.mark.parametrize("content", ["", "null", "[]", '["x"]', '["x", 5]', "{"])
def test_damage_is_reported(content: str) -> None:
    with pytest.raises(StoreError):
        read_approval("p1", "pending", content)


def test_a_status_that_does_not_exist_is_damage() -> None:
    with pytest.raises(StoreError):
        read_approval("p1", "perhaps", '["", {}]')


def test_memory_has_one_list() -> None:
    state = MemoryState()
    assert state.approvals() is state.approvals()
