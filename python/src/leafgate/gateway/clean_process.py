"""Cleaning large texts in a process of their server's own, with a limit on its CPU time.

A thread would not do: it shares the interpreter with all requests, and a search that takes long cannot be ended. The
process has a low priority, and a timer of the kernel ends it at the limit; then the text counts as not cleaned, and is
not shown. It starts with the first large text of a server and ends after a while without one.
"""

from __future__ import annotations

import logging
import marshal
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import IO, Any, Final

from leafgate.clean.cleaner import Cleaner
from leafgate.clean.result import Cleaned, CleaningReport, CleaningTimeout

log = logging.getLogger("leafgate.gateway")

DEFAULT_SECONDS: Final = 10.0
# In bytes. So many take 3 ms to clean and 1 ms to send there and back. The worst text took 80 ms.
PROCESS_FROM: Final = 128 * 1024
IDLE_SECONDS: Final = 30.0
NICENESS: Final = 10
# A process that gets no CPU time, or hangs, is ended after so many times the limit.
WALL_FACTOR: Final = 20.0

_JOB: Final = struct.Struct(">dQQ")  # seconds of CPU time; bytes of the cleaner, and of the value
_ANSWER: Final = struct.Struct(">Q")
_Results = tuple[Any, bool, dict[str, int], dict[str, int], dict[str, int]]


class _ProcessLost(Exception):
    """The process ended for another reason than its limit."""


@dataclass(frozen=True)
class LimitedCleaner(Cleaner):
    """A cleaner that hands large texts and values to a process. Raises CleaningTimeout at the limit."""

    process: CleanProcess | None = field(default=None, compare=False, repr=False)

    def text(self, text: str) -> Cleaned[str]:
        is_small = self.process is None or len(text) < PROCESS_FROM
        return super().text(text) if is_small else self._run("text", text)

    def json(self, value: Any) -> Cleaned[Any]:
        is_small = self.process is None or _is_small(value)
        return super().json(value) if is_small else self._run("json", value)

    @cached_property
    def _pickled(self) -> bytes:
        # New policies: those in use have search tables with them.
        return pickle.dumps(Cleaner(**{name: replace(policy) for name, policy in _policies(self).items()}))

    def _run(self, method: str, value: Any) -> Cleaned[Any]:
        assert self.process is not None
        try:
            work = marshal.dumps((method, value))
            new, has_changed, *counts = self.process.clean(self._pickled, work)
        except (_ProcessLost, OSError, ValueError) as error:
            log.warning("the process for cleaning cannot be used (%s); a text is cleaned without it", error)
            return super().text(value) if method == "text" else super().json(value)
        report = CleaningReport(*counts)
        return Cleaned(new if has_changed else value, report) if any(counts) else Cleaned(value)


def _policies(cleaner: Cleaner) -> dict[str, Any]:
    return {each.name: getattr(cleaner, each.name) for each in fields(Cleaner)}


def _is_small(value: Any) -> bool:
    """Whether a JSON value has fewer bytes than PROCESS_FROM. What is beyond is not looked at."""
    size, rest = 0, [value]
    while rest and size < PROCESS_FROM:
        item = rest.pop()
        size += len(item) if isinstance(item, str) else 8
        if isinstance(item, dict):
            rest += item
            rest += item.values()
        elif isinstance(item, list | tuple):
            rest += item
    return size < PROCESS_FROM


class CleanProcess:
    """The process of one server. Its texts are cleaned one after another; callers wait in threads of that server."""

    def __init__(self, seconds: float = DEFAULT_SECONDS) -> None:
        self.seconds = seconds
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The id of the process; None before it has started."""
        return None if self._child is None else self._child.pid

    def clean(self, cleaner: bytes, work: bytes) -> _Results:
        """The result of one job. CleaningTimeout at the limit; _ProcessLost or OSError if there is no process."""
        with self._turn:
            for is_last_try in (False, True):
                try:
                    return self._clean_once(cleaner, work)
                except (_ProcessLost, BrokenPipeError):  # it may just have ended, after a while without work
                    self.stop()
                    if is_last_try:
                        raise
        raise AssertionError

    def _clean_once(self, cleaner: bytes, work: bytes) -> _Results:
        child = self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        for part in (_JOB.pack(self.seconds, len(cleaner), len(work)), cleaner, work):
            child.stdin.write(part)
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], self.seconds * WALL_FACTOR)
        answer = _read(child.stdout, _ANSWER.size) if ready else b""
        if len(answer) == _ANSWER.size:
            (size,) = _ANSWER.unpack(answer)
            results: _Results = marshal.loads(_read(child.stdout, size))
            return results
        if not ready:
            child.kill()
        code = child.wait()
        self.stop()
        if not ready or code == -signal.SIGPROF:
            raise CleaningTimeout(self.seconds)
        raise _ProcessLost(f"exit code {code}")

    def _start(self) -> subprocess.Popen[bytes]:
        if self._is_closed:
            raise CleaningTimeout(self.seconds)
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.stop()
        if not sys.executable or sys.platform == "win32":
            raise _ProcessLost("not on this platform")
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self._child

    def close(self) -> None:
        """End the process for good. A text that is being cleaned counts as not cleaned."""
        self._is_closed = True
        child = self._child
        if child is not None:
            child.kill()

    def stop(self) -> None:
        """End the process. The next text starts another."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        child.wait()


class CleanProcesses:
    """The processes of all servers, by their names."""

    def __init__(self, seconds: float = DEFAULT_SECONDS) -> None:
        self.seconds = seconds
        self._processes: dict[str, CleanProcess] = {}

    def limit(self, server: str, cleaner: Cleaner) -> LimitedCleaner:
        """A cleaner for a server, with that server's process for large texts."""
        process = self._processes.get(server)
        if process is None:
            process = self._processes[server] = CleanProcess(self.seconds)
        process.seconds = self.seconds
        return LimitedCleaner(**_policies(cleaner), process=process)

    def close(self) -> None:
        """End all processes for good."""
        for process in self._processes.values():
            process.close()


# In the process


def _read(source: IO[bytes], size: int) -> bytes:
    """So many bytes, or fewer at the end of the stream."""
    parts = []
    while size and (part := source.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def serve(source: IO[bytes], target: IO[bytes]) -> None:
    """Do jobs until the source ends, or nothing comes for a while."""
    pickled, cleaner = b"", Cleaner()
    while select.select([source], [], [], IDLE_SECONDS)[0]:
        head = _read(source, _JOB.size)
        if len(head) < _JOB.size:
            return
        seconds, cleaner_size, size = _JOB.unpack(head)
        given, work = _read(source, cleaner_size), _read(source, size)
        if given != pickled:
            pickled, cleaner = given, pickle.loads(given)
        method, value = marshal.loads(work)
        del work
        signal.setitimer(signal.ITIMER_PROF, seconds)
        result = cleaner.text(value) if method == "text" else cleaner.json(value)
        signal.setitimer(signal.ITIMER_PROF, 0)
        report, has_changed = result.report, result.value is not value
        counts = (dict(report.removed), dict(report.redacted), dict(report.flagged))
        answer = marshal.dumps((result.value if has_changed else None, has_changed, *counts))
        for part in (_ANSWER.pack(len(answer)), answer):
            target.write(part)
        target.flush()
        del value, result, answer


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, for the gateway, which then ends this process
    os.nice(NICENESS)
    with suppress(BrokenPipeError):
        # Without buffers: `select` does not see what is in one.
        serve(os.fdopen(0, "rb", buffering=0, closefd=False), os.fdopen(1, "wb", closefd=False))
