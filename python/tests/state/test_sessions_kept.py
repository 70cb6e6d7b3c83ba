"""One set of cases for the stores of sessions: an SQLite file and a real Redis server. Memory shares none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from stores import Time, redis_stores, sqlite_stores

from leafgate.ports import SessionRecord, Sessions
from leafgate.state import records
from leafgate.state.memory import MemoryState
from leafgate.state.records import EVENT_SECONDS, MAX_EVENTS, SESSION_SECONDS
from leafgate.state.redis import RedisSessions
from leafgate.state.sqlite import SqliteSessions
from leafgate.state.sqlite_file import SqliteFile

pytestmark = pytest.mark.anyio

ADA = SessionRecord("user ada", '{"method":"initialize","näme":"\U0001f600"}'.encode())


@pytest.fixture(params=["sqlite", "redis"])
async def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sessions]:
    if request.param == "sqlite":
        async with sqlite_stores(tmp_path / "state.db") as file:
            yield SqliteSessions(file.file)
    else:
        async with redis_stores(request.getfixturevalue("redis")) as server:
            yield RedisSessions(server.link)


async def test_a_session_is_found_until_it_is_ended(sessions: Sessions) -> None:
    assert await sessions.keep("s1", ADA)
    assert await sessions.keep("s1", ADA)
    place = await sessions.add_event("s1", "1", "here", b"")
    assert await sessions.find("s1") == ADA
    assert await sessions.find("s2") is None
    await sessions.end("s1")
    assert await sessions.find("s1") is None
    assert not await sessions.events_from("s1", place)


async def test_what_was_ended_cannot_be_kept_again(sessions: Sessions) -> None:
    await sessions.keep("s7", ADA)
    await sessions.end("s7")
    assert not await sessions.keep("s7", ADA)
    assert await sessions.find("s7") is None
    await sessions.end("never known")
    assert not await sessions.keep("never known", ADA)


async def test_events_come_back_in_their_order_from_the_one_that_is_named(sessions: Sessions) -> None:
    names = [await sessions.add_event("s3", str(n % 2), "here", b"m%d" % n) for n in range(5)]
    await sessions.add_event("s4", "0", "there", b"another's")
    found = await sessions.events_from("s3", names[2])
    assert [(event.id, event.stream, event.gateway, event.message) for event in found] == [
        (names[n], str(n % 2), "here", b"m%d" % n) for n in (2, 3, 4)
    ]


@pytest.mark.parametrize("name", ["", "0", "0-0", "-", "+", "x", "9" * 30, "1-1-1", "\u0661", "*"])
async def test_an_event_that_was_never_named_has_none_after_it(sessions: Sessions, name: str) -> None:
    await sessions.add_event("s5", "1", "here", b"m")
    assert not await sessions.events_from("s5", name)


async def test_only_the_last_events_of_a_session_are_kept(sessions: Sessions) -> None:
    names = [await sessions.add_event("s6", "1", "here", b"") for _ in range(MAX_EVENTS + 3)]
    assert not await sessions.events_from("s6", names[2])
    assert len(await sessions.events_from("s6", names[3])) == MAX_EVENTS


async def test_the_events_of_a_session_are_bounded_in_bytes_too(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_EVENT_BYTES", 1_000)
    names = [str(await sessions.add_event("s8", "1", "here", b"x" * 300)) for _ in range(5)]
    assert not await sessions.events_from("s8", names[1])
    assert len(await sessions.events_from("s8", names[2])) == 3
    assert await sessions.add_event("s8", "1", "here", b"x" * 1_001) is None
    assert len(await sessions.events_from("s8", names[2])) == 3
    last = str(await sessions.add_event("s8", "1", "here", b"x" * 1_000))
    assert [event.id for event in await sessions.events_from("s8", last)] == [last]
    assert not await sessions.events_from("s8", names[4])


async def test_a_gateway_is_alive_that_said_so(sessions: Sessions) -> None:
    await sessions.beat("here")
    assert await sessions.is_alive("here")
    assert not await sessions.is_alive("there")


async def test_time_ends_them(tmp_path: Path) -> None:
    clock, file = Time(), SqliteFile(tmp_path / "state.db")
    sessions = SqliteSessions(file, clock)
    await sessions.keep("s1", ADA)
    await sessions.beat("here")
    place = await sessions.add_event("s1", "1", "here", b"")
    clock.now += EVENT_SECONDS
    assert not await sessions.events_from("s1", place)
    assert not await sessions.is_alive("here")
    assert await sessions.find("s1") == ADA
    clock.now += SESSION_SECONDS
    assert await sessions.find("s1") is None
    await file.close()


def test_memory_shares_none() -> None:
    assert MemoryState().sessions() is None
