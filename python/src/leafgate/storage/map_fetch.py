"""Loads the map that a URL and a digest name. In: both. Out: a ready Encoder, or one of the four MapErrors (spec 5.3).

May touch: the network (https; plain http to this machine only), files, and a cache of verified maps on disk. Nothing is
asked of anyone before the digest has the right shape, and nothing is believed before the bytes have that digest.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final
from urllib.request import url2pathname

import httpx2

from leafgate.model.errors import MapHashMismatchError, MapUnreachableError
from leafgate.model.leaf import digest_of, parse_digest
from leafgate.storage.map_files import MapFiles, read_bounded
from leafgate.storage.map_loads import MapLoads
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.token_map import MAX_MAP_BYTES, read_map

MAX_REDIRECTS: Final = 5
# Two letters at least, so that a drive letter is a path and no scheme.
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(?=/|[^\\])")


def load_encoder(
    map_url: str,
    map_hash: str | None = None,
    *,
    cache_dir: Path | None = None,
    timeout: float = 10,
    max_bytes: int = MAX_MAP_BYTES,
    client: httpx2.Client | None = None,
) -> Encoder:
    """The encoder of the map with this digest; only a map that an index lists may do without giving one.

    `map_url` is an https or file URL, a path, or the id of a map that is at hand. `timeout` bounds the whole fetch, in
    seconds. Verified maps are kept in memory; fetched ones in `cache_dir` too (default: the user's cache folder).
    """
    scheme = _SCHEME.match(map_url)
    local = scheme is None or scheme.group(1).lower() == "file"
    digest = parse_digest(map_hash) if map_hash is not None or not local else _known_digest(map_url)
    if local:
        return _LOADED.get(digest, lambda: _load_local(map_url, digest, max_bytes))
    fetch = _Fetch(map_url, max_bytes, timeout, client)
    cache = _DiskCache(cache_dir, digest)
    return _LOADED.get(digest, lambda: _load_remote(fetch, cache, digest, max_bytes))


def fetch_map(
    map_url: str,
    digest: str,
    *,
    cache_dir: Path | None = None,
    timeout: float = 10,
    max_bytes: int = MAX_MAP_BYTES,
    client: httpx2.Client | None = None,
) -> bytes:
    """The verified bytes of the map that an operator's URL names, from the disk if they were fetched before.

    Redirects stay on the host that the operator named: what stands behind it may not choose another for the gateway.
    """
    fetch = _Fetch(map_url, max_bytes, timeout, client, same_host=True)
    cache = _DiskCache(cache_dir, digest)
    cached = cache.read(max_bytes)
    if cached is not None:
        return cached
    raw = fetch.run()
    found = digest_of(raw)
    if found != digest:
        raise MapHashMismatchError(fetch.where, digest, found)
    cache.write(raw)
    return raw


def cached_map_path(digest: str, cache_dir: Path | None = None) -> Path:
    """Where a fetched map is kept, whether it is there or not."""
    return _DiskCache(cache_dir, digest).path


def _known_digest(map_url: str) -> str:
    """What the index of the maps at hand says. A file that no index lists has no known digest."""
    return parse_digest(MapFiles().find(map_url).digest)


def _load_local(map_url: str, digest: str, max_bytes: int) -> Encoder:
    raw = read_bounded(_local_path(map_url), max_bytes)
    return make_encoder(read_map(raw, where=map_url, expected_digest=digest))


def _load_remote(fetch: _Fetch, cache: _DiskCache, digest: str, max_bytes: int) -> Encoder:
    cached = cache.read(max_bytes)
    raw = fetch.run() if cached is None else cached
    encoder = make_encoder(read_map(raw, where=fetch.where, expected_digest=digest))
    if cached is None:
        cache.write(raw)
    return encoder


# However many threads ask for a digest, one of them loads it. A failure is not remembered: a caller may try again.
_LOADED: Final[MapLoads[Encoder]] = MapLoads()


def _local_path(map_url: str) -> Path:
    if not map_url.lower().startswith("file:"):
        return MapFiles().find(map_url).path
    try:
        url = httpx2.URL(map_url)
    except httpx2.InvalidURL as error:
        raise MapUnreachableError(f"{map_url}: {error}") from None
    if url.host not in ("", "localhost"):
        raise MapUnreachableError(f"{map_url}: a file URL of another machine")
    return Path(url2pathname(url.raw_path.decode("ascii").partition("?")[0]))


def _within(seconds: float, where: str, work: Callable[[], bytes]) -> bytes:
    """The result of some work, or MapUnreachableError after that time.

    A thread, because a slow name lookup or a server that sends a byte at a time resets every timeout below this one.
    One that is given up ends by its own deadline.
    """
    outcome: Future[bytes] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # handed on to the thread that waits
            outcome.set_exception(error)

    threading.Thread(target=run, name="leafgate-map-fetch", daemon=True).start()
    try:
        return outcome.result(seconds)
    except TimeoutError:
        raise MapUnreachableError(f"{where}: not loaded within {seconds:g} s") from None


class _Fetch:
    """One GET with its redirects."""

    def __init__(
        self, url: str, max_bytes: int, timeout: float, client: httpx2.Client | None, *, same_host: bool = False
    ) -> None:
        self._url = _parse(url)
        self._same_host = same_host
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._client = client
        self._deadline = 0.0
        self.where = _shown(self._url)
        if not (self._url.scheme == "https" or _is_loopback_http(self._url)):
            raise MapUnreachableError(f"{self.where}: maps come over https (plain http is for this machine only)")

    def run(self) -> bytes:
        self._deadline = time.monotonic() + self._timeout
        return _within(self._timeout, self.where, self._get)

    def _get(self) -> bytes:
        try:
            if self._client is not None:
                return self._follow(self._client)
            # Proxies of the environment are for the outside world.
            with httpx2.Client(trust_env=self._url.scheme == "https") as own:
                return self._follow(own)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise MapUnreachableError(f"{self.where}: {type(error).__name__}: {error}") from None

    def _follow(self, client: httpx2.Client) -> bytes:
        url = self._url
        for _ in range(MAX_REDIRECTS + 1):
            with client.stream(
                "GET",
                url,
                headers={"accept": "application/json", "accept-encoding": "identity"},
                follow_redirects=False,
                timeout=self._time_left(),
            ) as response:
                if not response.has_redirect_location:
                    return self._body(response)
                url = self._next(url, url.join(response.headers["location"]))
        raise MapUnreachableError(f"{self.where}: more than {MAX_REDIRECTS} redirects")

    def _next(self, here: httpx2.URL, there: httpx2.URL) -> httpx2.URL:
        if self._same_host and (there.host, there.port) != (here.host, here.port):
            raise MapUnreachableError(f"{self.where}: redirected to another host, {_shown(there)}")
        # From the outside world into this machine, or out of https, leads no redirect.
        if there.scheme == "https" or (_is_loopback_http(here) and _is_loopback_http(there)):
            return there
        raise MapUnreachableError(f"{self.where}: redirected to {_shown(there)}, which is not allowed")

    def _body(self, response: httpx2.Response) -> bytes:
        if response.status_code != httpx2.codes.OK:
            raise MapUnreachableError(f"{self.where}: answered with status {response.status_code}")
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > self._max_bytes:
            raise self._too_large()
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > self._max_bytes:
                raise self._too_large()
            self._time_left()
        return bytes(body)

    def _too_large(self) -> MapUnreachableError:
        return MapUnreachableError(f"{self.where}: larger than the limit of {self._max_bytes} bytes")

    def _time_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise MapUnreachableError(f"{self.where}: too slow")
        return left


def _parse(url: str) -> httpx2.URL:
    try:
        return httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise MapUnreachableError(f"not a usable map URL: {error}") from None


def _shown(url: httpx2.URL) -> str:
    """A URL as errors may show it: without user, password and query."""
    return str(url.copy_with(username="", password="", query=None, fragment=None))


def _is_loopback_http(url: httpx2.URL) -> bool:
    if url.scheme != "http":
        return False
    try:
        return ipaddress.ip_address(url.host).is_loopback
    except ValueError:
        return url.host == "localhost"


def _default_cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # A relative XDG_CACHE_HOME is to be ignored, says its specification.
    folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache"
    return folder / "leafgate" / "maps"


class _DiskCache:
    """The place of one map on disk. It helps where it can, and never fails: what it holds is proved on every read."""

    def __init__(self, folder: Path | None, digest: str) -> None:
        self._digest = digest
        self.path = (folder or _default_cache_dir()) / f"{digest.removeprefix('sha256:')}.json"

    def read(self, max_bytes: int) -> bytes | None:
        try:
            raw = read_bounded(self.path, max_bytes)
        except MapUnreachableError:
            return None
        return raw if digest_of(raw) == self._digest else None

    def write(self, raw: bytes) -> None:
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.path.parent, prefix=".", delete=False) as file:
                try:
                    file.write(raw)
                    file.close()
                    os.replace(file.name, self.path)
                except OSError:
                    os.unlink(file.name)
