"""`leafgate` as a person runs it: the installed program, a home folder of its own, nothing to answer questions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Person:
    """Somebody with a home, a folder that they stand in, and an environment."""

    home: Path
    folder: Path

    def runs(self, *words: str, env: dict[str, str] | None = None, typed: str = "") -> Ran:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "LEAFGATE_", "CLAUDE_"))
        }
        done = subprocess.run(
            [str(PROGRAM), *words],
            cwd=self.folder,
            env={
                **kept,
                "HOME": str(self.home),
                "COLUMNS": "200",
                "XDG_CACHE_HOME": str(self.home / "cache"),
                **(env or {}),
            },
            input=typed,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


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
