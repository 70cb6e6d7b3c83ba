"""Waits for commands on a socket, and forks a process for each. See warm_start and warm_python.

A connection is one command: its words, folder and environment as JSON, after the length of that text in four bytes,
with the files for its input, output and errors. The answers are its process id and, later, its exit code. A byte on
the connection is the number of a signal for the command; at the end of the connection the command is killed. An
empty text is answered once everything is loaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn


class Forks:
    """The processes that run, each with the connection that asked for it."""

    def __init__(self, listener: socket.socket) -> None:
        self._connections: dict[int, socket.socket] = {}
        self._listener = listener
        self._wake, self._wakes = socket.socketpair()
        self._sources = selectors.DefaultSelector()
        self._sources.register(listener, selectors.EVENT_READ, self._start)
        self._sources.register(self._wake, selectors.EVENT_READ, self._report_ends)
        self._sources.register(sys.stdin, selectors.EVENT_READ, self._end)

    def serve(self) -> NoReturn:
        """Take commands until the standard input ends."""
        self._wakes.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno())
        while True:
            for key, _ in self._sources.select():
                key.data()

    def _start(self) -> None:
        connection, _ = self._listener.accept()
        size, files, _, _ = socket.recv_fds(connection, 4, 3)
        command = _read(connection, int.from_bytes(size, "big"))
        if not command:
            _answer(connection, os.getpid())
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            self._sources.close()
            for each in (*self._connections.values(), connection, self._listener, self._wake, self._wakes):
                each.close()
            run(json.loads(command), files)
        for file in files:
            os.close(file)
        self._connections[pid] = connection
        self._sources.register(connection, selectors.EVENT_READ, lambda: self._pass_signal(pid))
        _answer(connection, pid)

    def _pass_signal(self, pid: int) -> None:
        if pid not in self._connections:  # its end was reported in this round
            return
        numbers = b""
        with contextlib.suppress(ConnectionError):
            numbers = self._connections[pid].recv(64)
        for number in numbers or [signal.SIGKILL]:
            _kill(pid, number)
        if not numbers:
            self._sources.unregister(self._connections[pid])

    def _report_ends(self) -> None:
        self._wake.recv(4096)
        with contextlib.suppress(ChildProcessError):  # no process is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                connection = self._connections.pop(ended[0])
                with contextlib.suppress(KeyError):  # it has hung up
                    self._sources.unregister(connection)
                _answer(connection, os.waitstatus_to_exitcode(ended[1]))
                connection.close()

    def _end(self) -> NoReturn:
        for pid in self._connections:
            _kill(pid, signal.SIGKILL)
        os._exit(0)


def _read(connection: socket.socket, size: int) -> bytes:
    with connection.makefile("rb", buffering=0) as file:
        parts = b""
        while len(parts) < size and (part := file.read(size - len(parts))):
            parts += part
        return parts


def _answer(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # it has hung up
        connection.sendall(f"{number}\n".encode())


def _kill(pid: int, number: int) -> None:
    """With its children, unless it has only just been forked, or has ended."""
    with contextlib.suppress(ProcessLookupError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            os.kill(pid, number)


def run(command: dict[str, Any], files: list[int]) -> NoReturn:
    """In the process that was forked for it: run the command, and end."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # New objects: those of this process know what kind of file was there before, such as one that can seek.
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["env"])
    code = _run_words(command["words"])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # its other end, or it, is closed
            stream.flush()
    os._exit(code)  # freeing the maps would take longer than most commands


def _run_words(words: list[str]) -> int:
    """Run them as Python does. Returns the exit code."""
    try:
        if words[0] == "-m":
            sys.argv[:] = words[1:]
            sys.path[0] = os.getcwd()
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.argv[:] = ["-c", *words[2:]]
            sys.path[0] = ""
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv[:] = words
            sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    listener, launcher = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    if listener not in select.select([listener, sys.stdin], [], [])[0]:
        sys.exit()  # a test run without commands
    import_module("warm_imports").load()
    sys.executable = launcher
    Forks(listener).serve()
