"""Artifacts in memory, bounded. In: an owner and an artifact. Out: a handle that only that owner can use.

Touches memory, the system's randomness and the clock it is given. Content is held once, whoever owns it; a handle ends
when its time is over, when its owner's quota or the store is full and it was least recently used.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from anyio import to_thread

from leafgate.model.call import Origin
from leafgate.model.envelope import HANDLE_CHARS, Artifact

DEFAULT_CAPACITY: Final = 256 * 1024 * 1024
DEFAULT_QUOTA: Final = 64 * 1024 * 1024
DEFAULT_TTL: Final = 3600.0
ENTRY_COST: Final = 1024  # bytes that an entry takes beside its content, generously
THREAD_FROM: Final = 4 * 1024 * 1024


@dataclass
class _Content:
    data: bytes
    entries: int = 0


@dataclass(frozen=True)
class _Entry:
    digest: bytes
    media_type: str
    label: str
    origin: Origin | None
    is_text: bool
    size: int
    expires: float

    @property
    def identity(self) -> tuple[bytes, str, str, Origin | None]:
        return self.digest, self.media_type, self.label, self.origin


class MemoryArtifactStore:
    """Fills the ArtifactStore port."""

    def __init__(
        self,
        capacity: int = DEFAULT_CAPACITY,
        *,
        quota: int = DEFAULT_QUOTA,
        ttl: float = DEFAULT_TTL,
        quota_of: Callable[[str], int | None] = lambda owner: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`quota_of` gives the bytes of owners who have a quota of their own."""
        self._quota_of = quota_of
        self._capacity = capacity
        self._quota = quota
        self._ttl = ttl
        self._now = now
        self._contents: dict[bytes, _Content] = {}
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()  # least recently used first
        self._by_age: OrderedDict[tuple[str, str], None] = OrderedDict()  # oldest first
        self._of_owner: dict[str, OrderedDict[str, int]] = {}  # handles and their sizes, least recently used first
        self._owner_used: dict[str, int] = {}
        self._handles: dict[tuple[str, tuple[bytes, str, str, Origin | None]], str] = {}
        self._used = 0

    @property
    def used(self) -> int:
        """Bytes held, content counted once."""
        return self._used

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        """The handle; the same one while this owner's same artifact is kept. None: it is larger than the store."""
        data = artifact.content
        if len(data) + ENTRY_COST > self._capacity:
            return None
        large = len(data) >= THREAD_FROM
        digest = await to_thread.run_sync(_digest, data) if large else _digest(data)
        self._drop_expired()
        entry = _Entry(
            digest,
            artifact.media_type,
            artifact.label,
            artifact.origin,
            artifact.is_text,
            len(data) + ENTRY_COST,
            self._now() + self._ttl,
        )
        handle = self._handles.get((owner, entry.identity))
        if handle is not None:
            self._renew(owner, handle, entry)
            return handle
        handle = secrets.token_hex(HANDLE_CHARS // 2)
        self._add(owner, handle, entry, data)
        self._make_room(owner)
        return handle

    async def get(self, owner: str, handle: str) -> Artifact | None:
        self._drop_expired()
        entry = self._entries.get((owner, handle))
        if entry is None:
            return None
        self._entries.move_to_end((owner, handle))
        self._of_owner[owner].move_to_end(handle)
        content = self._contents[entry.digest].data
        return Artifact(content, entry.media_type, entry.label, entry.origin, entry.is_text)

    def _add(self, owner: str, handle: str, entry: _Entry, data: bytes) -> None:
        content = self._contents.get(entry.digest)
        if content is None:
            content = self._contents[entry.digest] = _Content(data)
            self._used += len(data)
        content.entries += 1
        self._used += ENTRY_COST
        self._entries[owner, handle] = entry
        self._by_age[owner, handle] = None
        self._of_owner.setdefault(owner, OrderedDict())[handle] = entry.size
        self._owner_used[owner] = self._owner_used.get(owner, 0) + entry.size
        self._handles[owner, entry.identity] = handle

    def _renew(self, owner: str, handle: str, entry: _Entry) -> None:
        self._entries[owner, handle] = entry
        self._entries.move_to_end((owner, handle))
        self._by_age.move_to_end((owner, handle))
        self._of_owner[owner].move_to_end(handle)

    def _drop(self, owner: str, handle: str) -> None:
        entry = self._entries.pop((owner, handle))
        del self._by_age[owner, handle]
        del self._handles[owner, entry.identity]
        mine = self._of_owner[owner]
        del mine[handle]
        self._owner_used[owner] -= entry.size
        if not mine:
            del self._of_owner[owner], self._owner_used[owner]
        content = self._contents[entry.digest]
        content.entries -= 1
        self._used -= ENTRY_COST
        if not content.entries:
            del self._contents[entry.digest]
            self._used -= len(content.data)

    def _drop_expired(self) -> None:
        now = self._now()
        while self._by_age:
            owner, handle = next(iter(self._by_age))
            if self._entries[owner, handle].expires > now:
                break
            self._drop(owner, handle)

    def _make_room(self, owner: str) -> None:
        """One artifact may be larger than its owner's quota; it is then the only one."""
        mine, own = self._of_owner[owner], self._quota_of(owner)
        quota = self._quota if own is None else own
        while self._owner_used[owner] > quota and len(mine) > 1:
            self._drop(owner, next(iter(mine)))
        while self._used > self._capacity and len(self._entries) > 1:
            self._drop(*next(iter(self._entries)))


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
