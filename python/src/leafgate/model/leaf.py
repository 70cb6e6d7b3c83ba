"""Leaf tokens: digests, payloads, verdicts (spec 5).

This file owns the digest rule: what is accepted, and that only `sha256:<lower-case hex>` is ever emitted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from leafgate.model.errors import MapDigestError

CODEC_META_KEY: Final = "ai.codec/leaf-tokenization"
WITHDRAWN_BLOCK_TYPE: Final = "_codec_meta"
MAX_ID: Final = 0xFFFFFFFF

Level = Literal["trust", "decode", "canonical"]
Reason = Literal[
    "foreign-map",
    "empty-text",
    "bad-text",
    "too-many-ids",
    "not-integer",
    "negative",
    "too-large",
    "special-id",
    "unknown-id",
    "text-mismatch",
    "non-canonical",
]
# How a gateway checks: at one level, or `sampled`: `decode`, and a share of the leaves `canonical` (spec 6.2).
CheckMode = Literal["trust", "decode", "sampled", "canonical"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE | re.ASCII)


def parse_digest(value: object) -> str:
    """The emitted form of a digest, or MapDigestError."""
    match = _DIGEST.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise MapDigestError(f"not a sha256 digest: {str(value)[:80]!r}")
    return f"sha256:{match.group(1).lower()}"


def is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def digest_of(raw: bytes) -> str:
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


@dataclass(frozen=True)
class LeafPayload:
    """A well-formed leaf as found on a block: the map in its emitted form, the ids not yet judged."""

    map_id: str
    ids: Sequence[Any]

    def as_json(self) -> dict[str, Any]:
        return {"map_id": self.map_id, "ids": list(self.ids)}


@dataclass(frozen=True)
class Verdict:
    """Accepted, or rejected with the first reason that applies."""

    reason: Reason | None = None

    @property
    def accepted(self) -> bool:
        return self.reason is None

    def as_json(self) -> dict[str, Any]:
        return {"verdict": "accept" if self.accepted else "reject", "reason": self.reason}


ACCEPTED: Final = Verdict()
