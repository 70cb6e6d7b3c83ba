"""A child gets whole lines, however many speak at once, and is heard until it ends. The children are real processes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification, JSONRPCRequest

from leafgate.upstream import StdioServer
from leafgate.upstream.child import child_streams

pytestmark = pytest.mark.anyio

SIZE = 100_000
HIGH_WATER = 65_536  # of both event loops

TELL = """
import json, os, sys, time
def tell(method, **params):
    print(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}), flush=True)
"""
READS_A_LITTLE = "os.read(0, 1); [os.read(0, 10_000) for _ in range(60)]; tell('enough'); time.sleep(600)"
READS_LATE = """
tell("begun")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
for line in sys.stdin:
    tell("read", id=json.loads(line)["id"])
"""


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


def child(code: str, *args: str) -> Any:
    return child_streams(StdioServer(sys.executable, ("-c", TELL + code, *args)), sys.stderr)


def request(number: int, text: str = "") -> SessionMessage:
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method="ask", params={"text": text}))


async def heard(streams: Any) -> dict[str, Any]:
    """What the child says next."""
    message = (await anext(streams)).message
    assert isinstance(message, JSONRPCNotification)
    return {"method": message.method, **(message.params or {})}


async def speak_on(write: Any) -> None:
    while True:
        await write.send(request(1))
        await anyio.lowlevel.checkpoint()


async def test_what_a_child_has_not_read_is_bounded_however_many_speak() -> None:
    with anyio.fail_after(60):
        async with child(READS_A_LITTLE) as (read, write), anyio.create_task_group() as speakers:
            for number in range(50):
                speakers.start_soon(write.send, request(number, "x" * SIZE))
            assert (await heard(read))["method"] == "enough"
            await anyio.wait_all_tasks_blocked()
            assert write._pipes.stdin.transport.get_write_buffer_size() < HIGH_WATER + 1.1 * SIZE
            speakers.cancel_scope.cancel()


async def test_lines_are_whole_although_those_who_speak_are_cancelled(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with anyio.fail_after(60):
        async with child(READS_LATE, str(go)) as (read, write):
            assert (await heard(read))["method"] == "begun"
            async with anyio.create_task_group() as speakers:
                for number in range(20):
                    speakers.start_soon(write.send, request(number, "x" * SIZE))
                await anyio.wait_all_tasks_blocked()
                speakers.cancel_scope.cancel()
            go.touch()
            await write.send(request(99))
            ids = []
            while not ids or ids[-1] != 99:
                ids.append((await heard(read))["id"])
            assert ids == [*range(len(ids) - 1), 99]
            assert len(ids) < 20


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)", "os.close(1); time.sleep(600)"])
async def test_a_child_that_says_no_more_has_ended_the_connection(end: str) -> None:
    with anyio.fail_after(60):
        async with child(f"tell('last'); {end}") as (read, _):
            assert (await heard(read))["method"] == "last"
            with pytest.raises(StopAsyncIteration):
                await anext(read)


async def test_a_child_that_hears_no_more_has_ended_the_connection() -> None:
    with anyio.fail_after(60):
        async with child("os.close(0); tell('deaf'); time.sleep(600)") as (read, write):
            assert (await heard(read))["method"] == "deaf"
            with pytest.raises(anyio.BrokenResourceError):
                await speak_on(write)
            with pytest.raises(StopAsyncIteration):
                await anext(read)


@pytest.mark.parametrize("last_words", ["", "print('x' * 5_000_000, flush=True)"], ids=["silent", "talkative"])
async def test_a_child_is_told_to_end_and_has_time_to(last_words: str, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    async with child(f"sys.stdin.read(); {last_words}\nopen(sys.argv[1], 'w').close()", str(ended)) as (_, write):
        pass
    assert ended.exists()
    with pytest.raises(anyio.ClosedResourceError):
        await write.send(request(1))


async def all_messages(read: Any) -> list[Any]:
    return [message.message async for message in read]


async def some_children() -> None:
    for _ in range(3):
        async with child("os.kill(os.getpid(), 9)") as (read, _write):
            assert await all_messages(read) == []
        async with child("sys.stdin.read()"):
            pass


async def test_no_descriptor_is_left_of_a_child() -> None:
    await some_children()  # the event loop has some of its own
    await anyio.sleep(0.5)  # a closed pipe is let go of in the loop's next turn
    before = len(os.listdir("/proc/self/fd"))
    await some_children()
    with anyio.fail_after(30):
        while len(os.listdir("/proc/self/fd")) > before:  # noqa: ASYNC110  descriptors have no events
            await anyio.sleep(0.01)


async def test_messages_come_in_their_order_and_noise_does_not() -> None:
    lines = [json.dumps({"jsonrpc": "2.0", "method": f"m{number}"}) for number in range(3)]
    said = b"\n".join(
        [lines[0].encode(), b"noise", b"\xff\xfe", b"", lines[1].encode(), b"[1]", lines[2].encode(), b""]
    )
    async with child(f"sys.stdout.buffer.write({said!r}); sys.stdout.flush()") as (read, _):
        assert [message.method for message in await all_messages(read)] == ["m0", "m1", "m2"]


async def test_an_answer_of_too_many_values_fails_its_request_before_it_is_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An empty list takes 2 bytes in JSON, and 64 in memory."""
    monkeypatch.setattr("leafgate.upstream.child.MAX_SIGNS", 1_000_000)
    answer = "print(json.dumps({'jsonrpc': '2.0', 'id': 7, 'result': {'x': [[]] * 600_000}}), flush=True)"
    prose = "print(json.dumps({'jsonrpc': '2.0', 'id': 8, 'result': {'x': 'word, ' * 600_000}}), flush=True)"
    async with child(f"{answer}; {prose}; time.sleep(600)") as (read, _):
        refused, passed = (await anext(read)).message, (await anext(read)).message
    assert (refused.id, refused.error.message) == (7, "the server's answer is too large")
    assert (passed.id, len(passed.result["x"])) == (8, 3_600_000)
