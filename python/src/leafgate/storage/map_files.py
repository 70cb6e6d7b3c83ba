"""Finds maps on disk and loads each at most once. In: an id, a path or a digest. Out: a ready Encoder.

Touches files: the folders of LEAFGATE_MAPS, the user's own folder, the checkout's maps/, the maps inside the wheel.
Never the network.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from anyio import to_thread

from leafgate.model.errors import MapError, MapInvalidError, MapUnreachableError
from leafgate.model.leaf import is_digest, parse_digest
from leafgate.storage.map_loads import MapLoads
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.token_map import MAX_MAP_BYTES, read_map

CARD_MAP: Final = "openai/cl100k_base"
MAX_ID_CHARS: Final = 200
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*", re.ASCII)
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


class Named(Protocol):
    """Anything that has a map's two names."""

    @property
    def id(self) -> str: ...

    @property
    def digest(self) -> str | None: ...


AnyNamed = TypeVar("AnyNamed", bound=Named)


def is_map_id(id: str) -> bool:
    """Whether it can be a file's name on any disk, a path in a URL, and a word in a log."""
    return len(id) <= MAX_ID_CHARS and _ID.fullmatch(id) is not None


def default_folders() -> tuple[Path, ...]:
    """Where maps are looked for, in this order."""
    return (*_configured_folders(), _data_folder(), _CHECKOUT / "maps", _PACKAGE / "maps")


def own_folder() -> Path:
    """Where a person's own maps are put: the first folder of LEAFGATE_MAPS, else the user's data folder."""
    return next(iter(_configured_folders()), _data_folder())


def _configured_folders() -> list[Path]:
    return [Path(p) for p in os.environ.get("LEAFGATE_MAPS", "").split(os.pathsep) if p]


def _data_folder() -> Path:
    base = os.environ.get("XDG_DATA_HOME", "")
    # A relative XDG_DATA_HOME is to be ignored, says its specification.
    folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".local" / "share"
    return folder / "leafgate" / "maps"


class MapFiles:
    """The maps of some folders, by id, short id or digest; one load per map however many threads ask."""

    def __init__(self, folders: Iterable[Path] | None = None) -> None:
        found: dict[str, MapEntry] = {}
        for folder in default_folders() if folders is None else folders:
            for entry in list_folder(folder):
                found.setdefault(entry.id, entry)
        self._entries = found
        self._by_digest = {entry.digest: entry for entry in reversed(found.values())}
        self._loads: MapLoads[Encoder] = MapLoads()

    def list(self) -> list[MapEntry]:
        return sorted(self._entries.values(), key=lambda entry: entry.id)

    def find(self, name: str) -> MapEntry:
        """By id, by the part behind the slash, by digest, or by the path of a file."""
        # The two names that a gateway uses for every block are not searched for.
        found = self._entries.get(name) or self._by_digest.get(name) or find_named(self.list(), name)
        if found is not None:
            return found
        path = Path(name)
        if path.is_file():
            return MapEntry(name, None, path, path.stat().st_size, "a file", "")
        raise no_such_map(self._entries, name)

    def load(self, name: str) -> Encoder:
        """The encoder of a map, checked against the digest that its index gives."""
        entry = self.find(name)
        return self._loads.get(str(entry.path), lambda: load_entry(entry))

    async def prepared(self, name: str) -> Encoder:
        """The same from the event loop, which goes on meanwhile."""
        found = self._loads.ready(str(self.find(name).path))
        return found if found is not None else await to_thread.run_sync(self.load, name)


def find_named(entries: Sequence[AnyNamed], name: str) -> AnyNamed | None:
    """The first with this id or digest, else the one whose id ends so. MapUnreachableError where several do."""
    wanted = parse_digest(name) if is_digest(name) else None
    exact = next(
        (entry for entry in entries if entry.id == name or (wanted is not None and entry.digest == wanted)), None
    )
    if exact is not None:
        return exact
    short = [entry for entry in entries if entry.id.rpartition("/")[2] == name]
    if len(short) > 1:
        raise MapUnreachableError(f"{name!r} is ambiguous: {', '.join(entry.id for entry in short)}")
    return short[0] if short else None


def no_such_map(known: Iterable[str], name: str) -> MapUnreachableError:
    told = ", ".join(sorted(known)) or "none"
    return MapUnreachableError(f"no map {name!r}; known maps: {told}; a path to a map file works too")


def load_entry(entry: MapEntry) -> Encoder:
    """A new encoder of this map, which nobody keeps."""
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


def list_folder(folder: Path) -> list[MapEntry]:
    """The maps that a folder's index lists; none where there is no index. MapInvalidError where it is no index."""
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
        id = listed["id"]
        if not isinstance(id, str) or not is_map_id(id):
            raise ValueError(f"{str(id)[:80]!a} is no id for a map")
        return MapEntry(
            id=id,
            digest=parse_digest(listed["sha256"]),
            path=folder / str(listed["file"]),
            bytes=int(listed["bytes"]),
            source=str(listed.get("source", "")),
            licence=str(listed.get("licence", "")),
        )
    except (KeyError, ValueError, MapError) as error:
        raise MapInvalidError(f"{folder / 'index.json'}: bad entry ({error})") from None
