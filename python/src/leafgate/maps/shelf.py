"""The maps that a gateway may use: an allow list by digest, from the operator's folders, files and URLs.

Only URLs that the operator configured are requested. Clients see which map failed and the kind of failure; paths,
URLs and reasons go to the operator's log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
from anyio import to_thread

from leafgate.maps.fetch import fetch_map
from leafgate.maps.files import (
    CARD_MAP,
    MapEntry,
    MapLoads,
    MapSource,
    MapUrl,
    find_named,
    is_map_id,
    no_such_map,
    read_bounded,
)
from leafgate.model.errors import (
    ErrorCode,
    GatewayError,
    MapError,
    MapHashMismatchError,
    MapInvalidError,
)
from leafgate.model.leaf import digest_of, parse_digest
from leafgate.ports import Clock
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.equal_maps import ids_digest
from leafgate.tokens.token_map import MAX_MAP_BYTES, read_map

log = logging.getLogger("leafgate.maps")

UNAVAILABLE: Final[ErrorCode] = "MAP_UNAVAILABLE"
_KINDS: Final = {MapHashMismatchError: "hash mismatch", MapInvalidError: "invalid map"}

Got = TypeVar("Got")


@dataclass(frozen=True)
class ShelfLimits:
    """`load_seconds` bounds the wait of a caller; `keep` encoders (about 100 MB each) stay beside the pinned ones."""

    max_bytes: int = MAX_MAP_BYTES
    fetch_seconds: float = 10
    load_seconds: float = 30
    keep: int = 4


DEFAULT_LIMITS: Final = ShelfLimits()


def file_source(path: Path, *, sha256: str | None = None, id: str | None = None) -> MapEntry:
    """A file of the operator as a source. It is read and checked here, so that a bad one fails the start."""
    raw = read_bounded(path, MAX_MAP_BYTES)
    token_map = read_map(raw, where=str(path), expected_digest=sha256)
    # The id inside a map is foreign text that is shown to clients and logged: it is used only if it is valid.
    map_id = id or next(filter(is_map_id, (token_map.id, path.stem)), token_map.digest)
    return MapEntry(
        map_id, token_map.digest, path, len(raw), "a file of the operator", "", ids_digest=ids_digest(token_map)
    )


def url_source(url: str, *, sha256: str, id: str | None = None) -> MapUrl:
    """A URL of the operator as a source. It is fetched when a client first asks for the map."""
    digest = parse_digest(sha256)
    return MapUrl(id or digest, digest, url)


class MapShelf:
    """Every map that the gateway may load. Of two sources with the same id or the same digest the first counts.

    `allow` names the maps that clients may ask for (None: all of them); the default is always among them. The default
    and the pinned maps stay in memory once they are loaded. `finish` wraps every encoder.
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
        # Reversed, so that the first of two with the same digest wins.
        self._by_digest = {parse_digest(source.digest): source for source in reversed(self._by_id.values())}
        self._equal_digests = _group_equal([*self._by_id.values()])
        self.default = None if default is None else self.digest(default)
        always = set() if self.default is None else {self.default}
        self.offered = frozenset(always.union(self._by_digest if allow is None else map(self.digest, allow)))
        self._waiting: dict[str, anyio.Lock] = {}
        remembering = partial(
            MapLoads, wait_seconds=limits.load_seconds, remember_failure_seconds=remember_failure_seconds, clock=clock
        )
        self._encoders: MapLoads[Encoder] = remembering(keep=limits.keep, pinned=always.union(map(self.digest, pinned)))
        self._raw: MapLoads[bytes] = remembering(keep=0)
        # A URL is fetched once, whether the encoder or the bytes of its map are needed.
        self._fetches: MapLoads[bytes] = remembering(keep=0)

    def entries(self) -> list[MapSource]:
        """The maps that clients may ask for, by id."""
        return [source for _, source in sorted(self._by_id.items()) if parse_digest(source.digest) in self.offered]

    def digest(self, name: str) -> str:
        """The digest of the map with this id, short id or digest. MapUnreachableError if there is none."""
        source = find_named([*self._by_id.values()], name)
        if source is None:
            raise no_such_map(self._by_id, name)
        return parse_digest(source.digest)

    def ready(self, digest: str) -> Encoder | None:
        """The encoder, if it is in memory. Never waits."""
        return self._encoders.ready(digest)

    def load(self, name: str) -> Encoder:
        """The encoder of any map, for the operator: a MapError has every detail."""
        return self._get(self._encoders, self.digest(name), self._make_encoder)

    def encoder(self, digest: str) -> Encoder:
        """The encoder of an offered map, for a client; waits for the load. A GatewayError has the map and the kind."""
        return self._get_for_client(self._encoders, digest, self._make_encoder)

    def read_raw(self, digest: str) -> bytes:
        """The bytes of an offered map, verified to have this digest. Blocks; GatewayError as for `encoder`."""
        return self._get_for_client(self._raw, digest, self._read)

    async def prepare(self, digest: str) -> Encoder:
        """The same, without blocking the event loop. All callers that wait for one map hold one thread."""
        encoder = self.ready(digest) if digest in self.offered else None
        if encoder is not None:
            return encoder
        self._offered_source(digest)
        async with self._waiting.setdefault(digest, anyio.Lock()):
            return await to_thread.run_sync(self.encoder, digest)

    def _offered_source(self, digest: str) -> MapSource:
        if digest not in self.offered:
            raise GatewayError("ARGS_INVALID", f"this gateway has no map {digest}")
        return self._by_digest[digest]

    def _get_for_client(self, loads: MapLoads[Got], digest: str, make: Callable[[MapSource], Got]) -> Got:
        source = self._offered_source(digest)
        try:
            return self._get(loads, digest, make)
        except MapError as error:
            kind = next((kind for type, kind in _KINDS.items() if isinstance(error, type)), "unreachable")
            details = {"map": source.id, "map_id": digest, "kind": kind}
            wait = round(loads.retry_after(digest), 1)
            raise GatewayError(
                UNAVAILABLE,
                f"the map {source.id} ({digest}) is not available: {kind}",
                details=details if wait == 0 else {**details, "retry_after": wait},
            ) from None

    def _get(self, loads: MapLoads[Got], digest: str, make: Callable[[MapSource], Got]) -> Got:
        """Load a map and log a failure: once, however many callers wait for it."""
        source = self._by_digest[digest]

        def load() -> Got:
            try:
                return make(source)
            except BaseException as error:  # a MapError, or such as a panic of a tokenizer
                reason = error if isinstance(error, MapError) else repr(error)
                log.warning("[Codec] the map %s (%s) cannot be used: %s", source.id, source.digest, reason)
                if isinstance(error, MapError):
                    raise
                raise MapInvalidError(f"{source.id}: {type(error).__name__}: {error}") from None

        return loads.get(digest, load)

    def _make_encoder(self, source: MapSource) -> Encoder:
        raw, where = self._fetch_or_read(source)
        token_map = read_map(raw, where=where, expected_digest=source.digest)
        equal_digests = self._equal_digests.get(source.ids_digest or "", frozenset())
        return self._finish(make_encoder(replace(token_map, equal_digests=equal_digests)))

    def _read(self, source: MapSource) -> bytes:
        raw, where = self._fetch_or_read(source)
        if digest_of(raw) != source.digest:
            raise MapHashMismatchError(where, parse_digest(source.digest), digest_of(raw))
        return raw

    def _fetch_or_read(self, source: MapSource) -> tuple[bytes, str]:
        """The bytes of a source, not verified yet, and how errors name it."""
        max_bytes = self._limits.max_bytes
        if isinstance(source, MapEntry):
            return read_bounded(source.path, max_bytes), str(source.path)
        fetch = partial(fetch_map, cache_dir=self._cache_dir, timeout=self._limits.fetch_seconds, max_bytes=max_bytes)
        return self._fetches.get(source.digest, lambda: fetch(source.url, source.digest)), source.id


def _group_equal(sources: Iterable[MapSource]) -> dict[str, frozenset[str]]:
    """The digests of the maps with the same ids digest, by that digest."""
    groups: dict[str, set[str]] = {}
    for source in sources:
        if source.ids_digest is not None:
            groups.setdefault(source.ids_digest, set()).update((parse_digest(source.digest), *source.also))
    return {ids: frozenset(digests) for ids, digests in groups.items()}


class CurrentMaps:
    """The shelf in use, for code that outlives a change of settings: a reload puts another in its place."""

    def __init__(self, shelf: MapShelf) -> None:
        self.replace(shelf)

    def replace(self, shelf: MapShelf) -> None:
        self._shelf = shelf
        self._cards = shelf.load(CARD_MAP)

    def entries(self) -> list[MapSource]:
        return self._shelf.entries()

    def read_raw(self, digest: str) -> bytes:
        return self._shelf.read_raw(digest)

    def count(self, text: str) -> int:
        """The tokens of a text in the map that cards are counted in."""
        return len(self._cards.encode(text))
