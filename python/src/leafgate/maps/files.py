"""Maps in folders: find them by id, path or digest, load each once, and add new ones. Never touches the network.

The folders are those of LEAFGATE_MAPS, the user's data folder, the checkout's maps/ and the maps inside the wheel. A
folder lists its maps in index.json. A reader never sees a half-added map: its file is named after its digest and never
overwritten, and the index is replaced in one step; the previous one stays beside it as index.json.bak.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import platformdirs
from anyio import to_thread
from cachetools import LRUCache

from leafgate.maps.models import PREFIX, known_models
from leafgate.model.errors import ConfigError, MapError, MapInvalidError, MapUnreachableError
from leafgate.model.leaf import is_digest, parse_digest
from leafgate.ports import Clock
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.equal_maps import ids_digest
from leafgate.tokens.token_map import MAX_MAP_BYTES, read_map

try:
    import fcntl
except ImportError:  # on Windows, where two commands at the same moment may undo each other's entry
    fcntl = None  # type: ignore[assignment]

CARD_MAP: Final = "openai/cl100k_base"
INDEX: Final = "index.json"
MAX_ID_CHARS: Final = 200
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*", re.ASCII)
_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[2]


@dataclass(frozen=True)
class MapEntry:
    """A map that a folder's index lists. `path` may be compressed; `bytes` and `digest` are those of the map itself.

    `ids_digest` is that of spec 5.10, None if it is not known; `also` are digests of maps elsewhere that have the same.
    """

    id: str
    digest: str | None
    path: Path
    bytes: int
    source: str
    licence: str
    ids_digest: str | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class MapUrl:
    """A map at a URL that the operator trusts. `url` may contain a password, so it is never shown."""

    id: str
    digest: str
    url: str = field(repr=False)
    source: str = "a URL of the operator"
    licence: str = ""
    bytes: None = None  # these two are not known before the map is fetched
    ids_digest: None = None
    also: tuple[str, ...] = ()


MapSource = MapEntry | MapUrl
AnySource = TypeVar("AnySource", bound=MapSource)
Loaded = TypeVar("Loaded")


def is_map_id(id: str) -> bool:
    """Whether the id is safe as a file name on any system, as a path in a URL, and in a log."""
    return len(id) <= MAX_ID_CHARS and _ID.fullmatch(id) is not None


def default_folders() -> tuple[Path, ...]:
    """The folders to search for maps, in this order."""
    configured = [Path(path) for path in os.environ.get("LEAFGATE_MAPS", "").split(os.pathsep) if path]
    data = platformdirs.user_data_path("leafgate", appauthor=False)
    return (*configured, *(folder / "maps" for folder in (data, _CHECKOUT, _PACKAGE)))


def own_folder() -> Path:
    """The folder that new maps are added to: the first of LEAFGATE_MAPS, otherwise the user's data folder."""
    return default_folders()[0]


class MapLoads(Generic[Loaded]):
    """Loads each map once, however many threads ask for it.

    Keeps the `keep` results that were used last, and the pinned ones besides them; failures for some seconds. No lock
    is held while a map loads. A load that took too long for its caller continues, is not started a second time, and its
    result is kept.
    """

    def __init__(
        self,
        *,
        keep: int | None = None,
        pinned: Collection[str] = (),
        wait_seconds: float | None = None,
        remember_failure_seconds: float = 0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._pinned: dict[str, Loaded | None] = dict.fromkeys(pinned)
        self._recent: LRUCache[str, Loaded] = LRUCache(math.inf if keep is None else keep)
        self._wait_seconds = wait_seconds
        self._remember_failure_seconds = remember_failure_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: dict[str, Future[Loaded]] = {}
        self._failures: dict[str, tuple[BaseException, float]] = {}  # each until a time

    def ready(self, key: str) -> Loaded | None:
        """The result of an earlier load. Never waits for a load."""
        with self._lock:
            return self._result(key)

    def get(self, key: str, load: Callable[[], Loaded]) -> Loaded:
        """The result of an earlier load, or of this one. Raises what the load raised, or MapUnreachableError."""
        with self._lock:
            result = self._result(key)
            if result is not None:
                return result
            pending = self._start_or_join(key, load)
        try:
            return pending.result(self._wait_seconds)
        except TimeoutError:
            if pending.done():
                raise
            error = MapUnreachableError(f"{key}: not loaded within {self._wait_seconds:g} s")
            with self._lock:
                if key in self._pending:
                    self._remember(key, error)
            raise error from None

    def retry_after(self, key: str) -> float:
        """The seconds for which a failure will still be remembered; 0 if there is none."""
        with self._lock:
            _, until = self._failures.get(key, (None, 0.0))
            return max(0.0, until - self._clock())

    def _result(self, key: str) -> Loaded | None:
        return self._pinned.get(key) or self._recent.get(key)

    def _start_or_join(self, key: str, load: Callable[[], Loaded]) -> Future[Loaded]:
        error, until = self._failures.get(key, (None, 0.0))
        if error is not None and self._clock() < until:
            # The same object is raised many times: without this, its traceback would grow each time.
            raise error.with_traceback(None)
        if key not in self._pending:
            pending: Future[Loaded] = Future()
            # A separate thread, so that the first caller does not wait longer than the others.
            threading.Thread(target=self._run, args=(key, load, pending), name="leafgate-map-load", daemon=True).start()
            self._pending[key] = pending
        return self._pending[key]

    def _run(self, key: str, load: Callable[[], Loaded], pending: Future[Loaded]) -> None:
        try:
            result = load()
        except BaseException as error:  # raised in the callers; the panic of a tokenizer is not an Exception
            with self._lock:
                del self._pending[key]
                self._remember(key, error)
            pending.set_exception(error)
        else:
            with self._lock:
                del self._pending[key]
                self._failures.pop(key, None)
                if key in self._pinned:
                    self._pinned[key] = result
                elif self._recent.maxsize:
                    self._recent[key] = result
            pending.set_result(result)

    def _remember(self, key: str, error: BaseException) -> None:
        if self._remember_failure_seconds > 0:
            self._failures[key] = error, self._clock() + self._remember_failure_seconds


class MapFiles:
    """The maps of some folders. Of two with the same id the first counts."""

    def __init__(self, folders: Iterable[Path] | None = None) -> None:
        self._entries: dict[str, MapEntry] = {}
        for folder in default_folders() if folders is None else folders:
            for entry in list_folder(folder):
                self._entries.setdefault(entry.id, entry)
        self._by_digest = {entry.digest: entry for entry in reversed(self._entries.values())}
        self._loads: MapLoads[Encoder] = MapLoads()

    def list(self) -> list[MapEntry]:
        return sorted(self._entries.values(), key=lambda entry: entry.id)

    def find(self, name: str) -> MapEntry:
        """The map with this id, short id (the part after the slash) or digest, or the file at this path."""
        # Without a search for the two names that a gateway uses for every block.
        entry = self._entries.get(name) or self._by_digest.get(name) or find_named(self.list(), name)
        if entry is not None:
            return entry
        path = Path(name)
        if path.is_file():
            return MapEntry(name, None, path, path.stat().st_size, "a file", "")
        raise no_such_map(self._entries, name)

    def load(self, name: str) -> Encoder:
        """The encoder of a map, whose bytes are checked against the digest in the index."""
        entry = self.find(name)
        return self._loads.get(str(entry.path), lambda: load_entry(entry))

    async def prepare(self, name: str) -> Encoder:
        """The same, without blocking the event loop."""
        encoder = self._loads.ready(str(self.find(name).path))
        return encoder if encoder is not None else await to_thread.run_sync(self.load, name)


def find_named(entries: Sequence[AnySource], name: str) -> AnySource | None:
    """The first with this id or digest, or the only one with this short id; for `model:NAME`, that of the model's map.

    MapUnreachableError if several have the short id, or if the model has no map.
    """
    if name.startswith(PREFIX):
        return _find_for_model(entries, name)
    digest = parse_digest(name) if is_digest(name) else None
    exact = next(
        (entry for entry in entries if entry.id == name or (digest is not None and entry.digest == digest)), None
    )
    if exact is not None:
        return exact
    short = [entry for entry in entries if entry.id.rpartition("/")[2] == name]
    if len(short) > 1:
        raise MapUnreachableError(f"{name!r} is ambiguous: {', '.join(entry.id for entry in short)}")
    return short[0] if short else None


def _find_for_model(entries: Sequence[AnySource], name: str) -> AnySource:
    models = known_models()
    map_id = models.map_of(name)
    entry = find_named(entries, map_id)
    if entry is None:
        steps = [*models.maps[map_id].build_steps(map_id, "leafgate"), f"leafgate maps add {short_id(map_id)}.json"]
        raise MapUnreachableError(f"{name}: its map {map_id} is not installed; to build it: {'; '.join(steps)}")
    return entry


def short_id(id: str) -> str:
    return id.rpartition("/")[2]


def no_such_map(ids: Iterable[str], name: str) -> MapUnreachableError:
    known = sorted(ids)
    hint = known_models().hint(name, known)
    return MapUnreachableError(
        f"no map {name!r}{hint} Known maps: {', '.join(known) or 'none'}; a path to a map file works too"
    )


def load_entry(entry: MapEntry) -> Encoder:
    """A new encoder of this map, which is not cached."""
    raw = read_bounded(entry.path, MAX_MAP_BYTES)
    return make_encoder(read_map(raw, where=str(entry.path), expected_digest=entry.digest))


def read_bounded(path: Path, limit: int) -> bytes:
    """The bytes of a file, unpacked if it is a .gz. MapUnreachableError if it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            raw = (gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file).read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MapUnreachableError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > limit:
        raise MapUnreachableError(f"{path}: larger than the limit of {limit} bytes")
    return raw


def list_folder(folder: Path) -> list[MapEntry]:
    """The maps in the index of a folder; none if it has no index. MapInvalidError if the index cannot be read."""
    index = folder / INDEX
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
            raise ValueError(f"{str(id)[:80]!a} is not an id for a map")
        return MapEntry(
            id=id,
            digest=parse_digest(listed["sha256"]),
            path=folder / str(listed["file"]),
            bytes=int(listed["bytes"]),
            source=str(listed.get("source", "")),
            licence=str(listed.get("licence", "")),
            ids_digest=None if listed.get("ids") is None else parse_digest(listed["ids"]),
            also=tuple(map(parse_digest, listed.get("also", ()))),
        )
    except (KeyError, ValueError, TypeError, MapError) as error:
        raise MapInvalidError(f"{folder / INDEX}: bad entry ({error})") from None


def check_map_id(id: str) -> str:
    """The id. ConfigError if it is not valid."""
    if not is_map_id(id):
        raise ConfigError(f"{id[:80]!r} is not an id for a map; write owner/name, of letters, digits and . _ -")
    return id


def add_map(
    folder: Path, raw: bytes, *, id: str, source: str, licence: str, replace: bool = False
) -> tuple[MapEntry, bool]:
    """The entry, and whether the folder changed. ConfigError if another map has the id, unless `replace`."""
    token_map = read_map(raw, where=id)
    digest = token_map.digest
    file = f"{check_map_id(id)}-{digest.removeprefix('sha256:')[:12]}.json"
    entry = MapEntry(id, digest, folder / file, len(raw), source, licence, ids_digest(token_map))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            present = list_folder(folder)
            same_id = next((each for each in present if each.id == id), None)
            if same_id is not None and same_id.digest == digest and same_id.path.is_file():
                return same_id, False
            if same_id is not None and same_id.digest != digest and not replace:
                raise ConfigError(f"{folder} has another map {id} ({same_id.digest}); --replace puts this in its place")
            write_file(entry.path, raw)
            _write_index(folder, [*(each for each in present if each.id != id), entry])
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror}") from None
    return entry, True


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder, so that two commands take turns."""
    with (folder / ".lock").open("w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write_index(folder: Path, entries: list[MapEntry]) -> None:
    index = folder / INDEX
    if index.exists():
        shutil.copyfile(index, folder / f"{INDEX}.bak")
    rows = [
        {
            "id": entry.id,
            "file": entry.path.relative_to(folder).as_posix(),
            "sha256": entry.digest,
            "bytes": entry.bytes,
            "source": entry.source,
            "licence": entry.licence,
            **({} if entry.ids_digest is None else {"ids": entry.ids_digest}),
            **({"also": list(entry.also)} if entry.also else {}),
        }
        for entry in sorted(entries, key=lambda entry: entry.id)
    ]
    write_file(index, (json.dumps({"maps": rows}, indent=2, ensure_ascii=False) + "\n").encode())


def write_file(path: Path, raw: bytes) -> None:
    """Write to a temporary file and rename it, so that a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # maps are not secret, and the gateway may run as another user
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
