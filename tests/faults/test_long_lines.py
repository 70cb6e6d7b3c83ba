"""A line that is longer than any use is passed over without being kept; the lines after it are heard."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from faulty_gateway import PATIENCE, SERVER
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest

from leafgate.upstream import StdioServer, child
from leafgate.upstream.raw_session import TOO_LARGE

pytestmark = pytest.mark.anyio


def call(request_id: int, tool: str, **args: object) -> SessionMessage:
    params = {"name": tool, "arguments": args}
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=request_id, method="tools/call", params=params))


async def test_a_line_beyond_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MAX_LINE", 500_000)
    command = StdioServer(sys.executable, (str(SERVER),), {"FAULTY_FOLDER": str(tmp_path)})
    with (tmp_path / "stderr").open("w") as errlog, anyio.fail_after(PATIENCE):
        async with child.child_streams(command, errlog) as (read, write):
            await write.send(call(1, "large", megabytes=0.4))
            assert (await anext(read)).message.id == 1
            await write.send(call(2, "large", megabytes=3))
            await write.send(call(3, "echo", text="still here"))
            refusal = (await anext(read)).message  # the request does not wait until it times out
            assert (refusal.id, refusal.error.message) == (2, TOO_LARGE)
            answer = (await anext(read)).message
            assert (answer.id, answer.result["content"][0]["text"]) == (3, "still here")
