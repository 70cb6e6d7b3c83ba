"""Where signing keys come from, and when they are read again. In: a path or a URL. Out: a KeySet, kept meanwhile.

Touches the disk or the network, in bounds: of size, of time, and of how often somebody who invents key names can make
us ask. If reading again fails, the keys that are known stay, for a day at most.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import anyio
import httpx2
from anyio import to_thread

from leafgate.model.errors import ConfigError
from leafgate.ports import Clock
from leafgate.server.auth.signing_keys import MAX_DOCUMENT, KeysError, KeySet, read_keys

log = logging.getLogger("leafgate.server")

FETCH_SECONDS: Final = 5.0
FRESH_SECONDS: Final = 600.0
FILE_FRESH_SECONDS: Final = 1.0
ASK_AGAIN_SECONDS: Final = 30.0
STALE_SECONDS: Final = 86_400.0


class KeySource(Protocol):
    """Gives the keys that are known now; `again`: a token named one that is not among them."""

    async def keys(self, *, again: bool = False) -> KeySet: ...


class KeptKeys:
    """Keys that are read by `read`, kept while they are fresh, and asked for one at a time."""

    def __init__(
        self,
        where: str,
        read: Callable[[], Awaitable[bytes]],
        *,
        fresh: float,
        ask_again: float,
        clock: Clock = time.monotonic,
    ) -> None:
        self._where = where
        self._read = read
        self._fresh = fresh
        self._ask_again = ask_again
        self._clock = clock
        self._keys = KeySet()
        self._asked: float | None = None
        self._got: float | None = None
        self._one_at_a_time = anyio.Lock()

    async def keys(self, *, again: bool = False) -> KeySet:
        if self._is_due(again):
            async with self._one_at_a_time:
                if self._is_due(again):
                    await self._renew()
        is_stale = self._got is None or self._clock() - self._got > STALE_SECONDS
        return KeySet() if is_stale else self._keys

    def _is_due(self, again: bool) -> bool:
        if self._asked is None:
            return True
        since_asked = self._clock() - self._asked
        has_fresh = self._got is not None and self._clock() - self._got < self._fresh
        return since_asked >= self._ask_again and (again or not has_fresh)

    async def _renew(self) -> None:
        self._asked = self._clock()
        try:
            self._keys = read_keys(await self._read())
            self._got = self._clock()
        except (KeysError, OSError, httpx2.HTTPError, TimeoutError) as error:
            log.warning("the signing keys at %s cannot be read: %s", self._where, str(error) or type(error).__name__)


def keys_of_file(path: Path, *, clock: Clock = time.monotonic) -> KeySource:
    """A file, looked at again every second: it is small, and a key that was taken out must not open anything."""

    def read() -> bytes:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT + 1)

    async def in_thread() -> bytes:
        return await to_thread.run_sync(read)

    return KeptKeys(path.name, in_thread, fresh=FILE_FRESH_SECONDS, ask_again=FILE_FRESH_SECONDS, clock=clock)


def keys_of_url(url: str, *, clock: Clock = time.monotonic) -> KeySource:
    """A URL: https, or http on this very machine."""
    parts = urlsplit(url)
    is_here = _is_loopback(parts.hostname)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_here):
        raise ConfigError("auth.jwt.jwks: an https URL; http only for this machine itself")
    if not parts.hostname or parts.username is not None:
        raise ConfigError("auth.jwt.jwks: a URL with a host and without a user")

    async def fetch() -> bytes:
        with anyio.fail_after(FETCH_SECONDS):
            async with (
                httpx2.AsyncClient(follow_redirects=False, trust_env=not is_here, timeout=FETCH_SECONDS) as client,
                client.stream("GET", url, headers={"accept": "application/json"}) as response,
            ):
                if response.status_code != 200:
                    raise KeysError(f"the answer is {response.status_code}")
                return await _bounded(response)

    where = f"{parts.scheme}://{parts.netloc}{parts.path}"
    return KeptKeys(where, fetch, fresh=FRESH_SECONDS, ask_again=ASK_AGAIN_SECONDS, clock=clock)


async def _bounded(response: httpx2.Response) -> bytes:
    held = bytearray()
    async for chunk in response.aiter_bytes():
        held += chunk
        if len(held) > MAX_DOCUMENT:
            raise KeysError(f"the document is larger than {MAX_DOCUMENT} bytes")
    return bytes(held)


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
