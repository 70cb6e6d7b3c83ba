"""Gateways under traffic while things break round them: every answer is checked; none is lost, swapped or doubled."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from gateways import SERVERS, HttpGateway, gateway_on_http
from redis_server import RedisServer, redis_server
from traffic import Tally, send_traffic

pytestmark = pytest.mark.anyio

CLIENTS = 8
SECONDS = 6.0
Gateways = list[HttpGateway]
Break = Callable[[], Awaitable[None]]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as running:
        yield running


def config_file(folder: Path, **keys: Any) -> str:
    echo = {"command": sys.executable, "args": [str(SERVERS / "echo.py")], "env": {"CALL_LOG": str(folder / "calls")}}
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": {"echo": echo}, **keys}))
    return str(file)


@contextmanager
def two_gateways(*words: str) -> Iterator[Gateways]:
    with gateway_on_http(*words) as one, gateway_on_http(*words) as two:
        yield [one, two]


async def traffic_while(gateways: Gateways, happens: Break) -> Tally:
    """Traffic with this happening in the middle of it, and some time after it to get well."""
    found: list[Tally] = []

    async def send() -> None:
        addresses = [lambda number=number: gateways[number].url for number in range(len(gateways))]
        found.append(await send_traffic(addresses, CLIENTS, SECONDS))

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        await anyio.sleep(SECONDS / 4)
        await happens()
    return found[0]


def assert_sound(tally: Tally, calls: Path, *, may_refuse: set[str] | None = None) -> None:
    assert tally.wrong == []
    assert tally.lost == []
    assert set(tally.refused) <= (may_refuse or set()), tally.refused
    assert tally.right > CLIENTS
    tally.check_calls(calls)


async def test_a_replica_that_is_killed_in_mid_call(tmp_path: Path, redis: RedisServer) -> None:
    words = ("--config", config_file(tmp_path), "--state", redis.url)
    with two_gateways(*words) as gateways, gateway_on_http(*words) as third:

        async def kill() -> None:
            gateways[0].process.kill()
            await anyio.sleep(1)
            gateways[0] = third

        tally = await traffic_while(gateways, kill)
    assert tally.cut_off
    assert_sound(tally, tmp_path / "calls")


async def test_a_redis_that_is_restarted_empty(tmp_path: Path, redis: RedisServer) -> None:
    async def restart() -> None:
        redis.stop()
        await anyio.sleep(1)
        await to_thread.run_sync(redis.start)

    with two_gateways("--config", config_file(tmp_path), "--state", redis.url) as gateways:
        tally = await traffic_while(gateways, restart)
    # What was kept is gone: handles end, and sessions of the other gateway are begun anew.
    assert_sound(tally, tmp_path / "calls", may_refuse={"STORE_UNAVAILABLE", "VIEW_FAILED"})


async def test_a_redis_that_is_paused(tmp_path: Path, redis: RedisServer) -> None:
    async def pause() -> None:
        with redis.paused():
            await anyio.sleep(3)

    with two_gateways("--config", config_file(tmp_path), "--state", redis.url) as gateways:
        tally = await traffic_while(gateways, pause)
    assert_sound(tally, tmp_path / "calls", may_refuse={"STORE_UNAVAILABLE", "VIEW_FAILED"})


async def test_a_server_that_dies_again_and_again(tmp_path: Path, redis: RedisServer) -> None:
    with two_gateways("--config", config_file(tmp_path), "--state", redis.url) as gateways:

        async def flap() -> None:
            for _ in range(3):
                for gateway in gateways:
                    for child in children_of(gateway.process.pid):
                        os.kill(child, signal.SIGKILL)
                await anyio.sleep(1)

        tally = await traffic_while(gateways, flap)
    # A call that was under way may have been carried out: it is refused, and not made again.
    assert_sound(
        tally, tmp_path / "calls", may_refuse={"UPSTREAM_UNAVAILABLE", "UPSTREAM_ERROR", "HYDRATE_FAILED", "no card"}
    )
    assert tally.refused


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """No file may grow any more, which is what a full disk comes to for the one that writes."""
    with gateway_on_http("--config", config_file(tmp_path, state="sqlite:state.db")) as gateway:

        async def fill() -> None:
            full = (tmp_path / "state.db").stat().st_size
            none = resource.RLIM_INFINITY
            resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (full, none))
            await anyio.sleep(3)
            resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (none, none))

        tally = await traffic_while([gateway], fill)
    assert_sound(tally, tmp_path / "calls", may_refuse={"STORE_UNAVAILABLE", "VIEW_FAILED"})


@pytest.mark.parametrize("shift", [-86_400.0, 86_400.0 * 30], ids=["back", "forth"])
async def test_a_clock_that_jumps(tmp_path: Path, shift: float) -> None:
    clock = tmp_path / "clock"
    clock.write_text("0")
    env = {"PYTHONPATH": str(Path(__file__).parent / "clock"), "CLOCK_SHIFT": str(clock)}
    limits = {"tool_browse": {"max_calls_per_minute": 100_000}}
    config = config_file(tmp_path, state="sqlite:state.db", rate_limits=limits)
    with gateway_on_http("--config", config, env=env) as gateway:

        async def jump() -> None:
            await anyio.Path(clock).write_text(str(shift))

        tally = await traffic_while([gateway], jump)
    # A month later what was kept for hours is gone; a day earlier, what ends in a future that no clock of ours wrote.
    assert_sound(tally, tmp_path / "calls", may_refuse={"VIEW_FAILED"})
