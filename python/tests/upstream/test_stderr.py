"""The stderr of servers: bounded, logged, and the reason that an operator reads when a server has ended."""

from __future__ import annotations

import logging
import resource
import sys
from pathlib import Path

import anyio
import pytest

from leafgate.model.errors import UpstreamFailure
from leafgate.upstream import ServerSpec, StdioServer
from leafgate.upstream.connect import MOST_LINES, STDERR_LINE, StderrLines
from leafgate.upstream.fleet import Fleet
from leafgate.upstream.supervise import SupervisedServer

SERVER = Path(__file__).parents[1] / "servers" / "moody.py"


def last_of(*chunks: bytes) -> str:
    lines = StderrLines("web")
    for chunk in chunks:
        lines.feed(chunk)
    lines.flush()
    return lines.last


def test_the_last_line_with_something_in_it_counts() -> None:
    assert last_of(b"starting\nValueE", b"rror: no key\n", b"\n  \n") == "ValueError: no key"
    assert last_of(b"one\ntwo, without an end") == "two, without an end"
    assert last_of(b"\xff\xfe bytes\n") == "�� bytes"
    assert last_of() == last_of(b"\n" * 100_000) == ""


def test_of_a_node_program_the_error_counts_and_not_its_version() -> None:
    crash = b"  throw err;\n\nError: Cannot find module 'x'\n    at y\n  code: 'E'\n}\n\nNode.js v20.11.0\n"
    assert last_of(crash) == "Error: Cannot find module 'x'"
    assert last_of(b"Node.js v20.11.0\n") == "Node.js v20.11.0"


def test_a_line_without_an_end_takes_no_memory() -> None:
    lines = StderrLines("web")
    for _ in range(1_000):
        lines.feed(b"x" * 65_536)
        assert len(lines._rest) <= STDERR_LINE
    lines.feed(b"\nthe end\n")
    assert lines.last == "the end"


def test_a_flood_of_lines_is_logged_in_part_and_its_last_line_is_known(caplog: pytest.LogCaptureFixture) -> None:
    now = 5.0
    lines = StderrLines("web", lambda: now)
    with caplog.at_level(logging.INFO, "leafgate.upstream"):
        for _ in range(50):
            lines.feed(b"noise\n" * 10_000)
        lines.feed(b"it broke\n")
        assert lines.last == "it broke"
        assert len(caplog.records) == MOST_LINES
        now += 1
        lines.feed(b"later\n")
    assert [record.getMessage() for record in caplog.records[-2:]] == ["[web] … and 499801 more lines", "[web] later"]


pytestmark = pytest.mark.anyio


async def failed(code: str, *, start_timeout: float = 20) -> SupervisedServer:
    """A server that runs this code, once its first try is over."""
    reach = StdioServer(sys.executable, ("-c", code))
    fleet = Fleet([ServerSpec("web", reach, start_timeout=start_timeout)])
    async with fleet.running():
        await fleet.wait_for_start()
        (member,) = fleet.members()
        with pytest.raises(UpstreamFailure) as raised:
            await fleet.request("web", "tools/call", {"name": "x"})
        assert raised.value.code == "UPSTREAM_UNAVAILABLE"
        assert "no key" not in raised.value.message + str(raised.value.details)
        assert raised.value.details == ({} if member.exit_code is None else {"exit_code": member.exit_code})
        return member


async def test_a_server_that_dies_says_why() -> None:
    member = await failed("import sys; print('\\x1b[31mloading', file=sys.stderr); raise ValueError('no key')")
    assert member.exit_code == 1
    assert str(member.last_failure).startswith("UPSTREAM_UNAVAILABLE: ")
    assert str(member.last_failure).endswith(
        "its process ended with exit code 1; its last line on stderr: ValueError: no key"
    )


async def test_a_signal_is_named() -> None:
    member = await failed("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert str(member.last_failure).endswith("its process was ended by signal 9")


async def test_a_server_that_hangs_at_its_start_has_no_exit_code_and_says_what_it_waits_for() -> None:
    code = "import sys, time; print('\\x1b[1mopen the browser to log in\\x1b[0m', file=sys.stderr); time.sleep(60)"
    member = await failed(code, start_timeout=2)
    assert member.exit_code is None
    assert str(member.last_failure).startswith("UPSTREAM_TIMEOUT: ")
    assert str(member.last_failure).endswith("its last line on stderr: open the browser to log in")


async def test_a_grandchild_that_holds_stderr_open_delays_nothing_for_long() -> None:
    code = (
        "import subprocess, sys; print('gone', file=sys.stderr, flush=True); "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'], stdin=-3, stdout=-3)"
    )
    with anyio.fail_after(15):
        member = await failed(code)
    assert str(member.last_failure).endswith("exit code 0; its last line on stderr: gone")


async def test_a_server_that_is_starting_is_not_called_down() -> None:
    fleet = Fleet(
        [ServerSpec("web", StdioServer(sys.executable, ("-c", "import time; time.sleep(60)")))], start_seconds=0
    )
    async with fleet.running():
        await anyio.sleep(0.1)
        with pytest.raises(UpstreamFailure) as raised:
            await fleet.request("web", "tools/call", {"name": "x"})
    assert raised.value.message == "the server is still starting"
    assert "down" not in raised.value.detail


async def test_megabytes_without_a_line_end_do_not_fill_the_memory(tmp_path: Path) -> None:
    flood = f"""
import os, runpy, sys, threading
def write():
    for _ in range(1000):
        os.write(2, b"x" * 100_000)
    open({str(tmp_path / "done")!r}, "w").close()
threading.Thread(target=write, daemon=True).start()
os.environ["FOLDER"] = {str(tmp_path)!r}
runpy.run_path({str(SERVER)!r}, run_name="__main__")
"""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fleet = Fleet([ServerSpec("web", StdioServer(sys.executable, ("-c", flood)))])
    async with fleet.running():
        await fleet.wait_for_start()
        with anyio.fail_after(60):
            while not (tmp_path / "done").exists():
                await fleet.request("web", "tools/call", {"name": "echo", "arguments": {"text": "hi"}})
                await anyio.sleep(0.05)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
