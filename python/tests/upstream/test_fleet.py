"""All servers together, while the operator changes which there are: real child processes, and no call is lost."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from leafgate.model.errors import UpstreamFailure
from leafgate.upstream import ServerSpec, StdioServer
from leafgate.upstream.fleet import Fleet

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parents[1] / "servers" / "moody.py"
PATIENCE = 60


def spec(folder: Path, *, name: str = "moody", **env: str) -> ServerSpec:
    return ServerSpec(name, StdioServer(sys.executable, (str(SERVER),), {"FOLDER": str(folder), **env}), timeout=20)


@asynccontextmanager
async def running(*specs: ServerSpec) -> AsyncIterator[Fleet]:
    fleet = Fleet(specs)
    async with fleet.running():
        await fleet.wait_for_start()
        yield fleet


async def until(condition: object) -> None:
    assert callable(condition)
    with anyio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110  the child is another process; there is no event to wait for
            await anyio.sleep(0.05)


async def pid(fleet: Fleet, server: str = "moody") -> int:
    result = await fleet.request(server, "tools/call", {"name": "pid", "arguments": {}})
    return int(result["content"][0]["text"])


def is_alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


async def call_moody(fleet: Fleet, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    return await fleet.request("moody", "tools/call", {"name": name, "arguments": args})


async def test_what_did_not_change_stays_connected(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        before = await pid(fleet)
        fleet.reconcile([spec(tmp_path)])
        assert await pid(fleet) == before


async def test_a_new_server_comes_and_an_old_one_goes(tmp_path: Path) -> None:
    async with running(spec(tmp_path, name="old")) as fleet:
        process = await pid(fleet, "old")
        fleet.reconcile([spec(tmp_path, name="new")])
        with pytest.raises(UpstreamFailure):
            await fleet.request("old", "tools/call", {"name": "pid", "arguments": {}})
        await until(lambda: fleet.member("new").state == "up")
        assert await pid(fleet, "new") != process
        assert {listing.server for listing in (await fleet.list_offers()).tools} == {"new"}
        await until(lambda: not is_alive(process))


async def test_other_settings_take_hold_without_a_new_process(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        process = await pid(fleet)
        fleet.reconcile([replace(spec(tmp_path), exclude=("sleep", "grow"))])
        await until(lambda: len(fleet.members()[0].offers.tools) == 3)
        assert await pid(fleet) == process


async def test_a_server_is_replaced_once_its_successor_is_up_and_its_calls_are_answered(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        process = await pid(fleet)
        slept: list[object] = []

        async def sleep() -> None:
            slept.append(await call_moody(fleet, "sleep", {"text": "rested"}))

        async with anyio.create_task_group() as group:
            group.start_soon(sleep)
            await anyio.sleep(0.1)
            fleet.reconcile([spec(tmp_path, COLOUR="blue")])
            await until(lambda: fleet.member("moody").spec == spec(tmp_path, COLOUR="blue"))
            assert await pid(fleet) != process
        assert "rested" in str(slept)
        await until(lambda: not is_alive(process))


async def test_the_old_one_goes_on_while_the_new_one_cannot_come_up(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        process = await pid(fleet)
        broken = ServerSpec("moody", StdioServer(sys.executable, ("-c", "raise SystemExit(3)")))
        fleet.reconcile([broken])
        await anyio.sleep(1)
        assert await pid(fleet) == process
        fleet.reconcile([spec(tmp_path, COLOUR="green")])  # the broken one was never up, and is forgotten
        await until(lambda: fleet.member("moody").spec == spec(tmp_path, COLOUR="green"))
        assert await pid(fleet) != process
        assert len(fleet.members()) == 1


async def test_a_change_that_is_taken_back_in_time_changes_nothing(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        process = await pid(fleet)
        fleet.reconcile([spec(tmp_path, COLOUR="blue")])
        fleet.reconcile([spec(tmp_path)])
        await anyio.sleep(1)
        assert await pid(fleet) == process


async def test_calls_go_on_through_many_changes(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        answers: list[str] = []

        async def call(number: int) -> None:
            result = await call_moody(fleet, "echo", {"text": str(number)})
            answers.append(result["content"][0]["text"])

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(call, number)
                if number % 20 == 0:
                    fleet.reconcile([spec(tmp_path, COLOUR=str(number))])
                await anyio.sleep(0.01)
        assert sorted(answers, key=int) == [str(number) for number in range(200)]


async def test_listeners_hear_of_every_change(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        heard: list[int] = []
        fleet.on_change(lambda: heard.append(len(fleet.members())))
        fleet.reconcile([])
        assert heard == [0]
        assert (await fleet.list_offers()).tools == []
