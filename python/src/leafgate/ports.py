"""What the gateway needs from outside, as Protocols. Adapters fill them; the gateway knows none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from leafgate.model.call import Origin
from leafgate.model.envelope import Artifact
from leafgate.model.errors import ErrorCode
from leafgate.model.leaf import Reason

LeafOutcome = Literal["leaf", "shim", "rejected", "skipped"]


@dataclass(frozen=True)
class ToolListing:
    """A tool's definition as its server gave it; `server` is empty for a source without a name."""

    server: str
    definition: Mapping[str, Any]


class Upstream(Protocol):
    """One or many MCP servers."""

    async def list_tools(self) -> Sequence[ToolListing]:
        """What is known now. Never waits for a server that is still starting."""
        ...

    async def call_tool(self, server: str, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """The raw result. Raises UpstreamFailure, and nothing else."""
        ...

    async def settled(self) -> None:
        """Returns once every server has come up or failed once, or after a bounded wait."""
        ...


class ArtifactStore(Protocol):
    """Keeps what was withheld. A handle works only for the owner that made it."""

    async def put(self, owner: str, artifact: Artifact) -> str: ...

    async def get(self, owner: str, handle: str) -> Artifact | None: ...


class Recorder(Protocol):
    """Hears what happened. Never raises and never waits."""

    def leaf(self, origin: Origin, map_digest: str, outcome: LeafOutcome, tokens: int, reason: Reason | None) -> None:
        """One text block of a tool result."""
        ...

    def own_text(self, map_digest: str, tokens: int) -> None:
        """A text that the gateway wrote itself was tokenized."""
        ...

    def call(self, operation: str, error: ErrorCode | None, seconds: float) -> None:
        """One request to the gateway, reported exactly once."""
        ...

    def shortened(self, origin: Origin, whole: int, shown: int) -> None:
        """A text of so many tokens was withheld, and so many are shown in its place."""
        ...
