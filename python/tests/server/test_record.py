"""Recording: every request with its answer, nothing of headers, nobody else's to read, and never in the way."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server import Server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

from leafgate.model.errors import ConfigError
from leafgate.server.record import MOST_WAITING, SessionRecorder, recording


def as_it_is(message: Any) -> Any:
    return message


async def call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
    if params.name == "fail":
        raise MCPError(-32000, "it failed", {"secret": "x"})
    if params.name == "crash":
        raise RuntimeError("password=hunter2")
    return CallToolResult(content=[TextContent(type="text", text=f"did {params.name}")])


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(
        tools=[Tool(name=name, input_schema={"type": "object"}) for name in ("work", "fail", "crash")]
    )


def server_with(recorder: SessionRecorder) -> Server[Any]:
    server: Server[Any] = Server("test", on_call_tool=call_tool, on_list_tools=list_tools)
    server.middleware.append(recorder)
    return server


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def messages(lines: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    """The requests of a method and their answers, in order."""
    exchanges = {line["exchange"] for line in lines if line["message"].get("method") == method}
    return [line for line in lines if line["exchange"] in exchanges]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_requests_and_answers_of_both_eras(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "session.jsonl"
    with recording(path, as_it_is) as recorder:
        async with Client(server_with(recorder), mode=mode) as client:
            await client.call_tool("work", {"a": 1})
            with pytest.raises(MCPError):
                await client.call_tool("fail", {})
            with pytest.raises(MCPError):
                await client.call_tool("crash", {})
    asked, answered, failing, failed, crashing, crashed = messages(lines_of(path), "tools/call")
    assert [asked["direction"], answered["direction"]] == ["in", "out"]
    assert asked["message"]["params"]["arguments"] == {"a": 1}
    assert asked["message"]["id"] == answered["message"]["id"]
    assert asked["time"] <= answered["time"]
    assert answered["message"]["result"]["content"][0]["text"] == "did work"
    assert failing["message"]["params"]["name"] == "fail"
    assert failed["message"]["error"] == {"code": -32000, "message": "it failed"}
    assert crashing["message"]["params"]["name"] == "crash"
    assert crashed["message"]["error"] == {"code": -32603, "message": "RuntimeError"}
    assert b"hunter2" not in path.read_bytes()


@pytest.mark.anyio
async def test_what_is_asked_is_redacted(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"

    def redact(message: Any) -> Any:
        return json.loads(json.dumps(message).replace("hunter2", "[redacted]"))

    with recording(path, redact) as recorder:
        async with Client(server_with(recorder)) as client:
            result = await client.call_tool("work", {"password": "hunter2"})
    assert result.content[0].text == "did work"  # type: ignore[union-attr]
    assert b"hunter2" not in path.read_bytes()
    assert b"[redacted]" in path.read_bytes()


def test_the_file_is_its_owners_alone_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text('{"recorder":"earlier"}\n')
    path.chmod(0o644)
    with recording(path, as_it_is) as recorder:
        recorder._hand_over(1, "in", {"method": "ping"})
    assert path.stat().st_mode & 0o777 == 0o600
    assert [line.get("recorder") for line in lines_of(path)] == ["earlier", None]


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "nowhere"])
def test_anything_but_a_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "there"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        (tmp_path / "secret").write_text("x")
        path.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    else:
        path = tmp_path / "no" / "folder"
    with pytest.raises(ConfigError, match="cannot record into"), recording(path, as_it_is):
        pass
    if kind == "pipe":
        os.close(reader)
    if kind == "link":
        assert (tmp_path / "secret").read_text() == "x"


class SlowFile(io.BytesIO):
    """A disk that waits to be told."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()

    def write(self, data: Any) -> int:
        self.may.wait(30)
        return super().write(data)


def test_a_slow_disk_costs_messages_and_a_note_but_no_time() -> None:
    file = SlowFile()
    recorder = SessionRecorder(file, as_it_is)
    for number in range(MOST_WAITING + 500):
        recorder._hand_over(number, "in", {"method": "ping"})
    file.may.set()
    recorder.close()
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    dropped = [int(line["recorder"].split()[0]) for line in lines if "recorder" in line]
    written = [line for line in lines if "recorder" not in line]
    assert MOST_WAITING <= len(written) < MOST_WAITING + 10
    assert sum(dropped) + len(written) == MOST_WAITING + 500


def test_a_recording_has_an_end() -> None:
    file = io.BytesIO()
    recorder = SessionRecorder(file, as_it_is, most_bytes=500)
    for number in range(100):
        recorder._hand_over(number, "in", {"method": "ping"})
    recorder.close()
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert len(file.getvalue()) < 800
    assert "has reached its limit" in lines[-1]["recorder"]


class FullDisk(io.BytesIO):
    def write(self, data: Any) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_ends_the_recording_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    recorder = SessionRecorder(FullDisk(), as_it_is)
    for number in range(3 * MOST_WAITING):
        recorder._hand_over(number, "in", {"method": "ping"})
    recorder.close()
    assert [record.getMessage() for record in caplog.records] == ["the recording ends here: No space left on device"]


@pytest.mark.anyio
async def test_notifications_have_no_answer() -> None:
    file = io.BytesIO()
    recorder = SessionRecorder(file, as_it_is)
    context: Any = SimpleNamespace(method="notifications/cancelled", params={"requestId": 1}, request_id=None)

    async def next_one(ctx: Any) -> None:
        return None

    await recorder(context, next_one)
    recorder.close()
    (line,) = file.getvalue().splitlines()
    assert json.loads(line)["message"] == {
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
    }  # fmt: skip


def test_a_message_that_cannot_be_written_is_told_and_the_next_is_written() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    file = io.BytesIO()
    recorder = SessionRecorder(file, as_it_is)
    recorder._hand_over(1, "in", {"params": float("nan")})
    recorder._hand_over(2, "in", {"params": deep})
    recorder._hand_over(3, "in", {"method": "ping"})
    recorder.close()
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [line.get("recorder") for line in lines] == [
        "a message could not be written: ValueError",
        "a message could not be written: RecursionError",
        None,
    ]


def test_a_run_that_was_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text('{"time":"x","message":{"me')
    with recording(path, as_it_is) as recorder:
        recorder._hand_over(1, "in", {"method": "ping"})
    cut_off, whole = path.read_bytes().splitlines()
    assert cut_off == b'{"time":"x","message":{"me'
    assert json.loads(whole)["message"] == {"method": "ping"}


def test_runs_in_one_file_have_exchanges_of_their_own(tmp_path: Path) -> None:
    first, second = (next(SessionRecorder(io.BytesIO(), as_it_is)._exchanges) for _ in range(2))
    assert first < second < 2**53


FULL = """
import logging, resource, sys
from pathlib import Path
from leafgate.server.record import recording
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
with recording(Path(sys.argv[1]), lambda message: message) as recorder:
    for number in range(500):
        recorder._hand_over(number, "in", {"method": "ping", "params": {"padding": "x" * 100}})
print("ended well")
"""


def test_a_file_that_may_not_grow_ends_the_recording_and_not_the_gateway(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "ended well\n"
    assert done.stderr == "the recording ends here: File too large\n"
    *whole, _ = path.read_bytes().split(b"\n")
    assert path.stat().st_size == 20_000
    assert all(json.loads(line)["message"]["method"] == "ping" for line in whole)


class TakesLittle(io.BytesIO):
    def write(self, data: Any) -> int:
        return super().write(data[:7])


def test_a_disk_that_takes_a_part_gets_the_rest() -> None:
    file = TakesLittle()
    recorder = SessionRecorder(file, as_it_is)
    recorder._hand_over(1, "in", {"method": "ping"})
    recorder.close()
    assert json.loads(file.getvalue())["message"] == {"method": "ping"}


def test_a_file_that_was_closed_in_between_ends_the_recording(caplog: pytest.LogCaptureFixture) -> None:
    file = io.BytesIO()
    recorder = SessionRecorder(file, as_it_is)
    file.close()
    recorder._hand_over(1, "in", {"method": "ping"})
    recorder.close()
    assert [record.getMessage() for record in caplog.records] == ["the recording ends here: the disk did not keep up"]
