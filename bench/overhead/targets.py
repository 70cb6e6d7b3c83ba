"""What is measured, as processes: the echo server itself, and every proxy in front of it. Out: URLs, while they run.

Touches processes, temporary files, and .tools/peers, where each peer has an environment of its own. A peer that cannot
be installed or started is reported, and the rest goes on.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

ROOT: Final = Path(__file__).resolve().parents[2]
PEERS: Final = ROOT / ".tools" / "peers"
UV: Final = ROOT / ".tools" / "uv-env" / "bin" / "uv"
LEAFGATE: Final = ROOT / ".venv" / "bin" / "leafgate"
ECHO: Final = ROOT / "bench" / "overhead" / "echo_server.py"
FASTMCP: Final = "fastmcp==4.1.2"
MCP_PROXY: Final = "mcp-proxy==0.13.0"
INSTALL_SECONDS: Final = 300
STOP_SECONDS: Final = 10

Form = Literal["native", "tool_execute"]
Upstream = tuple[str, tuple[str, ...]]

ECHO_STDIO: Final[Upstream] = (sys.executable, (str(ECHO),))


@dataclass(frozen=True)
class Plan:
    """A target to be: the command that serves it at a port, and how its tools are called."""

    name: str
    command: Callable[[int, Path], Sequence[str]]
    form: Form = "native"
    package: str = ""
    in_full: bool = False  # only measured in the full run
    environment: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Target:
    """One that runs."""

    name: str
    url: str
    form: Form
    process: subprocess.Popen[bytes]


def plans() -> list[Plan]:
    return [
        Plan("direct", lambda port, _: [sys.executable, str(ECHO), "--port", str(port)]),
        leafgate("leafgate passthrough", {"mode": "passthrough"}),
        leafgate("leafgate passthrough, ids", {"mode": "passthrough", "map": "qwen/qwen2"}, in_full=True),
        leafgate("leafgate gateway", {"mode": "gateway"}, "tool_execute", in_full=True),
        leafgate("leafgate gateway, ids", {"mode": "gateway", "map": "qwen/qwen2"}, "tool_execute"),
        Plan("fastmcp proxy", _fastmcp, package=FASTMCP, environment={"FASTMCP_CHECK_FOR_UPDATES": "off"}),
        Plan("mcp-proxy", _mcp_proxy, package=MCP_PROXY),
    ]


def leafgate(
    name: str,
    settings: Mapping[str, Any],
    form: Form = "native",
    upstream: Upstream = ECHO_STDIO,
    *,
    in_full: bool = False,
) -> Plan:
    def command(port: int, folder: Path) -> Sequence[str]:
        config = folder / f"{name.replace(' ', '-').replace(',', '')}.yaml"
        config.write_text(json.dumps({**settings, **_servers(upstream)}), encoding="utf-8")
        return [str(LEAFGATE), "serve", "--transport", "http", "--port", str(port), "--config", str(config)]

    return Plan(name, command, form, in_full=in_full)


def _servers(upstream: Upstream) -> dict[str, Any]:
    return {"mcpServers": {"echo": {"command": upstream[0], "args": list(upstream[1])}}}


def _fastmcp(port: int, folder: Path) -> Sequence[str]:
    config = folder / "mcp.json"
    config.write_text(json.dumps(_servers(ECHO_STDIO)), encoding="utf-8")
    serve = ["--transport", "http", "--host", "127.0.0.1", "--port", str(port), "--no-banner", "--log-level", "ERROR"]
    return [str(_bin("fastmcp") / "fastmcp"), "run", str(config), *serve]


def _mcp_proxy(port: int, folder: Path) -> Sequence[str]:
    serve = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "ERROR", "--pass-environment"]
    return [str(_bin("mcp-proxy") / "mcp-proxy"), *serve, "--", ECHO_STDIO[0], *ECHO_STDIO[1]]


def _bin(peer: str) -> Path:
    return PEERS / peer / "bin"


def install(package: str) -> str | None:
    """Puts a peer into its own environment; what went wrong, if anything did."""
    name = package.split("==", maxsplit=1)[0]
    stamp = PEERS / f"{name}.stamp"
    if stamp.is_file() and stamp.read_text() == package:
        return None
    for command in (
        [str(UV), "venv", "--quiet", "--clear", "--python", sys.executable, str(PEERS / name)],
        [str(UV), "pip", "install", "--quiet", "--python", str(_bin(name) / "python"), package],
    ):
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"not installed: {type(error).__name__}"
        if ran.returncode:
            return f"not installed: {' '.join(ran.stderr.split())[-160:]}"
    stamp.write_text(package)
    return None


@contextmanager
def started(plan: Plan, folder: Path) -> Iterator[Target]:
    """The process, ended afterwards with all its children. It may not answer yet."""
    with socket.create_server(("127.0.0.1", 0)) as finder:
        port = finder.getsockname()[1]
    with (folder / f"{port}.log").open("wb") as log:
        process = subprocess.Popen(
            plan.command(port, folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(plan.environment or {})},
        )
    try:
        yield Target(plan.name, f"http://127.0.0.1:{port}/mcp", plan.form, process)
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks a process to end, and ends whatever of it and its children is left."""
    children = offspring(process.pid)
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    until = time.monotonic() + 2
    while (left := [pid for pid in children if Path(f"/proc/{pid}").exists()]) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue


def offspring(pid: int) -> list[int]:
    """The children of a process, and theirs. Empty where the system does not tell."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in listing.read_text().split():
            found += [int(child), *offspring(int(child))]
    return found


def cpu_seconds(pid: int) -> float | None:
    """What this process has used so far, without its children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
