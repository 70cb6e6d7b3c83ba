"""ResultEnvelope: what the gateway says about a result it delivers, beside the text (spec 4). Nouns only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from leafgate.model.call import Origin

ENVELOPE_META_KEY: Final = "leafgate/envelope"

# A store makes handles of at most this many characters: digests reserve room for one before it is known.
HANDLE_CHARS: Final = 24


@dataclass(frozen=True)
class ArtifactRef:
    """Something withheld from the model, kept to be drilled into. Bytes that are no text have no tokens and lines."""

    handle: str
    media_type: str
    bytes: int
    tokens: int = 0
    lines: int = 0
    tokens_estimated: bool = False
    label: str = ""
    uri: str = ""

    @property
    def size_bytes(self) -> int:
        """The size under the name that the reference documents give it."""
        return self.bytes

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"handle": self.handle, "media_type": self.media_type, "bytes": self.bytes}
        if self.lines:
            body |= {"tokens": self.tokens, "lines": self.lines}
        if self.tokens_estimated:
            body["tokens_estimated"] = True
        body |= {name: value for name, value in (("label", self.label), ("uri", self.uri)) if value}
        return body


@dataclass(frozen=True)
class Artifact:
    """An artifact with its content, as the store gives it back; the tool it came from decides who may see it."""

    content: bytes
    media_type: str
    label: str
    origin: Origin | None = None
    is_text: bool = True


@dataclass(frozen=True)
class ResultEnvelope:
    """Travels in the result's `_meta`; empty parts are left out."""

    status: Literal["ok", "error"]
    summary: str = ""
    facts: tuple[str, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"status": self.status}
        if self.summary:
            body["summary"] = self.summary
        if self.facts:
            body["facts"] = list(self.facts)
        if self.artifacts:
            body["artifacts"] = [ref.as_json() for ref in self.artifacts]
        if self.provenance:
            body["provenance"] = dict(self.provenance)
        return body
