"""Finds maps on disk and loads each at most once. In: an id, a path or a digest. Out: a ready Encoder.

Touches files: the folders of LEAFGATE_MAPS, the checkout's maps/, the maps inside the wheel. Never the network.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leafgate.model.errors import MapError, MapInvalidError, MapUnreachableError
from leafgate.model.leaf import is_digest, parse_digest
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.token_map import MAX_MAP_BYTES, read_map

CARD_MAP: Final = "openai/cl100k_base"
_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[2]


@dataclass(frozen=True)
class MapEntry:
    """A map that a folder's index lists."""

    id: str
    digest: str | None
    path: Path
    bytes: int
    source: str
    licence: str


def default_folders() -> tuple[Path, ...]:
    """Where maps are looked for, in this order."""
    configured = [Path(p) for p in os.environ.get("LEAFGATE_MAPS", "").split(os.pathsep) if p]
    return (*configured, _CHECKOUT / "maps", _PACKAGE / "maps")


class MapFiles:
    """The maps of some folders, by id, short id or digest; one load per digest however many threads ask."""

    def __init__(self, folders: Iterable[Path] | None = None) -> None:
        found: dict[str, MapEntry] = {}
        for folder in default_folders() if folders is None else folders:
            for entry in _list_folder(folder):
                found.setdefault(entry.id, entry)
        self._entries = found
        self._loaded: dict[Path, Encoder] = {}
        self._lock = threading.Lock()

    def list(self) -> list[MapEntry]:
        return sorted(self._entries.values(), key=lambda entry: entry.id)

    def find(self, name: str) -> MapEntry:
        """By id, by the part behind the slash, by digest, or by the path of a file."""
        if is_digest(name):
            matches = [e for e in self._entries.values() if e.digest == parse_digest(name)]
        else:
            matches = [e for e in self._entries.values() if name in (e.id, e.id.rpartition("/")[2])]
        exact = [e for e in matches if e.id == name] or matches
        if len(exact) == 1:
            return exact[0]
        if exact:
            raise MapUnreachableError(f"{name!r} is ambiguous: {', '.join(e.id for e in exact)}")
        path = Path(name)
        if path.is_file():
            return MapEntry(name, None, path, path.stat().st_size, "a file", "")
        known = ", ".join(sorted(self._entries)) or "none"
        raise MapUnreachableError(f"no map {name!r}; known maps: {known}; a path to a map file works too")

    def load(self, name: str) -> Encoder:
        """The encoder of a map, checked against the digest that its index gives."""
        entry = self.find(name)
        with self._lock:
            if entry.path not in self._loaded:
                self._loaded[entry.path] = _load(entry)
            return self._loaded[entry.path]


def _load(entry: MapEntry) -> Encoder:
    raw = read_bounded(entry.path, MAX_MAP_BYTES)
    return make_encoder(read_map(raw, where=str(entry.path), expected_digest=entry.digest))


def read_bounded(path: Path, limit: int) -> bytes:
    """A file's bytes. MapUnreachableError where it cannot be read, or is larger than the limit."""
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as error:
        raise MapUnreachableError(f"{path}: {error.strerror}") from None
    if len(raw) > limit:
        raise MapUnreachableError(f"{path}: larger than the limit of {limit} bytes")
    return raw


def _list_folder(folder: Path) -> list[MapEntry]:
    index = folder / "index.json"
    return [_entry(folder, listed) for listed in _read_index(index)] if index.is_file() else []


def _read_index(index: Path) -> list[dict[str, Any]]:
    try:
        listed = json.loads(read_bounded(index, 1024 * 1024))["maps"]
    except (ValueError, KeyError, TypeError):
        raise MapInvalidError(f"{index}: not an index of maps") from None
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise MapInvalidError(f"{index}: not an index of maps")
    return listed


def _entry(folder: Path, listed: dict[str, Any]) -> MapEntry:
    try:
        return MapEntry(
            id=str(listed["id"]),
            digest=parse_digest(listed["sha256"]),
            path=folder / str(listed["file"]),
            bytes=int(listed["bytes"]),
            source=str(listed.get("source", "")),
            licence=str(listed.get("licence", "")),
        )
    except (KeyError, ValueError, MapError) as error:
        raise MapInvalidError(f"{folder / 'index.json'}: bad entry ({error})") from None
