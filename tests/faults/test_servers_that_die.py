"""Servers that are killed, hang, end at their start or are slow: calls end in typed errors, and later ones succeed."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import anyio
import pytest
from faulty_gateway import Faulty, Gate, error_of, faulty, gateway, until

from leafgate.upstream import ServerSpec

pytestmark = pytest.mark.anyio

CALLS = 20


async def knows(gate: Gate, server: str) -> bool:
    return "echo" in await gate.ids(server)


async def call_into(gate: Gate, into: list[object], tool: str, **args: object) -> None:
    into.append(await gate.call(tool, **args))


async def test_killed_in_the_middle_of_calls(tmp_path: Path) -> None:
    server, steady = faulty(tmp_path), faulty(tmp_path, "steady")
    async with gateway(tmp_path, server, steady) as gate:
        before = await gate.ids()
        results: list[object] = []
        async with anyio.create_task_group() as group:
            for _ in range(CALLS):
                group.start_soon(call_into, gate, results, "hang")
            await until(lambda: len(server.saw("tools/call")) == CALLS)
            server.signal(signal.SIGKILL)
        bodies = [error_of(result) for result in results]
        assert [(body["error"], body["retryable"]) for body in bodies] == [("UPSTREAM_UNAVAILABLE", True)] * CALLS
        assert await gate.answer("echo", "steady", text="not concerned") == "not concerned"
        await gate.recovered()
        assert server.starts == 2
        assert await gate.ids() == before

        server.signal(signal.SIGKILL)  # between calls
        await until(lambda: server.starts == 3)
        await gate.recovered()
        assert steady.starts == 1


async def test_stopped_and_continued(tmp_path: Path) -> None:
    server, steady = faulty(tmp_path, timeout=1), faulty(tmp_path, "steady")
    async with gateway(tmp_path, server, steady) as gate:
        pid = await gate.answer("pid")
        server.signal(signal.SIGSTOP)
        body = await gate.error("echo", text="anybody there?")
        assert body["error"] == "UPSTREAM_TIMEOUT"
        assert body["retryable"] is True
        assert await gate.answer("echo", "steady", text="not concerned") == "not concerned"
        server.signal(signal.SIGCONT)
        assert await gate.answer("echo", text="awake") == "awake"
        assert await gate.answer("pid") == pid


async def test_stopped_for_good_and_started_anew(tmp_path: Path) -> None:
    server = faulty(tmp_path, timeout=0.5, start_timeout=3)
    async with gateway(tmp_path, server) as gate:
        before = await gate.ids()
        server.signal(signal.SIGSTOP)
        assert (await gate.error("echo", text="anybody there?"))["error"] == "UPSTREAM_TIMEOUT"
        await until(lambda: server.starts == 2)
        await gate.recovered()
        assert await gate.ids() == before


async def test_a_slow_call_is_no_hang(tmp_path: Path) -> None:
    server = faulty(tmp_path, timeout=2)
    async with gateway(tmp_path, server) as gate:
        pid = await gate.answer("pid")
        assert (await gate.error("hang"))["error"] == "UPSTREAM_TIMEOUT"
        await until(lambda: bool(server.saw("ping")))
        assert await gate.answer("pid") == pid
        # The server is told that nobody waits any more.
        assert server.saw("notifications/cancelled")


async def test_starts_that_fail(tmp_path: Path) -> None:
    """One ends at once and later does not, one never reads, one does not exist; the fourth serves all the time."""
    failing = faulty(tmp_path, env={"FAULTY_EXITS": "2"})
    deaf = faulty(tmp_path, "deaf", env={"FAULTY_DEAF": "1"}, start_timeout=0.5)
    missing = Faulty("missing", tmp_path, {"command": str(tmp_path / "no-such-program")})
    steady = faulty(tmp_path, "steady")
    async with gateway(tmp_path, failing, deaf, missing, steady) as gate:
        assert await gate.answer("echo", "steady", text="not concerned") == "not concerned"
        for server in (deaf, missing):
            lost = await gate.client.call_tool("tool_browse", {"path": f"/{server.name}"})
            assert error_of(lost)["error"] == "PATH_NOT_FOUND"
        await until(partial(knows, gate, "faulty"))
        await gate.recovered()
        assert failing.starts == 3
        await until(lambda: deaf.starts >= 2)
        assert await gate.answer("echo", "steady", text="still not") == "still not"
        assert steady.starts == 1


async def test_a_slow_start_holds_nobody_up_for_long(tmp_path: Path) -> None:
    """The start takes longer than a request waits for it; the default leaves time for one of twenty seconds."""
    assert ServerSpec.start_timeout > 20
    slow, steady = faulty(tmp_path, env={"FAULTY_DELAY": "12"}), faulty(tmp_path, "steady")
    async with gateway(tmp_path, slow, steady) as gate:
        assert {tool.name for tool in (await gate.client.list_tools()).tools} >= {"tool_browse", "tool_execute"}
        assert await gate.answer("echo", "steady", text="not concerned") == "not concerned"
        assert slow.starts == 1
        assert slow.seen() == []
        await until(partial(knows, gate, "faulty"))
        assert await gate.answer("echo", text="at last") == "at last"
        assert slow.starts == 1


async def test_a_server_that_stops_reading(tmp_path: Path) -> None:
    """More than a pipe holds: the request cannot even be written, and times out all the same."""
    server, steady = faulty(tmp_path, timeout=0.5, start_timeout=3), faulty(tmp_path, "steady")
    async with gateway(tmp_path, server, steady) as gate:
        await gate.answer("deafen")
        for _ in range(3):
            body = await gate.error("echo", text="x" * 300_000)
            assert body["error"] in {"UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE"}
        assert await gate.answer("echo", "steady", text="not concerned") == "not concerned"
        await until(lambda: server.starts == 2)
        await gate.recovered()


async def test_nothing_is_left_running_when_the_client_leaves(tmp_path: Path) -> None:
    """Not even servers that do not hear of it. Every gateway of these tests is looked at in this way when it ends."""
    stopped, deaf = faulty(tmp_path), faulty(tmp_path, "deaf")
    async with gateway(tmp_path, stopped, deaf) as gate:
        await until(partial(knows, gate, "faulty"))
        await gate.answer("deafen", "deaf")
        stopped.signal(signal.SIGSTOP)
        assert [server.is_running() for server in (stopped, deaf)] == [True, True]
