"""Gateways as real processes, for tests: one per test, as a child over stdio or on a port of its own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

ROOT = Path(__file__).resolve().parents[1]
LEAFGATE = ROOT / ".venv" / "bin" / "leafgate"
SERVERS = ROOT / "tests" / "servers"
READY_SECONDS = 60


@asynccontextmanager
async def gateway_on_stdio(*args: str, env: dict[str, str] | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client, with these options, that has started the gateway as its child."""
    command = StdioServerParameters(command=str(LEAFGATE), args=["serve", *args], env=env)
    async with Client(command, **options) as client:
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


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")
