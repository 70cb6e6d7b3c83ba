"""The artifacts of sessions inside a program. In: an owner and an artifact. Out: a handle, made of the content.

Touches memory, bounded. Unlike the gateway's handles these can be computed by whoever has the content, so that the same
session gives the same pack in every process; they are for one program's own sessions, never for clients to guess at.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Final

from leafgate.model.envelope import HANDLE_CHARS, Artifact

DEFAULT_CAPACITY: Final = 256 * 1024 * 1024


class SessionArtifacts:
    """Keeps what was withheld; the least recently used goes first when it is full. Fills the port ArtifactStore.

    Sessions in several threads may share one.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._used = 0
        self._kept: OrderedDict[tuple[str, str], Artifact] = OrderedDict()
        self._busy = threading.Lock()

    def keep(self, owner: str, artifact: Artifact) -> str | None:
        """The handle; None where the artifact alone is larger than all there is room for."""
        if len(artifact.content) > self._capacity:
            return None
        named = f"{artifact.media_type}\n{artifact.label}\n".encode("utf-8", "replace")
        handle = hashlib.sha256(named + artifact.content).hexdigest()[:HANDLE_CHARS]
        with self._busy:
            if (owner, handle) not in self._kept:
                self._kept[owner, handle] = artifact
                self._used += len(artifact.content)
            self._kept.move_to_end((owner, handle))
            while self._used > self._capacity:
                _, dropped = self._kept.popitem(last=False)
                self._used -= len(dropped.content)
        return handle

    def find(self, owner: str, handle: str) -> Artifact | None:
        with self._busy:
            found = self._kept.get((owner, handle))
            if found is not None:
                self._kept.move_to_end((owner, handle))
            return found

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        return self.keep(owner, artifact)

    async def get(self, owner: str, handle: str) -> Artifact | None:
        return self.find(owner, handle)
