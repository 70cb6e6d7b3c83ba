"""One server, kept connected: real child processes that come up, change, hang, die and come back."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp.types import ErrorData

from leafgate.model.errors import UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.upstream import ServerSpec, StdioServer, back_channel
from leafgate.upstream.fleet import Fleet

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parents[1] / "servers" / "moody.py"
PATIENCE = 60


def spec(folder: Path, *, name: str = "moody", timeout: float = 20, **env: str) -> ServerSpec:
    reach = StdioServer(sys.executable, (str(SERVER),), {"FOLDER": str(folder), **env})
    return ServerSpec(name, reach, timeout=timeout)


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


def text(result: object) -> str:
    assert isinstance(result, dict)
    return str(result["content"][0]["text"])


async def call_moody(fleet: Fleet, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    return await fleet.request("moody", "tools/call", {"name": name, "arguments": args})


async def test_all_pages_of_a_list_are_followed(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        names = [listing.definition["name"] for listing in (await fleet.list_offers()).tools]
        assert names == ["echo", "die", "sleep", "grow", "pid"]


LISTER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    cursor = int(request.get("params", {}).get("cursor", 0))
    tools = [{"name": f"t{cursor}-{n}", "inputSchema": {}} for n in range(1_000)]
    result = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "lister", "version": "1"}, "instructions": "x" * 1_000_000},
        "tools/list": {"tools": tools, "nextCursor": str(1 if "loop" in sys.argv else cursor + 1)},
    }.get(request["method"])
    answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""


async def test_of_a_list_without_end_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leafgate.upstream.raw_session.MAX_LISTED", 2_500)
    async with running(ServerSpec("lister", StdioServer(sys.executable, ("-c", LISTER)))) as fleet:
        offers = await fleet.list_offers()
        assert [listing.definition["name"] for listing in offers.tools][-1] == "t2-499"
        assert len(offers.instructions["lister"]) < 100_000
    monkeypatch.setattr("leafgate.upstream.raw_session.MAX_LISTED_BYTES", 50_000)
    async with running(ServerSpec("lister", StdioServer(sys.executable, ("-c", LISTER)))) as fleet:
        assert 1_000 < len((await fleet.list_offers()).tools) < 2_000


async def test_a_cursor_that_comes_again_ends_the_list() -> None:
    async with running(ServerSpec("lister", StdioServer(sys.executable, ("-c", LISTER, "loop")))) as fleet:
        (member,) = fleet.members()
        assert member.state == "down"
        assert "had it before" in (member.last_failure or "")


async def test_unknown_fields_and_blocks_come_through_raw(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        result = await call_moody(fleet, "echo", {"text": "hi"})
        assert result["content"][0] == {"type": "text", "text": "hi", "oddField": 1}
        assert result["content"][1]["type"] == "_codec_meta"


async def test_a_killed_server_comes_back_with_its_tools(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        (member,) = fleet.members()
        pid = int(text(await call_moody(fleet, "pid", {})))
        os.kill(pid, signal.SIGKILL)
        await until(lambda: member.state == "down")
        with pytest.raises(UpstreamFailure) as raised:
            await call_moody(fleet, "echo", {"text": "hi"})
        assert raised.value.code == "UPSTREAM_UNAVAILABLE"
        assert len((await fleet.list_offers()).tools) == 5
        await until(lambda: member.state == "up")
        assert text(await call_moody(fleet, "echo", {"text": "again"})) == "again"


async def test_death_in_the_middle_of_a_call_is_an_answer(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        with pytest.raises(UpstreamFailure) as raised:
            await call_moody(fleet, "die", {})
        assert raised.value.code == "UPSTREAM_UNAVAILABLE"


async def test_a_call_that_takes_too_long_times_out_and_others_go_on(tmp_path: Path) -> None:
    async with running(spec(tmp_path, timeout=1)) as fleet:
        with pytest.raises(UpstreamFailure) as raised:
            await call_moody(fleet, "sleep", {})
        assert raised.value.code == "UPSTREAM_TIMEOUT"
        assert text(await call_moody(fleet, "echo", {"text": "still here"})) == "still here"


async def test_a_changed_list_is_noticed(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        seen: list[int] = []
        fleet.on_change(lambda: seen.append(len(fleet.members()[0].offers.tools)))
        await call_moody(fleet, "grow", {})
        await until(lambda: seen)
        assert seen[-1] == 6


async def test_a_server_that_cannot_start_does_not_hold_the_others_up(tmp_path: Path) -> None:
    broken = ServerSpec("broken", StdioServer("no-such-command-anywhere"))
    async with running(broken, spec(tmp_path)) as fleet:
        states = {member.spec.name: member.state for member in fleet.members()}
        assert states == {"broken": "down", "moody": "up"}
        with pytest.raises(UpstreamFailure) as raised:
            await fleet.request("broken", "tools/call", {"name": "x", "arguments": {}})
        assert raised.value.code == "UPSTREAM_UNAVAILABLE"


async def test_noise_on_stdout_is_survived(tmp_path: Path) -> None:
    async with running(spec(tmp_path, NOISE="1")) as fleet:
        assert text(await call_moody(fleet, "echo", {"text": "clear"})) == "clear"


async def test_at_the_end_no_process_is_left(tmp_path: Path) -> None:
    async with running(spec(tmp_path)) as fleet:
        pid = int(text(await call_moody(fleet, "pid", {})))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


class Silent:
    """A client that never answers."""

    owner = user = "me"

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError


async def test_a_question_that_is_not_answered_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_channel, "ANSWER_SECONDS", 0.05)
    client = cast(ClientChannel, Silent())
    with anyio.fail_after(PATIENCE):
        questions = {"inputRequests": {"q": {"method": "elicitation/create"}}}
        with pytest.raises(UpstreamFailure) as raised:
            await back_channel.BackChannel().answer_questions(questions, client)
        assert "in time" in str(raised.value)
        back = back_channel.BackChannel()
        with back.open_to(client):
            answer = await back.list_roots(None)
        assert isinstance(answer, ErrorData)
