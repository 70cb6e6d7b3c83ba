"""The gateways that are measured, with the Node servers behind them. In: settings. Out: addresses and process ids.

Touches processes, temporary files and loopback. Whatever was started is ended, also where starting fails half-way.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leafgate.cli.leaf_bench.asking import Asking
from leafgate.cli.leaf_bench.ways import MAP, ServerName, Tokenizer, servers_of
from leafgate.model.errors import LeafgateError

START_SECONDS: Final = 60
STOP_SECONDS: Final = 15
# More tokens than a megabyte can have: nothing is shortened, and nothing is counted to find that out.
BUDGET: Final = 10_000_000
_SCHED_CLOCK: Final = 2  # of a whole process, threads that have ended included


@dataclass(frozen=True)
class Program:
    """The benchmark's server: Node and the script."""

    node: str
    script: Path


@dataclass(frozen=True)
class Gateway:
    """One that runs: where it answers, its process, and those of its servers."""

    url: str
    pid: int
    servers: Mapping[ServerName, int]


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, all its threads together. Linux names each process's clock after its id."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _SCHED_CLOCK) / 1e9
    except OSError:
        raise LeafgateError("a measured process is gone, or this system does not tell what it used") from None


def settings(gateway: Tokenizer, program: Program, texts: Path) -> dict[str, Any]:
    """A gateway's configuration, with a server for each way that it takes part in."""
    return {
        "mode": "passthrough",
        "budget": BUDGET,
        "accelerate": "auto" if gateway == "accelerated" else "off",
        "dashboard": False,
        "mcpServers": {name: _server(name, program, texts) for name in servers_of(gateway)},
    }


def _server(name: ServerName, program: Program, texts: Path) -> dict[str, Any]:
    form = "plain" if name == "plain" else "leaf"
    check = {} if name == "plain" else {"check": name}
    return {"command": program.node, "args": [str(program.script), str(texts), form, MAP, name], **check}


@contextmanager
def running(name: Tokenizer, program: Program, texts: Path) -> Iterator[Gateway]:
    """A gateway whose servers are all up."""
    config = texts.with_name(f"{name}.json")
    config.write_text(json.dumps(settings(name, program, texts)), encoding="utf-8")
    command = [sys.executable, "-m", "leafgate.cli", "serve", "--transport", "http", "--port", "0"]
    with texts.with_name(f"{name}.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, "--config", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            url = _address(process, Path(log.name))
            _wait_for_servers(url, name)
            yield Gateway(url, process.pid, _server_pids(process.pid, servers_of(name)))
        finally:
            _end(process)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        said = log.read_text(encoding="utf-8", errors="replace")
        found = re.search(r"MCP endpoint (http://127\.0\.0\.1:\d+)/mcp", said)
        if found:
            return found[1]
        if process.poll() is not None:
            raise LeafgateError(f"the measured gateway ended with {process.returncode}: {said[-500:].strip()}")
        time.sleep(0.05)
    raise LeafgateError(f"the measured gateway did not start within {START_SECONDS} s")


def _wait_for_servers(url: str, name: Tokenizer) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with Asking(url) as asking:
            upstreams = asking.status()["upstreams"]
        ready = {upstream["name"] for upstream in upstreams if upstream["tools"]}
        if ready >= {*servers_of(name)}:
            return
        time.sleep(0.1)
    raise LeafgateError("the benchmark's Node servers did not start; `node bench/leaf/server.mjs` by itself tells why")


def _server_pids(gateway: int, servers: tuple[ServerName, ...]) -> dict[ServerName, int]:
    """The last argument of each server's process is its name."""
    found: dict[str, int] = {}
    for listing in Path(f"/proc/{gateway}/task").glob("*/children"):
        for pid in listing.read_text().split():
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            found |= dict.fromkeys(arguments[-2:-1], int(pid))
    if not found.keys() >= {*servers}:
        raise LeafgateError("the benchmark's Node servers ended as soon as they had started")
    return {server: found[server] for server in servers}


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def can_measure() -> bool:
    """Whether this system tells what another process has used."""
    try:
        return cpu_seconds(os.getpid()) > 0
    except (LeafgateError, AttributeError):
        return False
