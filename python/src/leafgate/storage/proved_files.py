"""Opens files that are known to have a digest. In: a path and a digest. Out: an open file, or why it is not believed.

Touches those files. A file is hashed once, and again only when it is no longer the same file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Final

from leafgate.model.errors import MapHashMismatchError, MapUnreachableError

_CHUNK: Final = 1024 * 1024

_Identity = tuple[int, int, int, int]


class ProvedFiles:
    """Remembers which files were hashed, by what the disk says of them."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._proved: dict[tuple[Path, str], _Identity] = {}

    def prove(self, path: Path, digest: str) -> None:
        """Reads the whole file. MapHashMismatchError or MapUnreachableError where it is not what it should be."""
        with _open(path) as file:
            identity = _identity(file)
            found = self._digest(file, path)
        if found != digest:
            raise MapHashMismatchError(str(path), digest, found)
        self._proved[path, digest] = identity

    def open(self, path: Path, digest: str) -> BinaryIO | None:
        """The file, if it is still the one that was proved to have this digest."""
        try:
            file = _open(path)
        except MapUnreachableError:
            return None
        if self._proved.get((path, digest)) == _identity(file):
            return file
        file.close()
        return None

    def _digest(self, file: BinaryIO, path: Path) -> str:
        hashed = hashlib.sha256()
        size = 0
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            if size > self._max_bytes:
                raise MapUnreachableError(f"{path}: larger than the limit of {self._max_bytes} bytes")
            hashed.update(chunk)
        return f"sha256:{hashed.hexdigest()}"


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise MapUnreachableError(f"{path}: {error.strerror}") from None


def _identity(file: BinaryIO) -> _Identity:
    stat = os.fstat(file.fileno())
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
