"""ResultEnvelope: what the gateway says about a result it delivers, beside the text (spec 4). Nouns only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

ENVELOPE_META_KEY: Final = "leafgate/envelope"


@dataclass(frozen=True)
class ArtifactRef:
    """Something withheld from the model, kept to be drilled into."""

    handle: str
    media_type: str
    bytes: int
    tokens: int
    lines: int

    def as_json(self) -> dict[str, Any]:
        return {
            "handle": self.handle,
            "media_type": self.media_type,
            "bytes": self.bytes,
            "tokens": self.tokens,
            "lines": self.lines,
        }


@dataclass(frozen=True)
class Artifact:
    """An artifact with its content, as the store gives it back."""

    content: bytes
    media_type: str
    label: str


@dataclass(frozen=True)
class ResultEnvelope:
    """Travels in the result's `_meta`; empty parts are left out."""

    status: Literal["ok", "error"]
    artifacts: tuple[ArtifactRef, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"status": self.status}
        if self.artifacts:
            body["artifacts"] = [ref.as_json() for ref in self.artifacts]
        if self.provenance:
            body["provenance"] = dict(self.provenance)
        return body
