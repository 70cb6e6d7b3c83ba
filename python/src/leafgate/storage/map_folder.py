"""Puts a map into a folder with an index. In: a map's bytes and names. Out: the entry that the index now has.

Touches that folder. Every state in between is a whole one: a map's file is named after its digest and never
overwritten, and the index is swapped in one step; the one before stays beside it as index.json.bak.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from leafgate.model.errors import ConfigError
from leafgate.model.leaf import digest_of
from leafgate.storage.map_files import MapEntry, is_map_id, list_folder

try:
    import fcntl
except ImportError:  # not everywhere; there two commands at the same moment may undo each other's entry
    fcntl = None  # type: ignore[assignment]

INDEX: Final = "index.json"


def check_map_id(id: str) -> str:
    """The id, if it can be one. ConfigError says what it should look like."""
    if not is_map_id(id):
        raise ConfigError(f"{id[:80]!r} is no id for a map; it looks like owner/name, of letters, digits and . _ -")
    return id


def add_map(
    folder: Path, raw: bytes, *, id: str, source: str, licence: str, replace: bool = False
) -> tuple[MapEntry, bool]:
    """The entry, and whether anything changed. ConfigError where the id is another map's, unless it may be replaced."""
    digest = digest_of(raw)
    file = f"{check_map_id(id)}-{digest.removeprefix('sha256:')[:12]}.json"
    entry = MapEntry(id, digest, folder / file, len(raw), source, licence)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone_in(folder):
            present = list_folder(folder)
            same_id = next((known for known in present if known.id == id), None)
            if same_id is not None and same_id.digest == digest and same_id.path.is_file():
                return same_id, False
            if same_id is not None and same_id.digest != digest and not replace:
                raise ConfigError(f"{folder} has another map {id} ({same_id.digest}); --replace puts this in its place")
            _write(entry.path, raw)
            _write_index(folder, [*(known for known in present if known.id != id), entry])
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror}") from None
    return entry, True


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Two commands at the same moment take turns."""
    with (folder / ".lock").open("w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write_index(folder: Path, entries: list[MapEntry]) -> None:
    index = folder / INDEX
    if index.exists():
        shutil.copyfile(index, folder / f"{INDEX}.bak")
    listed = [_listed(folder, entry) for entry in sorted(entries, key=lambda entry: entry.id)]
    _write(index, (json.dumps({"maps": listed}, indent=2, ensure_ascii=False) + "\n").encode())


def _listed(folder: Path, entry: MapEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "file": entry.path.relative_to(folder).as_posix(),
        "sha256": entry.digest,
        "bytes": entry.bytes,
        "source": entry.source,
        "licence": entry.licence,
    }


def _write(path: Path, raw: bytes) -> None:
    """Beside it first, then renamed, so that no reader meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # maps are no secret, and the gateway may run as another user
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
