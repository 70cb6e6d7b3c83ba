"""Artifacts in memory, bounded. In: an owner and an artifact. Out: a handle that only that owner can use.

Touches memory and the system's randomness. The least recently used artifact goes first when the store is full.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

from leafgate.model.envelope import Artifact

DEFAULT_CAPACITY: Final = 256 * 1024 * 1024
HANDLE_BYTES: Final = 12


class MemoryArtifactStore:
    """Fills the ArtifactStore port."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._used = 0
        self._kept: OrderedDict[tuple[str, str], Artifact] = OrderedDict()

    async def put(self, owner: str, artifact: Artifact) -> str:
        handle = secrets.token_hex(HANDLE_BYTES)
        self._kept[owner, handle] = artifact
        self._used += len(artifact.content)
        while self._used > self._capacity and len(self._kept) > 1:
            _, evicted = self._kept.popitem(last=False)
            self._used -= len(evicted.content)
        return handle

    async def get(self, owner: str, handle: str) -> Artifact | None:
        found = self._kept.get((owner, handle))
        if found is not None:
            self._kept.move_to_end((owner, handle))
        return found
