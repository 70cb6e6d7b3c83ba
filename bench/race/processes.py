"""Servers as processes. In: a plan. Out: its URL, while it runs; what it has used.

Touches processes, loopback and a folder for their logs. Ends what it started, children included, and nothing else.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

STOP_SECONDS: Final = 10

Form = Literal["native", "tool_execute"]


@dataclass(frozen=True)
class Plan:
    """A server to be: the command that serves it at a port, and how its tools are called."""

    name: str
    command: Callable[[int, Path], Sequence[str]]
    form: Form = "native"
    package: str = ""
    in_full: bool = False  # only measured in the full run
    environment: Mapping[str, str] = field(default_factory=dict)
    path: str = "/mcp"


@dataclass(frozen=True)
class Target:
    """One that runs."""

    name: str
    url: str
    form: Form
    process: subprocess.Popen[bytes]


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
            env={**os.environ, **plan.environment},
        )
    try:
        yield Target(plan.name, f"http://127.0.0.1:{port}{plan.path}", plan.form, process)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
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
