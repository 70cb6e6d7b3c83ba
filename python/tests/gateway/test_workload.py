"""How much is worked on at once, and who waits for it."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from leafgate.gateway.workload import (
    BUSY_CALLS,
    LARGE_FROM,
    LONGEST_PAUSE,
    TIME_AT_ONCE,
    TIME_SHARE,
    ServerShare,
    TimeAllowance,
    Workload,
)

pytestmark = pytest.mark.anyio

MB = LARGE_FROM


class Work:
    """Pieces of work in one room, each under way until it is told to end."""

    def __init__(self, most: int) -> None:
        self.share = ServerShare(most)
        self.under_way: list[str] = []
        self.ends: dict[str, anyio.Event] = {}

    async def run(self, name: str, size: int) -> None:
        self.ends[name] = anyio.Event()
        async with self.share.reserve_bytes(size):
            self.under_way.append(name)
            await self.ends[name].wait()
            self.under_way.remove(name)


async def turns() -> None:
    for _ in range(10):
        await checkpoint()


async def test_as_many_as_have_room_and_the_others_in_their_order() -> None:
    work = Work(10 * MB)
    async with anyio.create_task_group() as group:
        for name, size in (("a", 4), ("b", 6), ("c", 9), ("d", 1)):
            group.start_soon(work.run, name, size * MB)
            await turns()
        assert work.under_way == ["a", "b"]
        work.ends["a"].set()
        await turns()
        assert work.under_way == ["b"]  # c does not fit yet, and d came after it
        work.ends["b"].set()
        await turns()
        assert work.under_way == ["c", "d"]
        group.cancel_scope.cancel()


async def test_what_is_larger_than_the_room_has_it_alone() -> None:
    work = Work(10 * MB)
    async with anyio.create_task_group() as group:
        group.start_soon(work.run, "small", MB)
        await turns()
        group.start_soon(work.run, "huge", 100 * MB)
        group.start_soon(work.run, "after", MB)
        await turns()
        assert work.under_way == ["small"]
        work.ends["small"].set()
        await turns()
        assert work.under_way == ["huge"]
        work.ends["huge"].set()
        await turns()
        assert work.under_way == ["after"]
        work.ends["after"].set()


async def test_what_is_small_never_waits() -> None:
    work = Work(10 * MB)
    async with anyio.create_task_group() as group:
        group.start_soon(work.run, "huge", 100 * MB)
        await turns()
        group.start_soon(work.run, "small", MB - 1)
        await turns()
        assert work.under_way == ["huge", "small"]
        group.cancel_scope.cancel()


@pytest.mark.parametrize("leaving", ["waiting", "working"])
async def test_who_leaves_gives_its_room_back(leaving: str) -> None:
    work = Work(10 * MB)
    async with anyio.create_task_group() as group:
        gone = anyio.CancelScope()

        async def leave() -> None:
            with gone:
                await work.run("leaves", 9 * MB)

        if leaving == "waiting":
            group.start_soon(work.run, "first", 9 * MB)
            await turns()
        group.start_soon(leave)
        await turns()
        group.start_soon(work.run, "last", 2 * MB)
        await turns()
        assert "last" not in work.under_way
        gone.cancel()
        await turns()
        if leaving == "waiting":
            work.ends["first"].set()
            await turns()
        assert work.under_way[-1] == "last"
        work.ends["last"].set()
    with anyio.fail_after(30):
        await work.share.wait_for_space()
        async with work.share.reserve_bytes(10 * MB):
            pass


async def test_no_more_comes_while_the_room_is_full() -> None:
    work, came = Work(10 * MB), []

    async def read() -> None:
        await work.share.wait_for_space()
        came.append(work.under_way.copy())

    async with anyio.create_task_group() as group:
        group.start_soon(work.run, "a", 6 * MB)
        await turns()
        await work.share.wait_for_space()
        group.start_soon(work.run, "b", 6 * MB)
        await turns()
        group.start_soon(read)
        await turns()
        assert not came  # b waits, and is there all the same
        work.ends["a"].set()
        await turns()
        assert came == [["b"]]
        work.ends["b"].set()


def test_an_allowance_of_time_is_used_up_and_grows_again() -> None:
    now = [0.0]
    time = TimeAllowance(lambda: now[0])
    time.spend(TIME_AT_ONCE)
    assert not time.is_overdrawn
    time.spend(TIME_SHARE)
    assert time.is_overdrawn
    assert time.pause() == pytest.approx(1.0)
    now[0] = 1.1
    assert time.pause() == 0
    assert not time.is_overdrawn
    time.spend(100)
    assert time.pause() == pytest.approx(LONGEST_PAUSE)


async def test_a_server_waits_for_time_only_while_others_are_busy() -> None:
    workload = Workload()
    share = workload.share_of("hostile")
    share.spend(0.1)  # one long step costs more than the same time in short ones
    assert share.time.pause() == pytest.approx(LONGEST_PAUSE, rel=0.1)
    for _ in range(2 * BUSY_CALLS):
        workload.note_call("hostile")
    with anyio.fail_after(1):
        await share.wait_for_space()
    for _ in range(BUSY_CALLS):
        workload.note_call("good")
    with anyio.move_on_after(0.05) as waiting:
        await share.wait_for_space()
    assert waiting.cancelled_caught
    assert not workload.share_of("good").is_full


async def test_a_server_that_is_full_stops_no_other() -> None:
    workload, done = Workload(10 * MB), []
    async with anyio.create_task_group() as group:

        async def hold() -> None:
            async with workload.share_of("hostile").reserve_bytes(100 * MB):
                await anyio.sleep_forever()

        group.start_soon(hold)
        await turns()
        assert workload.share_of("hostile").is_full
        await workload.share_of("good").wait_for_space()
        async with workload.share_of("good").reserve_bytes(9 * MB):
            done.append(workload.held())
        group.cancel_scope.cancel()
    assert done == [{"hostile": 100 * MB, "good": 9 * MB}]
    assert workload.held() == {"hostile": 0, "good": 0}


async def test_of_messages_that_arrive_at_once_the_oldest_goes_on() -> None:
    share, received = ServerShare(10 * MB), []

    async def receive(name: str, chunks: int) -> None:
        with share.receive() as receipt:
            for _ in range(chunks):
                receipt.count(MB)
                await receipt.wait_for_turn()
                await checkpoint()
            received.append(name)

    async with anyio.create_task_group() as group:
        for name in ("first", "second", "third"):
            group.start_soon(receive, name, 8)
        await turns()
        assert share.held <= 13 * MB
    assert received[0] == "first"
    assert sorted(received) == ["first", "second", "third"]
    assert share.held == 0
