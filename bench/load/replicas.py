"""Gateways with one store, for load: real processes behind no balancer, since the clients go to each in turn.

Starts a Redis server, gateways and their echo servers, and ends them. What a process uses is read from /proc.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateways import SERVERS, HttpGateway, gateway_on_http
from redis_server import redis_server

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """What a process holds and has used."""

    resident: int
    handles: int
    cpu_seconds: float


def usage_of(pid: int) -> Usage:
    process = Path(f"/proc/{pid}")
    resident = int((process / "statm").read_text().split()[1]) * PAGE
    times = (process / "stat").read_text().rpartition(")")[2].split()
    return Usage(resident, len(list((process / "fd").iterdir())), (int(times[11]) + int(times[12])) / TICKS)


@contextmanager
def replicas(folder: Path, number: int) -> Iterator[list[HttpGateway]]:
    """So many gateways on one Redis; their echo servers write to `calls` in this folder."""
    echo = {"command": sys.executable, "args": [str(SERVERS / "echo.py")], "env": {"CALL_LOG": str(folder / "calls")}}
    config = folder / "leafgate.json"
    config.write_text(json.dumps({"mcpServers": {"echo": echo}}))
    store = folder / "redis"
    store.mkdir()
    with redis_server(store) as redis, ExitStack() as stack:
        words = ("--config", str(config), "--state", redis.url, "--log-level", "error")
        yield [stack.enter_context(gateway_on_http(*words)) for _ in range(number)]


def commit() -> str:
    """Of the checkout that is measured."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()
