"""A Python that has leafgate, the MCP SDK and the checkout's maps loaded: PYTHON, a program that runs a script,
`-m module` or `-c code` as sys.executable does, and start_process, for commands of the tests themselves.

Both ask one process (warm_process), which forks a process for each command. Each command has its own input, output,
folder and environment, as from a shell. This saves a second of imports, and as much for the maps, hundreds of times.
That process (see warm_start) loads all this when this module is imported, so tests without commands do not pay for it.

A command of PYTHON has a small process in front of it (warm_launcher), which passes signals on and ends as the command
does. Tests of processes themselves (signals, orphans, hash seeds) use sys.executable.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from warm_start import FOLDER

SECONDS = 120
PYTHON = str(FOLDER / "python")


def _connect(command: bytes, files: Sequence[int]) -> socket.socket:
    asks = socket.socket(socket.AF_UNIX)
    asks.settimeout(SECONDS)
    asks.connect(str(FOLDER / "socket"))
    socket.send_fds(asks, [len(command).to_bytes(4, "big")], files)
    if command:  # an empty one may have been answered already
        asks.sendall(command)
    return asks


_loading = _connect(b"", [])  # no command: it is answered once everything is loaded


def wait_until_loaded() -> None:
    """Wait, so that the time for loading does not count as that of the first server to start."""
    _loading.recv(16)


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
    return BackgroundProcess(_connect(command, files))
