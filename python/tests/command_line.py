"""`leafgate` as a person runs it: the installed program, a home folder of its own, nothing to answer questions."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("leafgate")
SERVERS = Path(__file__).resolve().parents[2] / "tests" / "servers"
SECONDS = 120


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


def run_program(*words: str, folder: Path, env: dict[str, str], typed: str = "") -> Ran:
    """The program in a process of its own, with this folder and this environment."""
    command = {"words": [str(PROGRAM), *words], "folder": str(folder), "env": env}
    warm = _warm()
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(typed.encode())
        given.seek(0)
        socket.send_fds(warm, [json.dumps(command).encode()], [given.fileno(), out.fileno(), err.fileno()])
        try:
            code = int(warm.recv(16))
        except TimeoutError:  # its late answer must not be taken for the next one's
            _warm.cache_clear()
            warm.close()
            raise
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
    command = [str(PROGRAM), "serve", *transport, "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = (re.search(r"MCP endpoint (http://\S+)/(?:mcp|sse)", line) for line in process.stdout)
            yield next(match[1] for match in found if match)
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS)
