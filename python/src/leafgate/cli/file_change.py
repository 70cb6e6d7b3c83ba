"""A change to somebody else's file. In: its text before and after. Out: a preview, then the change, then its undoing.

Touches that file and its backups beside it. A change is made whole or not at all, and keeps the file's mode, unless
it is to be private from now on.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from leafgate.cli.client_files import is_blank, read_text
from leafgate.cli.server_secrets import hide, secrets_in
from leafgate.config.json_text import parse_json
from leafgate.config.parsed import Malformed
from leafgate.model.errors import ConfigError

PRIVATE: Final = 0o600
_BACKUP: Final = ".leafgate-backup-"
_UNDONE: Final = ".leafgate-undone-"
_STAMP: Final = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True)
class FileChange:
    """What a file holds, None if it is not there, and what it is to hold; `private`: for its owner's eyes alone."""

    path: Path
    before: str | None
    after: str
    private: bool = False

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


def preview(change: FileChange) -> str:
    """A unified diff of two JSON texts, in which no secret can be read."""
    texts = [change.before or "", change.after]
    try:
        secrets = frozenset[str]().union(*(secrets_in(parse_json(text).value) for text in texts if not is_blank(text)))
    except Malformed:
        return f"{change.path}: what stands there now is no JSON, so a preview could show secrets"
    old, new = (hide(text, secrets).splitlines() for text in texts)
    return "\n".join(difflib.unified_diff(old, new, f"{change.path} (now)", f"{change.path} (then)", lineterm=""))


def apply_all(changes: Sequence[FileChange], now: datetime) -> list[Path | None]:
    """Makes all changes or none. Says where each file's old content is kept; None where there was none."""
    for change in changes:
        _refuse_unless_possible(change)
    done: list[tuple[FileChange, Path | None]] = []
    try:
        for change in changes:
            done.append((change, _apply(change, now)))  # noqa: PERF401  what is done must be known if the next one fails
    except ConfigError:
        for made, backup in reversed(done):
            _take_back(made, backup)
        raise
    return [backup for _, backup in done]


def _apply(change: FileChange, now: datetime) -> Path | None:
    if change.before is None:
        _create_parents(change.path)
        _write(change.path, change.after, PRIVATE)
        return None
    mode = PRIVATE if change.private else stat.S_IMODE(change.path.stat().st_mode)
    backup = _keep(change.path, _BACKUP, change.before, mode, now)
    _write(change.path, change.after, mode)
    return backup


def _take_back(change: FileChange, backup: Path | None) -> None:
    with contextlib.suppress(OSError):
        change.path.unlink() if backup is None else os.replace(backup, change.path)


def backups(path: Path) -> tuple[Path, ...]:
    """The kept contents of a file, oldest first."""
    shape = re.compile(re.escape(path.name + _BACKUP) + r"\d{8}T\d{6}\.\d{6}Z")
    return tuple(sorted(found for found in path.parent.iterdir() if shape.fullmatch(found.name)))


def undoing(file: Path) -> tuple[FileChange, Path]:
    """The change that takes a file back to its latest backup, and that backup."""
    path = file.resolve()
    kept = backups(path) if path.parent.is_dir() else ()
    if not kept:
        raise ConfigError(f"{path}: there is no backup of it that leafgate made")
    now = read_text(path) if path.exists() else None
    return FileChange(path, now, read_text(kept[-1])), kept[-1]


def undo(change: FileChange, backup: Path, now: datetime) -> Path | None:
    """Takes the file back; what it held until now is kept too, in the file that is returned."""
    _refuse_unless_possible(change)
    mode = stat.S_IMODE(backup.stat().st_mode)
    kept = None if change.before is None else _keep(change.path, _UNDONE, change.before, mode, now)
    _write(change.path, change.after, mode)
    backup.unlink()
    return kept


def _refuse_unless_possible(change: FileChange) -> None:
    """Clients write their files too; what was previewed must still be what stands there."""
    path = change.path
    if change.before is None:
        if path.exists():
            raise ConfigError(f"{path}: has appeared meanwhile; nothing was written, run the command again")
        return
    if not path.exists() or read_text(path) != change.before:
        raise ConfigError(f"{path}: has changed meanwhile; nothing was written, run the command again")
    if not path.stat().st_mode & stat.S_IWUSR:
        raise ConfigError(f"{path}: is read-only; nothing was written (chmod u+w allows it)")


def _create_parents(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path.parent}: cannot be made: {error.strerror}") from None


def _keep(path: Path, suffix: str, text: str, mode: int, now: datetime) -> Path:
    kept = path.with_name(f"{path.name}{suffix}{now.strftime(_STAMP)}")
    _write(kept, text, mode)
    return kept


def _write(path: Path, text: str, mode: int) -> None:
    """Beside it first, then in its place: no reader ever meets half a file."""
    name = ""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
