"""Change a client's configuration file: preview the change, apply it with a backup, undo it.

A change to the disk is made completely or not at all, and keeps the file's mode unless it becomes private.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.syntax import Syntax

from leafgate.cli.client_files import format_of, is_blank, read_text
from leafgate.compose.secrets import hide, secrets_in
from leafgate.config.document import PARSERS
from leafgate.config.formats import Malformed
from leafgate.model.errors import ConfigError

PRIVATE: Final = 0o600
_BACKUP: Final = ".leafgate-backup-"
_UNDONE: Final = ".leafgate-undone-"
_STAMP: Final = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True)
class FileChange:
    """The text of a file before and after; `before` is None for a new file. `private`: readable by its owner only."""

    path: Path
    before: str | None
    after: str
    private: bool = False

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


def preview(change: FileChange) -> str:
    """Return a unified diff of the texts, with secrets hidden."""
    texts, kind = [change.before or "", change.after], format_of(change.path)
    try:
        values = [PARSERS[kind](text).value for text in texts if not is_blank(text)]
    except Malformed:
        return f"{change.path}: its content is not {kind.upper()}, so a preview could show secrets"
    secrets = secrets_in(values)
    old, new = (hide(text, secrets, is_json=kind == "json").splitlines() for text in texts)
    return "\n".join(difflib.unified_diff(old, new, f"{change.path} (now)", f"{change.path} (then)", lineterm=""))


def apply_all(changes: Sequence[FileChange], now: datetime) -> list[Path | None]:
    """Make all changes or none. Return the backup of each file; None for a new file."""
    for change in changes:
        _refuse_unless_possible(change)
    done: list[tuple[FileChange, Path | None]] = []
    try:
        for change in changes:
            done.append((change, _apply(change, now)))  # noqa: PERF401  changes so far are undone if the next one fails
    except ConfigError:
        for earlier, backup in reversed(done):
            with contextlib.suppress(OSError):
                earlier.path.unlink() if backup is None else os.replace(backup, earlier.path)
        raise
    return [backup for _, backup in done]


def _apply(change: FileChange, now: datetime) -> Path | None:
    if change.before is None:
        try:
            change.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{change.path.parent}: cannot be created: {error.strerror}") from None
        _write(change.path, change.after, PRIVATE)
        return None
    mode = PRIVATE if change.private else stat.S_IMODE(change.path.stat().st_mode)
    backup = _save_copy(change.path, _BACKUP, change.before, mode, now)
    _write(change.path, change.after, mode)
    return backup


def backups(path: Path) -> tuple[Path, ...]:
    """Return the backups of a file, oldest first."""
    shape = re.compile(re.escape(path.name + _BACKUP) + r"\d{8}T\d{6}\.\d{6}Z")
    return tuple(sorted(file for file in path.parent.iterdir() if shape.fullmatch(file.name)))


def undo_change(file: Path) -> tuple[FileChange, Path]:
    """Return the change that restores a file's latest backup, and that backup."""
    path = file.resolve()
    copies = backups(path) if path.parent.is_dir() else ()
    if not copies:
        raise ConfigError(f"{path}: leafgate has made no backup of it")
    now = read_text(path) if path.exists() else None
    return FileChange(path, now, read_text(copies[-1])), copies[-1]


def undo(change: FileChange, backup: Path, now: datetime) -> Path | None:
    """Restore the file, and return the file that now holds its previous content."""
    _refuse_unless_possible(change)
    mode = stat.S_IMODE(backup.stat().st_mode)
    copy = None if change.before is None else _save_copy(change.path, _UNDONE, change.before, mode, now)
    _write(change.path, change.after, mode)
    backup.unlink()
    return copy


def _refuse_unless_possible(change: FileChange) -> None:
    """Raise ConfigError if the file differs from the preview (clients write their files too) or is read-only."""
    path = change.path
    if change.before is None:
        if path.exists():
            raise ConfigError(f"{path}: was created meanwhile; nothing was written, run the command again")
        return
    if not path.exists() or read_text(path) != change.before:
        raise ConfigError(f"{path}: has changed meanwhile; nothing was written, run the command again")
    if not path.stat().st_mode & stat.S_IWUSR:
        raise ConfigError(f"{path}: is read-only; nothing was written (chmod u+w allows it)")


def _save_copy(path: Path, suffix: str, text: str, mode: int, now: datetime) -> Path:
    backup = path.with_name(f"{path.name}{suffix}{now.strftime(_STAMP)}")
    _write(backup, text, mode)
    return backup


def _write(path: Path, text: str, mode: int) -> None:
    """Write beside the file and then replace it: no reader sees half a file."""
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


YES_OPTION = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
DRY_RUN_OPTION = click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")


def confirm(change: FileChange, *, yes: bool, dry_run: bool, quiet: bool) -> bool:
    """Show the change and ask; return False for a dry run, and raise Abort if the user refuses.

    `quiet` leaves standard output to JSON and writes to standard error.
    """
    console, diff = Console(stderr=quiet, highlight=False, soft_wrap=True), preview(change)
    if console.is_terminal:
        console.print(Syntax(diff, "diff", background_color="default"))
    else:
        console.print(diff, markup=False)
    if dry_run:
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("nothing was changed: confirming needs a terminal; --yes skips the question")
    return click.confirm("Make this change?", abort=True, err=quiet)
