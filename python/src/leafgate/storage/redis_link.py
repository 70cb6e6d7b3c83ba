"""The way to a Redis or Valkey server. In: scripts with keys and arguments. Out: their answers, or a StoreError.

Touches the network. Every answer is waited for a bounded time; after a failure everybody is told at once for a moment,
so that a server that is gone does not hold each request for as long. What is shown of its address has no secrets.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from ssl import SSLCertVerificationError
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ConnectionError, OutOfMemoryError, RedisError, TimeoutError

from leafgate.model.errors import ConfigError, StoreError

SCHEMA_VERSION: Final = b"1"
CONNECTIONS: Final = 32
ANSWER_SECONDS: Final = 2.0
CALM_SECONDS: Final = 0.5

# One slot: scripts touch several keys.
PREFIX: Final = "{leafgate}"

Clock = Callable[[], float]


class RedisLink:
    """Connections to one server, made when they are needed."""

    def __init__(self, url: str, *, answer_seconds: float = ANSWER_SECONDS, clock: Clock = time.monotonic) -> None:
        self.shown = shown_address(url)
        self._clock = clock
        self._down_until = 0.0
        # A connection that was closed meanwhile is opened again, once. What timed out may have been done: not again.
        again = Retry(NoBackoff(), 1, supported_errors=(ConnectionError,))
        try:
            pool = BlockingConnectionPool.from_url(
                _redis_url(url),
                max_connections=CONNECTIONS,
                timeout=answer_seconds,
                socket_timeout=answer_seconds,
                socket_connect_timeout=answer_seconds,
                retry=again,
            )
            pool.connection_class(**pool.connection_kwargs)  # connects nobody, and knows whether there are such options
        except (ValueError, TypeError, RedisError):  # its words repeat the address
            raise ConfigError(
                f"state: {self.shown} is not an address of a Redis server, or has unknown options"
            ) from None
        self._redis: Redis = Redis(connection_pool=pool)

    def script(self, text: str) -> RedisScript:
        return RedisScript(self, self._redis.register_script(text))

    async def open(self) -> None:
        """StoreError where the server cannot be reached, or keeps the state of another version."""
        await self.asked(lambda: self._redis.set(f"{PREFIX}:version", SCHEMA_VERSION, nx=True))
        found = await self.asked(lambda: self._redis.get(f"{PREFIX}:version"))
        if found != SCHEMA_VERSION:
            raise StoreError(
                f"{self.shown}: the state there is of another version of leafgate; choose another database number"
            )

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def asked(self, ask: Callable[[], Any]) -> Any:
        """The answer to one request."""
        if self._clock() < self._down_until:
            raise StoreError(f"{self.shown}: not reachable a moment ago")
        try:
            return await ask()
        except (RedisError, OSError) as error:
            if isinstance(error, ConnectionError | TimeoutError | OSError):
                self._down_until = self._clock() + CALM_SECONDS
            raise StoreError(f"{self.shown}: {_told(error)}") from error


class RedisScript:
    """One atomic step on the server."""

    def __init__(self, link: RedisLink, script: Any) -> None:
        self._link = link
        self._script = script

    async def __call__(self, keys: Sequence[str], args: Sequence[str | bytes | float]) -> Any:
        return await self._link.asked(lambda: self._script(keys=keys, args=args))


def shown_address(url: str) -> str:
    """Where the server is, and nothing of how to get in."""
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError:
        return "redis://…"
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    # A password with a slash that is not escaped looks like a path.
    return f"{parts.scheme}://{parts.hostname or ''}:{port}{parts.path}" if _has_number(parts) else "redis://…"


def _has_number(parts: SplitResult) -> bool:
    return re.fullmatch(r"/?[0-9]*", parts.path) is not None


def _redis_url(url: str) -> str:
    """Valkey speaks the same protocol. ValueError where the database is no number, which would mean the first one."""
    if not url.startswith("unix:") and not _has_number(urlsplit(url)):
        raise ValueError("no number")
    for valkey, redis in (("valkey://", "redis://"), ("valkeys://", "rediss://")):
        if url.startswith(valkey):
            return redis + url.removeprefix(valkey)
    return url


def _told(error: Exception) -> str:
    # A refusal while connecting comes wrapped.
    if any(isinstance(each, AuthenticationError) for each in (error, error.__cause__, error.__context__)):
        return "it refuses the name or the password"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if any(isinstance(each, SSLCertVerificationError) for each in (error, error.__cause__, error.__context__)):
        return "its certificate is not trusted; name the file of its authority: rediss://…?ssl_ca_certs=FILE"
    if isinstance(error, OutOfMemoryError):
        return "its memory is full; raise maxmemory"
    if isinstance(error, ConnectionError | OSError):
        return "not reachable"
    return f"it answers with an error: {str(error)[:200]}"
