"""Work on what one server sends, in a process of that server's own, with a limit on its CPU time.

Large texts and values are cleaned there, large results are also screened, and many definitions are scanned. A thread
would not do: it shares the interpreter with all requests, and a search that takes long cannot be ended. The process has
a low priority, and a timer of the kernel ends it at the limit; then a text counts as not cleaned, and is not shown. It
starts with the first work for a server and ends after a while without any.
"""

from __future__ import annotations

import logging
import marshal
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final

from leafgate.catalog.scan import Scan, scan_definition
from leafgate.catalog.tool_names import OtherNames, ToolNames
from leafgate.clean.cleaner import Cleaner
from leafgate.clean.result import Cleaned, CleaningTimeout
from leafgate.digest.screen import ScreenedResult, screen

log = logging.getLogger("leafgate.gateway")

DEFAULT_SECONDS: Final = 10.0
# In bytes. So many take 3 ms to clean and 1 ms to send there and back. The worst text took 80 ms.
PROCESS_FROM: Final = 128 * 1024
IDLE_SECONDS: Final = 30.0
NICENESS: Final = 10
# A process that gets no CPU time, or hangs, is ended after so many times the limit.
WALL_FACTOR: Final = 20.0

MOST_TIMEOUTS: Final = 3  # of the texts of one result; then none of its other large texts is cleaned

_JOB: Final = struct.Struct(">dQQ")  # seconds of CPU time; bytes of the cleaner, and of the work
_FRAME: Final = struct.Struct(">cQ")  # what the process sends: its kind, and its bytes
_NUMBER: Final = struct.Struct(">Q")
_RESULT: Final = b"r"
_COUNT: Final = b"c"  # a text whose tokens the gateway counts, which has the maps
_BEGIN: Final = b"b"  # the number of the large text whose cleaning begins

Count = Callable[[str], int]
ScanRecord = tuple[Scan, OtherNames]


class _ProcessLost(Exception):
    """The process ended for another reason than its limit."""


class _TextTimeout(CleaningTimeout):
    """The limit was reached in the cleaning of the large text of this number."""

    def __init__(self, seconds: float, number: int) -> None:
        super().__init__(seconds)
        self.number = number


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

    def screen(
        self, blocks: Sequence[Mapping[str, Any]], structured: Any, *, count: Count, **options: Any
    ) -> ScreenedResult:
        """`screen` with this cleaner: of a large result in the process, which asks for the tokens of texts."""
        skipped: list[int] = []
        is_here = self.process is None or options.get("find_violations") is not None or _is_small([*blocks, structured])
        while not is_here:
            assert self.process is not None
            try:
                work = marshal.dumps(("screen", ([*blocks], structured, options, skipped)))
                result: ScreenedResult = self.process.run(work, self._pickled, count)
                return result
            except _TextTimeout as error:
                skipped.append(error.number)
            except (CleaningTimeout, _ProcessLost, OSError, ValueError) as error:
                log.debug("a result is not screened in the process: %s", error)
                is_here = True
        return screen(blocks, structured, self, count=count, **options)

    @cached_property
    def _pickled(self) -> bytes:
        # New policies: those in use have search tables with them.
        return pickle.dumps(Cleaner(**{name: replace(policy) for name, policy in _policies(self).items()}))

    def _run(self, method: str, value: Any) -> Cleaned[Any]:
        assert self.process is not None
        try:
            has_changed, new, report = self.process.run(marshal.dumps((method, value)), self._pickled)
        except (_ProcessLost, OSError, ValueError) as error:
            log.warning("the process for cleaning cannot be used (%s); a text is cleaned without it", error)
            return super().text(value) if method == "text" else super().json(value)
        return Cleaned(new if has_changed else value, report)


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
    """The process of one server. It does one job after another; callers wait in threads of that server."""

    def __init__(self, seconds: float = DEFAULT_SECONDS) -> None:
        self.seconds = seconds
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The id of the process; None before it has started."""
        return None if self._child is None else self._child.pid

    def scan(self, server: str, definitions: Sequence[Any], names: Mapping[str, Sequence[str]]) -> list[ScanRecord]:
        """The scans of definitions of this server. CleaningTimeout at the limit, OSError if there is no process."""
        try:
            records: list[ScanRecord] = self.run(marshal.dumps(("scan", (server, [*definitions], dict(names)))))
        except (_ProcessLost, ValueError) as error:
            raise OSError(str(error)) from error
        return records

    def run(self, work: bytes, cleaner: bytes = b"", count: Count = len) -> Any:
        """The result of one job. CleaningTimeout at the limit; _ProcessLost or OSError if there is no process."""
        with self._turn:
            for is_last_try in (False, True):
                try:
                    return self._run_once(work, cleaner, count)
                except (_ProcessLost, BrokenPipeError, ConnectionResetError):  # it may just have ended, being idle
                    self.stop()
                    if is_last_try:
                        raise
        raise AssertionError

    def _run_once(self, work: bytes, cleaner: bytes, count: Count) -> Any:
        child, link = self._start()
        for part in (_JOB.pack(self.seconds, len(cleaner), len(work)), cleaner, work):
            link.sendall(part)
        number: int | None = None
        while True:
            is_ready = _wait(link.fileno(), self.seconds * WALL_FACTOR)
            head = _receive(link, _FRAME.size) if is_ready else b""
            if len(head) < _FRAME.size:
                break
            kind, size = _FRAME.unpack(head)
            content = _receive(link, size)
            if kind == _RESULT:
                return pickle.loads(content)
            if kind == _COUNT:
                link.sendall(_NUMBER.pack(count(content.decode("utf-8", "surrogatepass"))))
            else:
                (number,) = _NUMBER.unpack(content)
        if not is_ready:
            child.kill()
        code = child.wait()
        self.stop()
        if is_ready and code != -signal.SIGPROF:
            raise _ProcessLost(f"exit code {code}")
        raise CleaningTimeout(self.seconds) if number is None else _TextTimeout(self.seconds, number)

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if self._is_closed:
            raise CleaningTimeout(self.seconds)
        if self._child is not None and self._link is not None and self._child.poll() is None:
            return self._child, self._link
        self.stop()
        if not sys.executable or sys.platform == "win32":
            raise _ProcessLost("not on this platform")
        # A socket, not pipes: it receives a text of any size in one call, during which other threads run.
        self._link, theirs = socket.socketpair()
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
            )
        return self._child, self._link

    def close(self) -> None:
        """End the process for good. A text that is being cleaned counts as not cleaned."""
        self._is_closed = True
        child = self._child
        if child is not None:
            child.kill()
        if self._turn.acquire(blocking=False):
            self.stop()
            self._turn.release()

    def stop(self) -> None:
        """End the process. The next job starts another."""
        child, self._child = self._child, None
        link, self._link = self._link, None
        if link is not None:
            link.close()
        if child is not None:
            child.kill()
            child.wait()


def _receive(link: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer at the end of the stream."""
    content = link.recv(size, socket.MSG_WAITALL) if size else b""
    while 0 < len(content) < size and (more := link.recv(size - len(content))):  # a signal came in between
        content += more
    return content


def _wait(file: int, seconds: float) -> bool:
    """Whether there is something to read in time. Not by `select`, which knows 1,024 files."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


class CleanProcesses:
    """The processes of all servers, by their names."""

    def __init__(self, seconds: float = DEFAULT_SECONDS) -> None:
        self.seconds = seconds
        self._processes: dict[str, CleanProcess] = {}

    def limit(self, server: str, cleaner: Cleaner) -> LimitedCleaner:
        """A cleaner for a server, with that server's process for large texts."""
        return LimitedCleaner(**_policies(cleaner), process=self.process_of(server))

    def process_of(self, server: str) -> CleanProcess:
        process = self._processes.get(server)
        if process is None:
            process = self._processes[server] = CleanProcess(self.seconds)
        process.seconds = self.seconds
        return process

    def close(self) -> None:
        """End all processes for good."""
        for process in self._processes.values():
            process.close()


# In the process


def lower_priority() -> None:
    """Let all other processes go first.

    Where Linux groups processes by session, a session has a share of the processor, and a process without one of its
    own would take from the gateway's.
    """
    os.nice(NICENESS)
    with suppress(OSError):
        os.setsid()
        Path("/proc/self/autogroup").write_text(str(NICENESS))


def _read(source: IO[bytes], size: int) -> bytes:
    """So many bytes, or fewer at the end of the stream."""
    parts = []
    while size and (part := source.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Link:
    """The way to the gateway during a job, and its limit."""

    def __init__(self, source: IO[bytes], target: IO[bytes], seconds: float) -> None:
        self._source = source
        self._target = target
        self.seconds = seconds

    def send(self, kind: bytes, content: bytes) -> None:
        for part in (_FRAME.pack(kind, len(content)), content):
            self._target.write(part)
        self._target.flush()

    def count(self, text: str) -> int:
        self.send(_COUNT, text.encode("utf-8", "surrogatepass"))
        (tokens,) = _NUMBER.unpack(_read(self._source, _NUMBER.size))
        return int(tokens)

    def begin(self) -> None:
        """Allow the CPU time of the limit from now on."""
        signal.setitimer(signal.ITIMER_PROF, self.seconds)


@dataclass(frozen=True)
class _TimedCleaner(Cleaner):
    """Allows each large text the whole limit, and tells the gateway which one is being cleaned. Those that took too
    long before are skipped."""

    link: _Link | None = None
    skipped: Sequence[int] = ()
    begun: list[int] = field(default_factory=list)

    def text(self, text: str) -> Cleaned[str]:
        return super().text(text) if len(text) < PROCESS_FROM else self._time(super().text, text)

    def json(self, value: Any) -> Cleaned[Any]:
        return super().json(value) if _is_small(value) else self._time(super().json, value)

    def _time(self, clean: Callable[[Any], Cleaned[Any]], value: Any) -> Cleaned[Any]:
        assert self.link is not None
        number = len(self.begun)
        self.begun.append(number)
        if number in self.skipped or len(self.skipped) >= MOST_TIMEOUTS:
            raise CleaningTimeout(self.link.seconds)
        self.link.send(_BEGIN, _NUMBER.pack(number))
        self.link.begin()
        result = clean(value)
        self.link.begin()
        return result


def _do(method: str, value: Any, cleaner: Cleaner, link: _Link) -> Any:
    if method == "screen":
        blocks, structured, options, skipped = value
        timed = _TimedCleaner(**_policies(cleaner), link=link, skipped=skipped)
        return screen(blocks, structured, timed, count=link.count, **options)
    if method == "scan":
        server, definitions, names_by_server = value
        names, records = ToolNames(names_by_server), []
        for definition in definitions:
            others = OtherNames(names, server)
            records.append((scan_definition(definition, others), others.without_names()))
        return records
    result = cleaner.text(value) if method == "text" else cleaner.json(value)
    has_changed = result.value is not value
    return has_changed, result.value if has_changed else None, result.report


def serve(source: IO[bytes], target: IO[bytes]) -> None:
    """Do jobs until the source ends, or nothing comes for a while."""
    pickled, cleaner = b"", Cleaner()
    while _wait(source.fileno(), IDLE_SECONDS):
        head = _read(source, _JOB.size)
        if len(head) < _JOB.size:
            return
        seconds, cleaner_size, size = _JOB.unpack(head)
        given, work = _read(source, cleaner_size), _read(source, size)
        if given and given != pickled:
            pickled, cleaner = given, pickle.loads(given)
        method, value = marshal.loads(work)
        del work
        link = _Link(source, target, seconds)
        link.begin()
        answer = pickle.dumps(_do(method, value, cleaner, link), pickle.HIGHEST_PROTOCOL)
        signal.setitimer(signal.ITIMER_PROF, 0)
        link.send(_RESULT, answer)
        del value, answer


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, for the gateway, which then ends this process
    lower_priority()
    with suppress(BrokenPipeError):
        # Without buffers: `select` does not see what is in one.
        serve(os.fdopen(0, "rb", buffering=0, closefd=False), os.fdopen(1, "wb", closefd=False))
