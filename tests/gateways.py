"""Gateways as real processes, for tests: one per test, as a child over stdio or on a port of its own."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import BackgroundProcess, running
from mcp import Client, StdioServerParameters
from warm_python import PYTHON

ROOT = Path(__file__).resolve().parents[1]
LEAFGATE = ROOT / ".venv" / "bin" / "leafgate"
SERVERS = ROOT / "tests" / "servers"
READY_SECONDS = 60


@asynccontextmanager
async def gateway_on_stdio(*args: str, env: dict[str, str] | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client, with these options, that has started the gateway as its child: with the program loaded, likewise."""
    command = StdioServerParameters(command=PYTHON, args=[str(LEAFGATE), "serve", *args], env=env)
    async with Client(command, **options) as client:
        yield client


class NotReadyError(AssertionError):
    """The gateway ended before it was ready."""


@dataclass(frozen=True)
class HttpGateway:
    """A gateway process that listens on a port of its own."""

    process: BackgroundProcess
    url: str
    announced: str


@contextmanager
def gateway_on_http(
    *args: str, env: dict[str, str] | None = None, transport: str = "http", errors: int = 2
) -> Iterator[HttpGateway]:
    """The gateway as an operator starts it; ended by SIGTERM. A fork of a process that has the program loaded."""
    words = ("serve", "--transport", transport, "--port", "0", *args)
    with running(*words, env={**os.environ, **(env or {})}, errors=errors) as process:
        announced = _read_until_ready(process)
        found = re.search(r"(http://\S+)/(?:mcp|sse)", announced)
        assert found, f"no endpoint in: {announced}"
        yield HttpGateway(process, found.group(1), announced)


def _read_until_ready(process: BackgroundProcess) -> str:
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C stops"):
            return "".join(lines)
    raise NotReadyError(f"the gateway ended with {process.wait()} before it was ready: {''.join(lines)}")


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")
