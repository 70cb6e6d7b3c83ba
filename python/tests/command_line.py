"""`leafgate` as a person runs it: the installed program, a home folder of its own, nothing to answer questions."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TextIO

PROGRAM = Path(sys.executable).with_name("leafgate")
SERVERS = Path(__file__).resolve().parents[2] / "tests" / "servers"
SECONDS = 120
_turn = threading.Lock()


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


@cache
def _warm() -> socket.socket:
    """The program with its imports done (warm_program), which ends when this process does."""
    ours, theirs = socket.socketpair()
    ours.settimeout(SECONDS)
    with theirs:
        script = Path(__file__).with_name("warm_program.py")
        subprocess.Popen([sys.executable, str(script), str(theirs.fileno())], pass_fds=[theirs.fileno()])
    return ours


def _start(
    words: Sequence[str], folder: Path, env: Mapping[str, str], files: list[int], background: bool = False
) -> int:
    """The exit code of a command, or the id of its process in the background."""
    command = {"words": [str(PROGRAM), *words], "folder": str(folder), "env": {**env}, "background": background}
    return int(_ask(command, files))


def _ask(command: Mapping[str, object], files: Sequence[int] = ()) -> bytes:
    with _turn:
        warm = _warm()
        socket.send_fds(warm, [json.dumps(command).encode()], files)
        try:
            return warm.recv(16)
        except TimeoutError:  # its late answer must not be taken for the next one's
            _warm.cache_clear()
            warm.close()
            raise


@dataclass(frozen=True)
class BackgroundProcess:
    """A command that runs on, as far as tests use subprocess.Popen."""

    pid: int
    stdout: TextIO

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        answer = _ask({"poll": self.pid}).strip()
        return None if answer == b"None" else int(answer)

    def wait(self, timeout: float = SECONDS) -> int:
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("leafgate", timeout)
            time.sleep(0.01)
        return code


@contextmanager
def running(*words: str, env: Mapping[str, str], errors: int = 2) -> Iterator[BackgroundProcess]:
    """A command in the background, with its output in a pipe; ended by SIGTERM."""
    ours, theirs = os.pipe()
    with open(ours, encoding="utf-8") as out, open(os.devnull, "rb") as nothing:
        pid = _start(words, Path.cwd(), env, [nothing.fileno(), theirs, errors], background=True)
        os.close(theirs)
        process = BackgroundProcess(pid, out)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def run_program(*words: str, folder: Path, env: dict[str, str], typed: str = "") -> Ran:
    """The program in a process of its own, with this folder and this environment."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(typed.encode())
        given.seek(0)
        code = _start(words, folder, env, [given.fileno(), out.fileno(), err.fileno()])
        out.seek(0)
        err.seek(0)
        return Ran(code, out.read().decode(), err.read().decode())


@dataclass(frozen=True)
class Person:
    """Somebody with a home, a folder that they stand in, and an environment."""

    home: Path
    folder: Path

    def runs(self, *words: str, env: dict[str, str] | None = None, typed: str = "") -> Ran:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "LEAFGATE_", "CLAUDE_"))
        }
        env = {
            **kept,
            "HOME": str(self.home),
            "COLUMNS": "200",
            "XDG_CACHE_HOME": str(self.home / "cache"),
            **(env or {}),
        }
        return run_program(*words, folder=self.folder, env=env, typed=typed)


def somebody(folder: Path) -> Person:
    """A person whose home and working folder are new and empty."""
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    return Person(home, work)


@contextmanager
def gateway(*words: str) -> Iterator[str]:
    """A gateway on a port of its own, as an operator starts it; its URL."""
    transport = () if "--transport" in words else ("--transport", "http")
    with running("serve", *transport, "--port", "0", *words, env=os.environ) as process:
        lines = (re.search(r"MCP endpoint (http://\S+)/(?:mcp|sse)", line) for line in process.stdout)
        yield next(match[1] for match in lines if match)
