"""A server behind HTTP: refusals keep their meaning, and a server that was restarted is found again."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from leafgate.model.errors import UpstreamFailure
from leafgate.upstream import HttpServer, ServerSpec
from leafgate.upstream.fleet import Fleet
from leafgate.upstream.receive import note_refusal, note_status

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).parents[1] / "servers" / "plain_http.py"
PATIENCE = 60


class Upstream:
    """The server process, to be started, stopped and told to refuse."""

    def __init__(self, folder: Path, transport: str = "http") -> None:
        self.transport = transport
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.refusal = folder / "refuse"
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._spawn()
        with anyio.fail_after(PATIENCE):
            while True:
                try:
                    stream = await anyio.connect_tcp("127.0.0.1", self.port)
                except OSError:
                    await anyio.sleep(0.1)
                else:
                    await stream.aclose()
                    return

    def _spawn(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self.port), str(self.refusal), self.transport]
        )

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[tuple[Upstream, Fleet]]:
    upstream = Upstream(folder)
    await upstream.start()
    try:
        fleet = Fleet([ServerSpec("web", HttpServer(f"http://127.0.0.1:{upstream.port}/mcp"), timeout=10)])
        async with fleet.running():
            await fleet.wait_for_start()
            yield upstream, fleet
    finally:
        upstream.stop()


async def say(fleet: Fleet, text: str) -> str:
    result = await fleet.request("web", "tools/call", {"name": "echo", "arguments": {"text": text}})
    return str(result["content"][0]["text"])


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "AUTH_FAILED"), (403, "PERMISSION_DENIED"), (429, "RATE_LIMITED"), (503, "UPSTREAM_UNAVAILABLE")],
)
async def test_a_refusal_keeps_its_meaning(tmp_path: Path, status: int, code: str) -> None:
    async with connected(tmp_path) as (upstream, fleet):
        assert await say(fleet, "hello") == "hello"
        assert await say(fleet, "half SURROG of a pair") == "half \ufffd of a pair"
        upstream.refusal.write_text(str(status))
        with pytest.raises(UpstreamFailure) as raised:
            await say(fleet, "hello?")
        assert raised.value.code == code


async def test_a_restarted_server_is_found_again(tmp_path: Path) -> None:
    async with connected(tmp_path) as (upstream, fleet):
        upstream.stop()
        with pytest.raises(UpstreamFailure) as raised:
            await say(fleet, "anybody there?")
        assert raised.value.code == "UPSTREAM_UNAVAILABLE"
        assert len((await fleet.list_offers()).tools) == 1
        await upstream.start()
        with anyio.fail_after(PATIENCE):
            while True:
                try:
                    assert await say(fleet, "back") == "back"
                except UpstreamFailure:
                    await anyio.sleep(0.2)
                else:
                    break


async def test_the_older_sse_transport_works_too(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path, "sse")
    await upstream.start()
    try:
        reach = HttpServer(f"http://127.0.0.1:{upstream.port}/sse", transport="sse")
        fleet = Fleet([ServerSpec("web", reach, timeout=10)])
        async with fleet.running():
            await fleet.wait_for_start()
            assert await say(fleet, "hello") == "hello"
            assert await say(fleet, "half SURROG of a pair") == "half \ufffd of a pair"
    finally:
        upstream.stop()


# The status of a refusal


async def test_a_refusal_is_of_its_own_request() -> None:
    found: dict[str, int | None] = {}

    async def request(name: str, *statuses: int) -> None:
        with note_refusal() as refusal:
            for status in statuses:
                await note_status(httpx2.Response(status))
                await anyio.lowlevel.checkpoint()  # the others get their turn
        found[name] = refusal.status

    async with anyio.create_task_group() as group:
        group.start_soon(request, "refused", 200, 401)
        group.start_soon(request, "answered", 200, 200, 200)
        group.start_soon(request, "answered at last", 503, 200)
    assert found == {"refused": 401, "answered": None, "answered at last": None}


async def test_what_nobody_notes_is_passed_over() -> None:
    await note_status(httpx2.Response(401))
    with note_refusal() as refusal:
        pass
    assert refusal.status is None
