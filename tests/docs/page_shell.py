"""A reader of a page who types what it says. In: blocks. Out: what the commands printed; a failure ends the test.

Has a home (given/home) and a folder with what the page takes for granted (given/<page>). The pages say 8808 and mean
the port that `leafgate` listens on by itself, which may be in use here: the reader's port is another one everywhere.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from page_blocks import Block

ROOT = Path(__file__).resolve().parents[2]
GIVEN = Path(__file__).with_name("given")
BIN = Path(sys.executable).parent
SECONDS = 120
READY = "Ctrl-C stops"
PRINTED_PORT = "8808"
# Commands that ask a running gateway ask the reader's, unless they say which.
ON_PATH = """#!/bin/bash
case "$1" in status|call)
    case " $* " in *" --url "*|*" --demo "*|*" --config "*|*" --help "*) ;; *) set -- "$@" --url {url} ;; esac
esac
exec {leafgate} "$@"
"""
RUN_PYTHON = """
import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
result = eval(code, {"__name__": "__main__"})
if inspect.iscoroutine(result):
    asyncio.run(result)
"""


class PageShell:
    """The reader. Ends what is left running when the page ends."""

    def __init__(self, folder: Path, page: str) -> None:
        self.home, self.work = folder / "home", folder / "work"
        shutil.copytree(GIVEN / "home", self.home)
        self.work.mkdir()
        for file in (GIVEN / Path(page).stem).glob("*"):
            shutil.copy(file, self.work)
        with socket.create_server(("127.0.0.1", 0)) as finder:
            self.port = finder.getsockname()[1]
        self._put_on_path(folder / "bin")
        self._log = folder / "background.log"
        self._serving: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> PageShell:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._serving:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGTERM)  # a session of its own: npx and just have children
            process.wait(SECONDS)

    def run(self, block: Block) -> str:
        """What the block printed."""
        if block.background:
            return self._serve(block)
        if block.kind == "python":
            return self._finish([sys.executable, "-c", RUN_PYTHON], block, typed=self._mine(block.text))
        return self._finish(["bash", "-euo", "pipefail", "-c", self._mine(block.text)], block)

    def _finish(self, command: list[str], block: Block, typed: str = "") -> str:
        done = subprocess.run(
            command,
            cwd=ROOT if block.in_checkout else self.work,
            env=self._environment(block),
            input=typed,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"line {block.line} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _serve(self, block: Block) -> str:
        """Starts the block's one command, and waits for the line that says it is ready."""
        command = block.text.partition("#")[0].strip()
        assert "\n" not in command, f"line {block.line}: only one command can be left running"
        if PRINTED_PORT not in command:
            command += f" --port {PRINTED_PORT}"
        with self._log.open("ab") as log:
            started = log.tell()
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self._mine(command)}"],
                cwd=ROOT if block.in_checkout else self.work,
                env=self._environment(block),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._serving.append(process)
        return self._said_when_ready(process, started)

    def _said_when_ready(self, process: subprocess.Popen[bytes], started: int) -> str:
        give_up = time.monotonic() + SECONDS
        while READY not in (said := self._log.read_bytes()[started:].decode()):
            assert process.poll() is None, f"ended with {process.returncode}:\n{said}"
            assert time.monotonic() < give_up, f"was not ready in time:\n{said}"
            time.sleep(0.1)
        return said

    def _mine(self, text: str) -> str:
        return text.replace(PRINTED_PORT, str(self.port))

    def _environment(self, block: Block) -> dict[str, str]:
        if block.in_checkout:
            return dict(os.environ)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "LEAFGATE_"))}
        path = os.pathsep.join([str(self.home.parent / "bin"), str(BIN), os.environ["PATH"]])
        return {**kept, "HOME": str(self.home), "PATH": path, "COLUMNS": "120"}

    def _put_on_path(self, folder: Path) -> None:
        folder.mkdir()
        script = folder / "leafgate"
        script.write_text(ON_PATH.format(url=f"http://127.0.0.1:{self.port}", leafgate=BIN / "leafgate"))
        script.chmod(0o755)
