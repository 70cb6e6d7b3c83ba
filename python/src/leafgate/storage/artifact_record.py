"""An artifact as stores outside of this process keep it. In: an Artifact. Out: its record; or the Artifact again.

Touches a thread, for large content. Two artifacts with one identity are one; two with one digest share their content.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from typing import Final

from anyio import to_thread

from leafgate.model.call import Origin
from leafgate.model.envelope import HANDLE_CHARS, Artifact
from leafgate.model.errors import StoreError
from leafgate.storage.memory import ENTRY_COST
from leafgate.storage.packed import pack, unpack

THREAD_FROM: Final = 64 * 1024  # bytes: below, compressing takes less time than finding a thread

_HANDLE: Final = re.compile(rf"[0-9a-f]{{{HANDLE_CHARS}}}", re.ASCII)


@dataclass(frozen=True)
class ArtifactRecord:
    """`about` is everything but the content, as JSON; `size` is what its owner pays for it."""

    digest: str
    identity: str
    about: str
    packed: bytes
    length: int

    @property
    def size(self) -> int:
        return self.length + ENTRY_COST


async def record_of(artifact: Artifact) -> ArtifactRecord:
    if len(artifact.content) < THREAD_FROM:
        return _record(artifact)
    return await to_thread.run_sync(_record, artifact)


async def artifact_of(about: str, packed: bytes) -> Artifact:
    if len(packed) < THREAD_FROM:
        return _artifact(about, packed)
    return await to_thread.run_sync(_artifact, about, packed)


def new_handle() -> str:
    """Nobody can guess it."""
    return secrets.token_hex(HANDLE_CHARS // 2)


def is_handle(handle: str) -> bool:
    """Whether this can be a handle at all; anything else need not be looked for."""
    return _HANDLE.fullmatch(handle) is not None


def _record(artifact: Artifact) -> ArtifactRecord:
    origin = None if artifact.origin is None else [artifact.origin.server, artifact.origin.tool]
    digest = hashlib.sha256(artifact.content).hexdigest()
    told = [artifact.media_type, artifact.label, origin, artifact.is_text, len(artifact.content)]
    about = json.dumps(told, separators=(",", ":"))
    identity = hashlib.sha256(f"{digest}{about}".encode()).hexdigest()
    return ArtifactRecord(digest, identity, about, pack(artifact.content), len(artifact.content))


def _artifact(about: str, packed: bytes) -> Artifact:
    try:
        media_type, label, origin, is_text, length = json.loads(about)
        source = None if origin is None else Origin(*origin)
        return Artifact(unpack(packed, int(length)), str(media_type), str(label), source, is_text is True)
    except (ValueError, TypeError) as error:
        raise StoreError(f"an artifact in the store is damaged: {type(error).__name__}") from None
