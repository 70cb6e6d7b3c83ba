"""Loads the map that a URL and a digest name, or raises one of the four MapErrors (spec 5.3).

URLs are https, or plain http to this machine. Verified maps are cached on disk. Nothing is requested before the digest
has a valid form, and nothing is used before the bytes have that digest.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.request import url2pathname

import httpx2
import platformdirs

from leafgate.maps.files import MapFiles, MapLoads, read_bounded, write_file
from leafgate.maps.models import PREFIX
from leafgate.model.errors import MapHashMismatchError, MapUnreachableError
from leafgate.model.leaf import digest_of, parse_digest
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.token_map import MAX_MAP_BYTES, read_map

Result = TypeVar("Result")

MAX_REDIRECTS: Final = 5
# At least two letters: a single one is a drive letter in a path.
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
    """The encoder of the map with this digest. Only a map that an index lists needs no digest.

    `map_url` is an https or file URL, a path, the id of a map in a folder, or `model:` and a model's name. `timeout`
    bounds the whole fetch, in seconds. Verified maps stay in memory; fetched ones also in `cache_dir` (default: the
    user's cache folder).
    """
    scheme = _SCHEME.match(map_url)
    local = scheme is None or scheme.group(1).lower() == "file" or map_url.startswith(PREFIX)
    digest = parse_digest(MapFiles().find(map_url).digest if map_hash is None and local else map_hash)
    fetch = None if local else _Fetch(map_url, max_bytes, timeout, client)

    def make(raw: bytes) -> Encoder:
        return make_encoder(read_map(raw, where=map_url if fetch is None else fetch.where, expected_digest=digest))

    def load() -> Encoder:
        if fetch is None:
            return make(read_bounded(_local_path(map_url), max_bytes))
        return _read_or_fetch(fetch, digest, cache_dir, max_bytes, make)

    return _LOADED.get(digest, load)


def fetch_map(
    map_url: str,
    digest: str,
    *,
    cache_dir: Path | None = None,
    timeout: float = 10,
    max_bytes: int = MAX_MAP_BYTES,
    client: httpx2.Client | None = None,
) -> bytes:
    """The verified bytes of the map at an operator's URL, from the disk if they were fetched before.

    Redirects must stay on the host of the URL, so that the server cannot send the gateway to another one.
    """
    fetch = _Fetch(map_url, max_bytes, timeout, client, same_host=True)
    return _read_or_fetch(fetch, digest, cache_dir, max_bytes, lambda raw: raw)


def cached_map_path(digest: str, cache_dir: Path | None = None) -> Path:
    """The path of a fetched map in the cache, whether the file exists or not."""
    folder = cache_dir or platformdirs.user_cache_path("leafgate", appauthor=False) / "maps"
    return folder / f"{digest.removeprefix('sha256:')}.json"


def _read_or_fetch(
    fetch: _Fetch, digest: str, cache_dir: Path | None, max_bytes: int, make: Callable[[bytes], Result]
) -> Result:
    """What `make` returns for the bytes: those in the cache on disk, otherwise fetched. Verified in both cases."""
    path = cached_map_path(digest, cache_dir)
    with contextlib.suppress(MapUnreachableError):
        cached = read_bounded(path, max_bytes)
        if digest_of(cached) == digest:
            return make(cached)
    raw = fetch.run()
    actual = digest_of(raw)
    if actual != digest:
        raise MapHashMismatchError(fetch.where, digest, actual)
    result = make(raw)  # before it is cached: bytes that are not a map are not
    with contextlib.suppress(OSError):
        write_file(path, raw)
    return result


# Failures are not remembered: a caller may try again.
_LOADED: Final[MapLoads[Encoder]] = MapLoads()


def _local_path(map_url: str) -> Path:
    if not map_url.lower().startswith("file:"):
        return MapFiles().find(map_url).path
    url = _parse(map_url)
    if url.host not in ("", "localhost"):
        raise MapUnreachableError(f"{map_url}: a file URL of another machine")
    return Path(url2pathname(url.raw_path.decode("ascii").partition("?")[0]))


@dataclass
class _Fetch:
    """One GET with its redirects."""

    map_url: str
    max_bytes: int
    timeout: float
    client: httpx2.Client | None
    same_host: bool = False

    def __post_init__(self) -> None:
        self._url = _parse(self.map_url)
        self.where = _public(self._url)
        if not (self._url.scheme == "https" or _is_loopback_http(self._url)):
            raise MapUnreachableError(f"{self.where}: maps come over https (plain http is for this machine only)")

    def run(self) -> bytes:
        """The body, or MapUnreachableError after `timeout`.

        In a thread, because a slow name lookup or a server that sends single bytes resets every timeout below this
        one. An abandoned thread ends by its own deadline.
        """
        self._deadline = time.monotonic() + self.timeout
        loads: MapLoads[bytes] = MapLoads(keep=0, wait_seconds=self.timeout)
        return loads.get(self.where, self._get)

    def _get(self) -> bytes:
        try:
            if self.client is not None:
                return self._follow(self.client)
            # Proxies of the environment are not for this machine.
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
        if self.same_host and (there.host, there.port) != (here.host, here.port):
            raise MapUnreachableError(f"{self.where}: redirected to another host, {_public(there)}")
        # No redirect may lead from another machine to this one, or from https to http.
        if there.scheme == "https" or (_is_loopback_http(here) and _is_loopback_http(there)):
            return there
        raise MapUnreachableError(f"{self.where}: redirected to {_public(there)}, which is not allowed")

    def _body(self, response: httpx2.Response) -> bytes:
        if response.status_code != httpx2.codes.OK:
            raise MapUnreachableError(f"{self.where}: answered with status {response.status_code}")
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > self.max_bytes:
            raise self._too_large()
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > self.max_bytes:
                raise self._too_large()
            self._time_left()
        return bytes(body)

    def _too_large(self) -> MapUnreachableError:
        return MapUnreachableError(f"{self.where}: larger than the limit of {self.max_bytes} bytes")

    def _time_left(self) -> float:
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise MapUnreachableError(f"{self.where}: too slow")
        return seconds


def _parse(url: str) -> httpx2.URL:
    try:
        return httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise MapUnreachableError(f"not a usable map URL: {error}") from None


def _public(url: httpx2.URL) -> str:
    """The URL for messages: without user, password and query."""
    return str(url.copy_with(username="", password="", query=None, fragment=None))


def _is_loopback_http(url: httpx2.URL) -> bool:
    if url.scheme != "http":
        return False
    try:
        return ipaddress.ip_address(url.host).is_loopback
    except ValueError:
        return url.host == "localhost"
