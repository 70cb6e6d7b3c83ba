"""The maps that a gateway may use: an allow list by digest. In: the operator's sources. Out: encoders and raw bytes.

Touches files, and the URLs that the operator named, never another one. What clients are told of a failure is which map
and what kind; paths, URLs and reasons are for the operator's log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import anyio
from anyio import to_thread

from leafgate.model.errors import (
    ErrorCode,
    GatewayError,
    MapError,
    MapHashMismatchError,
    MapInvalidError,
    MapUnreachableError,
)
from leafgate.model.leaf import parse_digest
from leafgate.ports import Clock
from leafgate.storage.map_fetch import cached_map_path, fetch_map
from leafgate.storage.map_files import MapEntry, find_named, is_map_id, no_such_map, read_bounded
from leafgate.storage.map_loads import MapLoads
from leafgate.storage.proved_files import ProvedFiles
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.token_map import MAX_MAP_BYTES, read_map

log = logging.getLogger("leafgate.maps")

UNAVAILABLE: Final[ErrorCode] = "MAP_UNAVAILABLE"

Got = TypeVar("Got")


@dataclass(frozen=True)
class MapUrl:
    """A map at a URL that the operator trusts; `url` may hold a password, and is shown nowhere."""

    id: str
    digest: str
    url: str = field(repr=False)
    source: str = "a URL of the operator"
    licence: str = ""

    @property
    def bytes(self) -> int | None:
        """Not known before it was fetched."""
        return None


MapSource = MapEntry | MapUrl


@dataclass(frozen=True)
class ShelfLimits:
    """`load_seconds` bounds how long anybody waits; `keep` encoders of some 100 MB each are held beside the pinned."""

    max_bytes: int = MAX_MAP_BYTES
    fetch_seconds: float = 10
    load_seconds: float = 30
    keep: int = 4


DEFAULT_LIMITS: Final = ShelfLimits()


def file_source(path: Path, *, sha256: str | None = None, id: str | None = None) -> MapEntry:
    """A file of the operator as a source. It is read and checked here, so that a wrong one ends the start."""
    raw = read_bounded(path, MAX_MAP_BYTES)
    token_map = read_map(raw, where=str(path), expected_digest=sha256)
    # What a map calls itself is foreign text: it is shown to clients and logged, so it must be an id to be taken.
    named = id or next(filter(is_map_id, (token_map.id, path.stem)), token_map.digest)
    return MapEntry(named, token_map.digest, path, len(raw), "a file of the operator", "")


def url_source(url: str, *, sha256: str, id: str | None = None) -> MapUrl:
    """A URL of the operator as a source. Nothing is fetched before a client asks for the map."""
    digest = parse_digest(sha256)
    return MapUrl(id or digest, digest, url)


class MapShelf:
    """Every map that the gateway may load. Of two sources with the same id or the same digest the first counts.

    `allow` names the maps that clients may ask for (all of them, where it is None); the default is always among them.
    The default and the pinned maps stay in memory once they are there. `finish` has the last word on every encoder.
    """

    def __init__(
        self,
        sources: Iterable[MapSource],
        *,
        allow: Collection[str] | None = None,
        default: str | None = None,
        pinned: Collection[str] = (),
        clock: Clock = time.monotonic,
        remember_failure_seconds: float = 60,
        limits: ShelfLimits = DEFAULT_LIMITS,
        cache_dir: Path | None = None,
        finish: Callable[[Encoder], Encoder] = lambda encoder: encoder,
    ) -> None:
        self._limits = limits
        self._finish = finish
        self._cache_dir = cache_dir
        self._by_id: dict[str, MapSource] = {}
        for source in sources:
            self._by_id.setdefault(source.id, source)
        # Reversed, so that the first one stays.
        self._by_digest = {parse_digest(source.digest): source for source in reversed(self._by_id.values())}
        self.default = None if default is None else self.digest(default)
        always = set() if self.default is None else {self.default}
        self.offered = frozenset(always.union(self._by_digest if allow is None else map(self.digest, allow)))
        self._waiting: dict[str, anyio.Lock] = {}
        self._proved = ProvedFiles(limits.max_bytes)
        remembering = partial(
            MapLoads,
            wait_seconds=limits.load_seconds,
            remember_failure_seconds=remember_failure_seconds,
            clock=clock,
        )
        self._encoders: MapLoads[Encoder] = remembering(keep=limits.keep, pinned=always.union(map(self.digest, pinned)))
        self._proofs: MapLoads[Path] = remembering(keep=0)
        # A URL is asked once, whether its map is wanted for its ids or for its bytes.
        self._fetches: MapLoads[bytes] = remembering(keep=0)

    def entries(self) -> list[MapSource]:
        """What clients may ask for, by id."""
        return [source for _, source in sorted(self._by_id.items()) if parse_digest(source.digest) in self.offered]

    def digest(self, name: str) -> str:
        """The digest of the map with this id, short id or digest. MapUnreachableError where there is none."""
        found = find_named([*self._by_id.values()], name)
        if found is None:
            raise no_such_map(self._by_id, name)
        return parse_digest(found.digest)

    def ready(self, digest: str) -> Encoder | None:
        """The encoder, if it is in memory. Never waits, so the event loop may ask."""
        return self._encoders.ready(digest)

    def load(self, name: str) -> Encoder:
        """The operator's way to an encoder: any name, and a MapError with every detail."""
        return self._load(self.digest(name))

    def encoder(self, digest: str) -> Encoder:
        """The clients' way to an encoder: waits for a load if need be. GatewayError names the map and the kind."""
        source = self._offered_source(digest)
        return self._for_client(source, self._encoders, lambda: self._load(digest))

    async def prepared(self, digest: str) -> Encoder:
        """The same from the event loop, which goes on meanwhile. However many wait for a map, they hold one thread."""
        found = self.ready(digest) if digest in self.offered else None
        if found is not None:
            return found
        self._offered_source(digest)
        async with self._waiting.setdefault(digest, anyio.Lock()):
            return await to_thread.run_sync(self.encoder, digest)

    def open_raw(self, digest: str) -> BinaryIO:
        """The map's file, which is known to have this digest. Blocks; GatewayError as for `encoder`."""
        source = self._offered_source(digest)
        return self._for_client(source, self._proofs, lambda: self._open(source, digest))

    def _offered_source(self, digest: str) -> MapSource:
        if digest not in self.offered:
            raise GatewayError("ARGS_INVALID", f"this gateway has no map {digest}")
        return self._by_digest[digest]

    def _for_client(self, source: MapSource, loads: MapLoads[Encoder] | MapLoads[Path], get: Callable[[], Got]) -> Got:
        try:
            return get()
        except MapError as error:
            digest = parse_digest(source.digest)
            kind = _kind(error)
            details = {"map": source.id, "map_id": digest, "kind": kind}
            wait = round(loads.retry_after(digest), 1)
            raise GatewayError(
                UNAVAILABLE,
                f"the map {source.id} ({digest}) is not available: {kind}",
                details=details if wait == 0 else {**details, "retry_after": wait},
            ) from None

    # Encoders

    def _load(self, digest: str) -> Encoder:
        return self._encoders.get(digest, lambda: self._logged(self._by_digest[digest], self._make_encoder))

    def _logged(self, source: MapSource, load: Callable[[MapSource], Got]) -> Got:
        """Runs once per load, however many wait for it; so a failure is in the log once."""
        try:
            return load(source)
        except MapError as error:
            log.warning("[Codec] the map %s (%s) cannot be used: %s", source.id, source.digest, error)
            raise
        except BaseException as error:  # a text that has no ids, a panic of a tokenizer: not the map that was promised
            log.warning("[Codec] the map %s (%s) cannot be used: %r", source.id, source.digest, error)
            raise MapInvalidError(f"{source.id}: {type(error).__name__}: {error}") from None

    def _make_encoder(self, source: MapSource) -> Encoder:
        if isinstance(source, MapUrl):
            raw, where = self._fetch(source), source.id
        else:
            raw, where = read_bounded(source.path, self._limits.max_bytes), str(source.path)
        return self._finish(make_encoder(read_map(raw, where=where, expected_digest=source.digest)))

    def _fetch(self, source: MapUrl) -> bytes:
        limits = self._limits
        fetch = partial(
            fetch_map,
            source.url,
            source.digest,
            cache_dir=self._cache_dir,
            timeout=limits.fetch_seconds,
            max_bytes=limits.max_bytes,
        )
        return self._fetches.get(source.digest, fetch)

    # Raw bytes

    def _open(self, source: MapSource, digest: str) -> BinaryIO:
        path = self._path(source)
        file = self._proved.open(path, digest)
        if file is None:
            self._proofs.get(digest, lambda: self._logged(source, self._prove))
            file = self._proved.open(path, digest)
        if file is None:
            raise MapUnreachableError(f"{path}: changed while it was read")
        return file

    def _path(self, source: MapSource) -> Path:
        return source.path if isinstance(source, MapEntry) else cached_map_path(source.digest, self._cache_dir)

    def _prove(self, source: MapSource) -> Path:
        path = self._path(source)
        if isinstance(source, MapUrl):
            self._fetch(source)
        self._proved.prove(path, parse_digest(source.digest))
        return path


def _kind(error: MapError) -> str:
    if isinstance(error, MapHashMismatchError):
        return "hash mismatch"
    return "invalid map" if isinstance(error, MapInvalidError) else "unreachable"
