"""Results in memory, bounded in number, bytes and age. In: a key and a raw result. Out: an equal result, for a while.

Touches memory and the clock it is given. Entries are kept as bytes, so that nobody's changes to a result reach another.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from leafgate.model.errors import ConfigError, StoreError
from leafgate.ports import Clock
from leafgate.storage.packed import unpack

DEFAULT_TTL: Final = 300.0
DEFAULT_ENTRIES: Final = 1_000
DEFAULT_BYTES: Final = 64 * 1024 * 1024
ENTRY_OVERHEAD: Final = 200  # a key and the entry's own objects


@dataclass(frozen=True)
class CacheBounds:
    """How long, how many and how much, for every store of results."""

    ttl: float = DEFAULT_TTL
    max_entries: int = DEFAULT_ENTRIES
    max_bytes: int = DEFAULT_BYTES

    def __post_init__(self) -> None:
        for name, value in (("ttl", self.ttl), ("max_entries", self.max_entries), ("max_bytes", self.max_bytes)):
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise ConfigError(f"cache.{name}: a number above 0")


@dataclass(frozen=True)
class _Entry:
    content: bytes
    until: float

    @property
    def size(self) -> int:
        return len(self.content) + ENTRY_OVERHEAD


class ToolResultCache:
    """Fills the ResultCache port. The least recently used entry goes first."""

    def __init__(
        self,
        *,
        ttl: float = DEFAULT_TTL,
        max_entries: int = DEFAULT_ENTRIES,
        max_bytes: int = DEFAULT_BYTES,
        clock: Clock = time.monotonic,
    ) -> None:
        bounds = CacheBounds(ttl, max_entries, max_bytes)
        self._ttl = bounds.ttl
        self._max_entries = bounds.max_entries
        self._max_bytes = bounds.max_bytes
        self._clock = clock
        self._renewals = 0
        self._used = 0
        self._kept: OrderedDict[str, _Entry] = OrderedDict()

    def epoch(self) -> str:
        return str(self._renewals)

    async def get(self, key: str) -> Mapping[str, Any] | None:
        entry = self._kept.get(key)
        if entry is None:
            return None
        if self._clock() >= entry.until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        found = json.loads(entry.content)
        assert isinstance(found, dict)
        return found

    async def put(self, key: str, raw: Mapping[str, Any], epoch: str) -> None:
        content = written(raw, self._max_bytes) if epoch == self.epoch() else None
        if content is None:
            return
        entry = _Entry(content, self._clock() + self._ttl)
        if entry.size > self._max_bytes:
            return
        self._drop(key)
        self._kept[key] = entry
        self._used += entry.size
        while len(self._kept) > self._max_entries or self._used > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def renew(self, catalog: str) -> None:
        """Also where the catalog is the same as before: its servers may have been started anew."""
        self._renewals += 1
        self._kept.clear()
        self._used = 0

    def _drop(self, key: str) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._used -= dropped.size


def written(raw: Mapping[str, Any], limit: int) -> bytes | None:
    """A result as bytes; None where it is larger than this, or no JSON."""
    if _larger_than(raw, limit):
        return None
    try:
        return json.dumps(raw, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None


def read_result(packed: bytes, most: int) -> Mapping[str, Any]:
    """A result as a store gave it back; StoreError where it is none."""
    try:
        found = json.loads(unpack(packed, most))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StoreError("a result in the store is damaged")
    return found


def _larger_than(value: object, limit: int) -> bool:
    """Whether a value is surely larger than this as JSON. Ends as soon as it knows: a large one is not written out."""
    size = 0
    stack = [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, Mapping):
            stack += inner.keys()
            stack += inner.values()
        elif isinstance(inner, list | tuple):
            stack += inner
        size += len(inner) + 2 if isinstance(inner, str) else 1
        if size > limit:
            return True
    return False
