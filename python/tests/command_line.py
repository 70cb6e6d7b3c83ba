"""`leafgate` as a person runs it: the installed program, a home folder of its own, nothing to answer questions."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warm_python import BackgroundProcess, start_process

PROGRAM = Path(sys.executable).with_name("leafgate")
SERVERS = Path(__file__).resolve().parents[2] / "tests" / "servers"


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


@contextmanager
def running(*words: str, env: Mapping[str, str], errors: int = 2) -> Iterator[BackgroundProcess]:
    """A command in the background, with its output in a pipe; ended by SIGTERM."""
    ours, theirs = os.pipe()
    with open(ours, encoding="utf-8") as out, open(os.devnull, "rb") as nothing:
        process = start_process([str(PROGRAM), *words], Path.cwd(), env, [nothing.fileno(), theirs, errors])
        os.close(theirs)
        process.stdout = out
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
        files = [given.fileno(), out.fileno(), err.fileno()]
        code = start_process([str(PROGRAM), *words], folder, env, files).wait()
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
        assert process.stdout is not None
        lines = (re.search(r"MCP endpoint (http://\S+)/(?:mcp|sse)", line) for line in process.stdout)
        yield next(match[1] for match in lines if match)
