"""Reads a small file of text that a configuration names. In: a path. Out: its text, or words for what is wrong with it.

Touches the file. Says nothing of its content, which may be a secret.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 64 * 1024


class Unreadable(Exception):
    """The file gives no text; the message says why."""


def read_small_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:  # a NUL in the path
        raise Unreadable("cannot be read: not a path") from None
    if len(raw) > MAX_FILE_BYTES:
        raise Unreadable(f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("is not UTF-8 text") from None
