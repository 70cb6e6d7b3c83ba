"""What the tests of whole processes share: where things are, and a gateway of their own for each test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

ROOT = Path(__file__).resolve().parents[1]
LEAFGATE = ROOT / ".venv" / "bin" / "leafgate"
SERVERS = ROOT / "tests" / "servers"
READY_SECONDS = 60


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def gateway_on_stdio(*args: str, env: dict[str, str] | None = None) -> AsyncIterator[Client]:
    """A client that has started the gateway as its child."""
    command = StdioServerParameters(command=str(LEAFGATE), args=["serve", *args], env=env)
    async with Client(command) as client:
        yield client


class HttpGateway:
    """A gateway process that listens on a port of its own."""

    def __init__(self, process: subprocess.Popen[str], url: str, announced: str) -> None:
        self.process = process
        self.url = url
        self.announced = announced


@contextmanager
def gateway_on_http(*args: str, env: dict[str, str] | None = None) -> Iterator[HttpGateway]:
    """The gateway as an operator starts it; ended by SIGTERM."""
    process = subprocess.Popen(
        [str(LEAFGATE), "serve", "--transport", "http", "--port", "0", *args],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        announced = _read_until_ready(process)
        found = re.search(r"(http://\S+)/mcp", announced)
        assert found, f"no endpoint in: {announced}"
        yield HttpGateway(process, found.group(1), announced)
    finally:
        process.terminate()
        process.communicate(timeout=READY_SECONDS)


def _read_until_ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C stops"):
            return "".join(lines)
    raise AssertionError(f"the gateway ended with {process.wait()} before it was ready: {''.join(lines)}")


@pytest.fixture
def lying_config(tmp_path: Path) -> Path:
    """A client's own configuration file, with a time server whose ids are wrong."""
    server = {
        "command": sys.executable,
        "args": [str(SERVERS / "lying_time.py")],
        "env": {"CALL_LOG": str(tmp_path / "calls.log")},
    }
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"mcpServers": {"time": server}, "theme": "dark"}))
    return file


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")
