"""A Python that has leafgate, the MCP SDK and the checkout's maps loaded: PYTHON, a program that runs a script,
`-m module` or `-c code` as sys.executable does, and start_process, for commands of the tests themselves.

Both ask one process (warm_process), which forks a process for each command. Each command has its own input, output,
folder and environment, as from a shell. This saves a second of imports, and as much for the maps, hundreds of times.
That process loads all this with the first command, and ends with the process that imported this module first: the
workers of a test run share it.

A command of PYTHON has a small process in front of it (warm_launcher), which passes signals on and ends as the command
does. Tests of processes themselves (signals, orphans, hash seeds) use sys.executable.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).parent
SECONDS = 120
FOLDER_VARIABLE = "WARM_PYTHON"


def _start_once() -> Path:
    """The folder of the process, which is started if no process above this one has done so."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        return Path(folder)
    made = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    launcher = made / "python"
    launcher.write_text(f"#!{sys.executable} -IS\n{(HERE / 'warm_launcher.py').read_text(encoding='utf-8')}")
    launcher.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made / "socket"))
        listener.listen(1024)
        words = [sys.executable, str(HERE / "warm_process.py"), str(listener.fileno()), str(launcher)]
        # It ends with its input, a pipe that this process holds.
        process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    atexit.register(process.communicate)
    os.environ[FOLDER_VARIABLE] = str(made)
    return made


FOLDER = _start_once()
PYTHON = str(FOLDER / "python")


class BackgroundProcess:
    """A process of start_process, as far as tests use subprocess.Popen. `stdout` is for whoever holds the other end."""

    def __init__(self, asks: socket.socket) -> None:
        self._asks = asks
        self._turn = threading.Lock()
        self._code: int | None = None
        self.stdout: TextIO | None = None
        self.pid = self._read_number()

    def _read_number(self) -> int:
        digits = b""
        while (byte := self._asks.recv(1)) != b"\n":
            if not byte:
                raise ConnectionError("the process that forks commands has ended")
            digits += byte
        return int(digits)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        with self._turn:
            if self._code is None and select.select([self._asks], [], [], 0)[0]:
                self._code = self._read_number()
                self._asks.close()
            return self._code

    def wait(self, timeout: float = SECONDS) -> int:
        """Its exit code. Raises TimeoutExpired if it still runs then."""
        if self._code is None:
            select.select([self._asks], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code


def start_process(
    words: Sequence[str], folder: Path, env: Mapping[str, str], files: Sequence[int]
) -> BackgroundProcess:
    """Run a script, a module or code, with these files as its input, output and errors."""
    command = json.dumps({"words": words, "folder": str(folder), "env": {**env}}).encode()
    asks = socket.socket(socket.AF_UNIX)
    asks.settimeout(SECONDS)
    asks.connect(str(FOLDER / "socket"))
    socket.send_fds(asks, [len(command).to_bytes(4, "big")], files)
    asks.sendall(command)
    return BackgroundProcess(asks)
