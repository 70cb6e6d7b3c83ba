"""ResultEnvelope: what the gateway says about a result it delivers, beside the text; and artifacts (spec 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal


@dataclass(frozen=True)
class Origin:
    """The upstream tool that a result comes from."""

    server: str
    tool: str


ENVELOPE_META_KEY: Final = "leafgate/envelope"
# In the `_meta` of a request: what the client wants of the gateway.
ACCEPT_KEY: Final = "leafgate/accept"
ACCEPT_FULL: Final = {ACCEPT_KEY: {"envelope": "full"}}

# A store makes handles of at most this many characters: digests reserve room for one before it is known.
HANDLE_CHARS: Final = 24


@dataclass(frozen=True)
class ArtifactRef:
    """Content withheld from the model and stored for views. Bytes that are not text have no tokens or lines."""

    handle: str
    media_type: str
    bytes: int
    tokens: int = 0
    lines: int = 0
    tokens_estimated: bool = False
    label: str = ""
    uri: str = ""
    not_cleaned: bool = False

    @property
    def size_bytes(self) -> int:
        """The size under the name that the reference documents give it."""
        return self.bytes

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"handle": self.handle, "media_type": self.media_type, "bytes": self.bytes}
        if self.lines:
            body |= {"tokens": self.tokens, "lines": self.lines}
        rest = {"tokens_estimated": self.tokens_estimated, "label": self.label, "uri": self.uri}
        rest["not_cleaned"] = self.not_cleaned
        return body | {name: value for name, value in rest.items() if value}


@dataclass(frozen=True)
class Artifact:
    """An artifact with its content, as the store gives it back; the tool it came from decides who may see it.

    Content that is not clean took too long to clean: no part of it may be shown before all of it is.
    """

    content: bytes
    media_type: str
    label: str
    origin: Origin | None = None
    is_text: bool = True
    is_clean: bool = True


@dataclass(frozen=True)
class ResultEnvelope:
    """Travels in the result's `_meta`; empty parts are left out."""

    status: Literal["ok", "error"]
    summary: str = ""
    facts: tuple[str, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        lists = {"facts": list(self.facts), "artifacts": [ref.as_json() for ref in self.artifacts]}
        body = {"status": self.status, "summary": self.summary, **lists, "provenance": dict(self.provenance)}
        return {name: part for name, part in body.items() if part}
