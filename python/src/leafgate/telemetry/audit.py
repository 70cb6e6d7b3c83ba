"""The audit file: one JSON line per request, each chained to the one before by its hash; writing it, and checking it.

A line says who called what and how it ended, and never what was in it. Its last field, `hash`, is the sha256 of the
hash of the line before and of the rest of this line, so that a line cannot be changed, removed or moved unnoticed.
A person who can write the file can also make a new chain: the last hash, kept elsewhere, shows that.

A separate thread writes, so that a slow disk delays no request. Lines that could not be written are counted, and the
next line that can be written says how many. A file that has reached its size is renamed to `PATH.1`, `PATH.1` to
`PATH.2`, and so on; its successor begins with the last hash of the file before.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import logging
import os
import queue
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from leafgate.model.errors import ConfigError
from leafgate.model.request import Served
from leafgate.ports import CallEnd
from leafgate.telemetry.counters import label

try:
    import fcntl
except ImportError:  # Windows: the file is not locked there
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("leafgate.audit")

Record = dict[str, Any]

ZERO: Final = "0" * 64  # stands for the hash before the first line
MAX_LINE: Final = 65_536
MOST_WAITING: Final = 10_000
MOST_REFUSALS: Final = 60  # lines a minute: callers without a token must not push out the lines of calls
CLOSING_SECONDS: Final = 5.0
OPENED: Final = "opened"
CLOSED: Final = "closed"
_SEALED: Final = re.compile(rb'(\{.*),"hash":"([0-9a-f]{64})"\}\n')


def seal(record: Record, previous: str) -> tuple[bytes, str]:
    """The line of a record, and its hash."""
    body = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()
    digest = hash_body(body, previous)
    return body[:-1] + b',"hash":"' + digest.encode() + b'"}\n', digest


def hash_body(body: bytes, previous: str) -> str:
    return hashlib.sha256(previous.encode() + body).hexdigest()


def unseal(line: bytes) -> tuple[bytes, str] | None:
    """The body of a line and the hash that it states; None if it is not a whole line of an audit file."""
    match = _SEALED.fullmatch(line)
    return None if match is None else (match[1] + b"}", match[2].decode())


def audited_files(path: Path) -> list[Path]:
    """The file and those that were rotated, oldest first."""
    numbers = [
        int(suffix)
        for each in path.parent.glob(f"{_escape(path.name)}.*")
        if (suffix := each.name.removeprefix(f"{path.name}.")).isdecimal() and suffix.isascii()
    ]
    files = [rotated(path, number) for number in sorted(numbers, reverse=True)]
    return [*files, path] if path.exists() else files


def rotated(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _escape(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


# Writing


class AuditFile:
    """Implements AuditLog. `max_bytes` is the size of one file; so many rotated files stay as `keep` says."""

    def __init__(self, path: Path, *, max_bytes: int, keep: int, clock: Callable[[], float] = time.time) -> None:
        """Opens the file. ConfigError if it cannot be written, or another process writes it."""
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._clock = clock
        self._waiting: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._overflow = 0  # counted by the callers' thread alone, as `_lost` is by the writer: neither needs a lock
        self._overflow_reported = 0
        self._lost = 0
        self._fails = False
        self._refusals: tuple[float, int] = (0.0, 0)  # the start of the present minute, and how many it has
        self._skipped = 0
        try:
            self._lock = _lock(path)
            place = _find_end(path)
            self._previous, self._number = place.digest, place.number
            self._open(reason="start", partial=place.junk)
        except OSError as error:
            raise ConfigError(f"audit: {path} cannot be written: {error.strerror}") from None
        self._writer = threading.Thread(target=self._write_all, name="audit", daemon=True)
        self._writer.start()

    def call(self, served: Served, end: CallEnd, seconds: float) -> None:
        fields = {
            "event": "call",
            "correlation_id": served.correlation_id,
            "principal": label(served.principal or ""),
            "client": label(served.client_name),
            "operation": label(served.operation),
            "server": label(served.server),
            "tool": label(served.tool),
            "outcome": end or "ok",
            "ms": round(1000 * seconds, 1),
            "tokens_in": served.tokens_in,
            "tokens_out": served.tokens_out,
            "approval": served.approval,
            "denied_by": served.denied_by,
            "cut": dict(served.cut),
            "removed": dict(served.removed),
            "redacted": dict(served.redacted),
            "flagged": dict(served.flagged),
            "flows": [*served.flows],
        }
        self._hand_over({name: value for name, value in fields.items() if value not in (None, "", {}, [])})

    def refused(self, principal: str | None, where: str, reason: str) -> None:
        start, times = self._refusals
        now = self._clock()
        if not 0 <= now - start < 60:
            start, times = now, 0
        self._refusals = start, times + 1
        if times >= MOST_REFUSALS:
            self._skipped += 1
            return
        fields: Record = {
            "event": "refused",
            "principal": label(principal or ""),
            "where": label(where),
            "reason": reason,
        }
        fields["skipped"], self._skipped = self._skipped, 0
        self._hand_over({name: value for name, value in fields.items() if value})

    def close(self) -> None:
        """Write the waiting lines, and close the file; waits a bounded time."""
        self._hand_over({"event": CLOSED} | ({"skipped_refusals": self._skipped} if self._skipped else {}))
        self._waiting.put(None)
        self._writer.join(CLOSING_SECONDS)
        if self._writer.is_alive():
            log.error("the last lines of the audit file are not written: the disk is too slow")

    def _hand_over(self, fields: Record) -> None:
        if self._waiting.qsize() >= MOST_WAITING:
            self._overflow += 1
            return
        self._waiting.put({"time": _now(self._clock), **fields})

    # The rest runs in the writer's thread, except the first call of _open.

    def _write_all(self) -> None:
        while (record := self._waiting.get()) is not None:
            try:
                self._write(record)
                if self._fails:
                    self._fails = False
                    log.warning("the audit file %s can be written again", self._path)
            except OSError as error:
                self._lost += 1
                if not self._fails:
                    self._fails = True
                    log.error("the audit file %s cannot be written, and calls go on: %s", self._path, error.strerror)
            except Exception:
                self._lost += 1
                log.exception("a line of the audit file cannot be made")
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)
        os.close(self._lock)

    def _write(self, record: Record) -> None:
        more = self._overflow - self._overflow_reported
        if self._lost or more:
            self._append({"time": record["time"], "event": "lost", "lines": self._lost + more})
            self._lost, self._overflow_reported = 0, self._overflow_reported + more
        self._append(record)

    def _append(self, record: Record) -> None:
        """Write one line whole, or nothing of it."""
        if self._size >= self._max_bytes:
            self._rotate()
        line, digest = seal({"n": self._number + 1, **record}, self._previous)
        size = os.write(self._file, line)
        if size < len(line):  # a disk that is full takes a part
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += size
        self._previous, self._number = digest, self._number + 1

    def _rotate(self) -> None:
        """Put the file aside. If it cannot be renamed, it grows further, and the next line tries again."""
        os.fsync(self._file)
        for old in audited_files(self._path):
            if old == self._path:
                continue
            number = int(old.name.rpartition(".")[2])
            if number >= self._keep:
                old.unlink()
            else:
                old.rename(rotated(self._path, number + 1))
        with suppress(FileNotFoundError):  # it was removed: the numbers of the lines show that
            self._path.rename(rotated(self._path, 1))
        before = self._file
        try:
            self._open(reason="rotation")
        except BaseException:
            rotated(self._path, 1).rename(self._path)
            raise
        os.close(before)

    def _open(self, *, reason: str, partial: bytes = b"") -> None:
        """Open the file, for its owner alone, and no other file that a link might lead to; and write its first line."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        file = os.open(self._path, flags, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise ConfigError(f"audit: {self._path} is not a regular file")
            if hasattr(os, "fchmod"):
                os.fchmod(file, 0o600)
            header: Record = {"n": self._number + 1, "time": _now(self._clock), "event": OPENED, "reason": reason}
            header |= {"version": 1, "previous": self._previous}
            if partial:
                log.warning("%s ends within a line: an earlier gateway was killed, or its disk was full", self._path)
                header["partial_line"] = hashlib.sha256(partial).hexdigest()
            line, digest = seal(header, self._previous)
            gap = b"\n" if partial and not partial.endswith(b"\n") else b""
            if os.write(file, gap + line) < len(gap + line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._size = os.fstat(file).st_size
        except BaseException:
            os.close(file)
            raise
        self._file = file
        self._previous, self._number = digest, self._number + 1


@contextmanager
def auditing(path: Path, *, max_bytes: int, keep: int) -> Iterator[AuditFile]:
    """An audit file that is open inside this context. ConfigError if it cannot be opened."""
    audit = AuditFile(path, max_bytes=max_bytes, keep=keep)
    try:
        yield audit
    finally:
        audit.close()


def _now(clock: Callable[[], float]) -> str:
    return datetime.fromtimestamp(clock(), UTC).isoformat(timespec="milliseconds")


def _lock(path: Path) -> int:
    """Lock the file until this process ends, so that no other one writes it. The lock file is not rotated."""
    name = path.with_name(f"{path.name}.lock")
    file = os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(file, 20).decode("ascii", "replace").strip()
        os.close(file)
        message = f"audit: another gateway{f' (process {owner})' * owner.isdecimal()} writes {path}; give each its own"
        raise ConfigError(message) from None
    os.ftruncate(file, 0)
    os.write(file, str(os.getpid()).encode())
    return file


@dataclass(frozen=True)
class _End:
    """Where a chain goes on: the last hash and its line's number, and bytes after it that are not a line."""

    digest: str = ZERO
    number: int = 0
    junk: bytes = b""


def _find_end(path: Path) -> _End:
    """The end of the newest file that has anything in it. Only its last lines are read."""
    for file in reversed(audited_files(path)):
        with file.open("rb") as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(max(0, size - 2 * MAX_LINE))
            tail = source.read()
        if not tail:
            continue
        lines = io.BytesIO(tail).readlines()
        for place in range(len(lines) - 1, -1, -1):
            parts = unseal(lines[place])
            if parts is not None:
                number = _record(parts[0]).get("n")
                junk = b"".join(lines[place + 1 :]) if file == path else b""
                return _End(parts[1], number if isinstance(number, int) else 0, junk)
        if size > MAX_LINE or not tail.startswith(b'{"n":'):  # else an earlier gateway was killed in its first line
            raise ConfigError(f"audit: {file} has other content than an audit file; choose another path")
        return _End(junk=tail if file == path else b"")
    return _End()


def _record(body: bytes) -> Record:
    try:
        record = json.loads(body)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


# Checking


@dataclass(frozen=True)
class Problem:
    """Where the chain breaks, and how."""

    file: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass
class Verification:
    """The result of checking a chain. `notes` are not breaks: a crash or a rotation causes them."""

    files: Sequence[Path]
    lines: int = 0
    first_time: str = ""
    last_time: str = ""
    last_hash: str = ""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify(path: Path, contains: str | None = None) -> Verification:
    """Check the chain over a file and those that were rotated. ConfigError if there is none, OSError if unreadable.

    With `contains`, a hash that was kept elsewhere, the chain must have a line with it.
    """
    files = _files_to_read(path)
    check = _Check(Verification(files), contains)
    for file in files:
        with file.open("rb") as source:
            check.read(file, source)
    return check.finish(path)


def read_records(path: Path) -> Iterator[Record]:
    """The records of all files, oldest first; what is not a line of an audit file is left out. Raises as `verify`."""
    for file in _files_to_read(path):
        with file.open("rb") as source:
            while line := source.readline(MAX_LINE):
                parts = unseal(line)
                if parts is not None:
                    yield _record(parts[0])


def _files_to_read(path: Path) -> list[Path]:
    files = audited_files(path)
    if not files:
        raise ConfigError(f"{path}: no such audit file")
    return files


class _Check:
    """A check that reads line by line. `_junk` are the bytes since the last line, and where they began."""

    def __init__(self, result: Verification, contains: str | None) -> None:
        self._result = result
        self._contains = contains
        self._previous: str | None = None  # of the line before; None before the first
        self._number = 0
        self._record: Mapping[str, Any] = {}
        self._junk = b""
        self._junk_at = (result.files[0], 0)

    def read(self, file: Path, source: Any) -> None:
        at = 0
        is_new_line = True
        while line := source.readline(MAX_LINE):
            at += is_new_line
            is_new_line = line.endswith(b"\n")
            parts = unseal(line)
            if parts is None:
                self._junk_at = self._junk_at if self._junk else (file, at)
                self._junk = (self._junk + line)[: 4 * MAX_LINE]
                continue
            self._take(file, at, *parts)

    def _take(self, file: Path, at: int, body: bytes, digest: str) -> None:
        record, result = _record(body), self._result
        is_header = record.get("event") == OPENED
        self._end_junk(record)
        number, previous = record.get("n"), self._previous
        stated = str(record.get("previous")) if is_header else previous
        expected = self._number + 1
        if previous is None and not is_header:
            self._report(file, at, "the first line is not one that opens a file: lines before it are missing")
        elif previous is not None and number != expected and isinstance(number, int):
            missing = f"lines {expected} to {number - 1} are missing" if number > expected else "it is out of order"
            self._report(file, at, f"has the number {number} in place of {expected}: {missing}")
        elif previous is not None and stated != previous:
            self._report(file, at, "a new chain begins here, which does not continue the line before")
        elif stated is not None and hash_body(body, stated) != digest:
            self._report(file, at, "its hash is wrong: this line was changed, or the hash of the line before")
        if previous is None and is_header and stated != ZERO:
            result.notes.append(f"{file}: earlier files are not here; the first line has the number {number}")
        self._previous, self._number, self._record = digest, number if isinstance(number, int) else expected, record
        result.lines += 1
        result.first_time = result.first_time or str(record.get("time", ""))
        result.last_time, result.last_hash = str(record.get("time", "")), digest
        if digest == self._contains:
            self._contains = None

    def _end_junk(self, record: Record) -> None:
        """Judge the bytes before this line: a partial line that the next start named is not a break."""
        junk, self._junk = self._junk, b""
        if not junk:
            return
        file, at = self._junk_at
        digests = {hashlib.sha256(each).hexdigest() for each in (junk, junk.removesuffix(b"\n"))}
        if record.get("event") == OPENED and record.get("partial_line") in digests:
            self._result.notes.append(f"{file}:{at}: a partial line, which the next start of a gateway found and named")
        else:
            self._report(file, at, "is not a whole line of an audit file")

    def _report(self, file: Path, at: int, message: str) -> None:
        self._result.problems.append(Problem(file, at, message))

    def finish(self, path: Path) -> Verification:
        result = self._result
        self._end_junk({})
        if not result.lines and not result.problems:
            self._report(path, 1, "the file is empty")
        elif self._record.get("event") != CLOSED:
            result.notes.append("the last line does not close the file: a gateway writes it, or was killed")
        if self._contains is not None:
            self._report(path, 0, f"no line has the hash {self._contains}")
        return result
