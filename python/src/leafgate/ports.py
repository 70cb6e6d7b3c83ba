"""What the gateway needs from outside, as Protocols. Adapters fill them; the gateway knows none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from leafgate.model.call import Origin
from leafgate.model.card import ChoiceCard
from leafgate.model.envelope import Artifact
from leafgate.model.errors import ErrorCode
from leafgate.model.leaf import Reason
from leafgate.model.served import Served

LeafOutcome = Literal["leaf", "shim", "skipped"]
# None is a good end; "cancelled" means that whoever asked gave up.
CallEnd = ErrorCode | Literal["cancelled"] | None


@dataclass(frozen=True)
class LeafReport:
    """What became of one text block: how it came by its ids, why its leaf was dropped, and what that cost."""

    outcome: LeafOutcome
    tokens: int
    rejected: Reason | None = None
    verify_seconds: float = 0.0
    tokenize_seconds: float = 0.0


@dataclass(frozen=True)
class ToolListing:
    """A tool's definition as its server gave it; `server` is empty for a source without a name."""

    server: str
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class Offers:
    """Everything that servers offer, each with its server's name."""

    tools: Sequence[ToolListing] = ()
    resources: Sequence[ToolListing] = ()
    templates: Sequence[ToolListing] = ()
    prompts: Sequence[ToolListing] = ()


class Caller(Protocol):
    """The client behind one call, as far as the server that works for it may talk to it."""

    @property
    def owner(self) -> str:
        """The same for all calls of one client."""
        ...

    @property
    def takes_input_requests(self) -> bool:
        """Whether an `input_required` result can be handed to it as it is; else its questions are asked one by one."""
        ...

    @property
    def resume(self) -> Mapping[str, Any]:
        """`inputResponses` and `requestState`, where this call answers an `input_required` result."""
        ...

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it declared that it can do, as MCP writes it."""
        ...

    @property
    def log_level(self) -> str | None:
        """The level from which on it wants to hear the server's log."""
        ...

    async def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """A server's question (sampling, elicitation, roots). GatewayError where the client cannot be asked."""
        ...


class Upstream(Protocol):
    """One or many MCP servers."""

    async def list_tools(self) -> Sequence[ToolListing]:
        """What is known now. Never waits for a server that is still starting."""
        ...

    async def call_tool(
        self, server: str, name: str, args: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        """The raw result. Raises UpstreamFailure, and nothing else."""
        ...

    async def settled(self) -> None:
        """Returns once every server has come up or failed once, or after a bounded wait."""
        ...


class PrimitiveUpstream(Protocol):
    """Resources and prompts of one or many servers. Every method raises UpstreamFailure, and nothing else."""

    async def list_resources(self) -> Sequence[ToolListing]: ...

    async def list_resource_templates(self) -> Sequence[ToolListing]: ...

    async def read_resource(self, server: str, uri: str, caller: Caller | None = None) -> Mapping[str, Any]: ...

    async def list_prompts(self) -> Sequence[ToolListing]: ...

    async def get_prompt(
        self, server: str, name: str, args: Mapping[str, str], caller: Caller | None = None
    ) -> Mapping[str, Any]: ...


class NativeUpstream(PrimitiveUpstream, Protocol):
    """What plain MCP clients need beyond tools: any request to one server, and word of updated resources."""

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]: ...

    def server_of_resource(self, uri: str) -> str | None:
        """The server that this URI belongs to: by its list, by a template, or as the only one with resources."""
        ...

    def servers_with(self, capability: str) -> Sequence[str]:
        """The servers that declare a capability (logging, completions, resources, …)."""
        ...

    async def watch(self, server: str, uri: str) -> None: ...

    async def unwatch(self, server: str, uri: str) -> None: ...


class ArtifactStore(Protocol):
    """Keeps what was withheld. A handle works only for the owner that made it. Raises StoreError, and nothing else."""

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        """The handle, of at most HANDLE_CHARS characters; None where the artifact is too large to be kept."""
        ...

    async def get(self, owner: str, handle: str) -> Artifact | None: ...


class ResultCache(Protocol):
    """Keeps raw results of read-only tools for a while. An entry that cannot be kept is not an error.

    `get` and `put` raise StoreError where the store fails.
    """

    def epoch(self) -> str:
        """Names the catalog of now; a result is found only by those who ask in the epoch that it was asked for in."""
        ...

    async def get(self, key: str) -> Mapping[str, Any] | None: ...

    async def put(self, key: str, raw: Mapping[str, Any], epoch: str) -> None: ...

    def renew(self, catalog: str) -> None:
        """Another catalog, known by this digest, is in place. At once: it is part of the step that swaps it.

        What was kept under another catalog is not found from now on. Gateways with equal catalogs may share results.
        """
        ...


class BrowseStates(Protocol):
    """Keeps which cards each owner has seen, for stable pages. `seen` and `keep` raise StoreError."""

    async def seen(self, owner: str) -> Mapping[str, ChoiceCard | None]:
        """Ids, each with its card as it was first sighted, if it was; nothing for an owner who is not known."""
        ...

    async def keep(self, owner: str, seen: Mapping[str, ChoiceCard | None]) -> None: ...

    def renew(self, catalog: str) -> None:
        """Another catalog, known by this digest, is in place: what was seen may no longer exist."""
        ...


# What is counted (words of the telemetry's own), and how often.
Counts = Mapping[tuple[str, ...], float]


class SharedCounts(Protocol):
    """Sums of counters that outlive a process, or that several processes add to. Raises StoreError."""

    async def add(self, counts: Counts, since: str) -> None:
        """Adds these, all or none, and once even if an answer is lost; `since` is kept where none was before."""
        ...

    async def sums(self) -> tuple[Counts, str]:
        """Everything that was ever added, and since when."""
        ...


@dataclass(frozen=True)
class KeptSession:
    """A session of the handshake era as another gateway can take it up: whose it is, and the words that opened it."""

    user: str
    hello: bytes


@dataclass(frozen=True)
class KeptEvent:
    """What a gateway sent on one stream of a session; without a message it only marks a place."""

    id: str
    stream: str
    gateway: str
    message: bytes


class Sessions(Protocol):
    """Keeps what a client may come back for, at another gateway or after a restart. Raises StoreError."""

    async def keep(self, id: str, session: KeptSession) -> bool:
        """For a while from now; whoever uses the session says so again in time. False: it was ended, and stays so."""
        ...

    async def find(self, id: str) -> KeptSession | None: ...

    async def end(self, id: str) -> None:
        """Forgets the session and its events. Only that it ended is kept, for as long as anybody may have it."""
        ...

    async def note(self, id: str, stream: str, gateway: str, message: bytes) -> str:
        """Keeps an event of a session, of which the last ones are kept, and names it."""
        ...

    async def noted(self, id: str, since: str) -> Sequence[KeptEvent]:
        """The event of this name and those after it, in their order; nothing where it is not known."""
        ...

    async def beat(self, gateway: str) -> None:
        """This gateway is there, and will be for some seconds."""
        ...

    async def is_alive(self, gateway: str) -> bool: ...


@dataclass(frozen=True)
class QuotaBreach:
    """A limit that would be broken: whose (a meta-tool or a tool id), which, and when it may be tried again."""

    scope: str
    limit: Literal["max_calls_per_minute", "max_calls_per_session"]
    retry_after: float | None


class Quotas(Protocol):
    """Counts calls per owner and scope. A scope is the name of a meta-tool, or a tool id. Raises StoreError."""

    async def take(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        """Counts one call in every scope, or in none of them and says which limit forbids it."""
        ...

    async def peek(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        """What `take` would answer; counts nothing."""
        ...


class Clock(Protocol):
    """Seconds that only ever grow, from any beginning."""

    def __call__(self) -> float: ...


class Sleep(Protocol):
    """Lets some seconds pass."""

    async def __call__(self, seconds: float, /) -> None: ...


class Recorder(Protocol):
    """Hears what happened. Never raises and never waits."""

    def leaf(self, origin: Origin, map_digest: str, report: LeafReport) -> None:
        """One text block of a tool result."""
        ...

    def own_text(self, map_digest: str, tokens: int, seconds: float) -> None:
        """A text that the gateway wrote itself was tokenized."""
        ...

    def detokenized(self, map_digest: str, tokens: int, seconds: float) -> None:
        """Arguments that came as ids were read."""
        ...

    def call(self, served: Served, end: CallEnd, seconds: float) -> None:
        """One request to the gateway, reported exactly once."""
        ...

    def upstream(self, server: str, end: CallEnd, seconds: float) -> None:
        """One request to a server; each attempt is one."""
        ...

    def shortened(self, origin: Origin, whole: int, shown: int) -> None:
        """A text of so many tokens was withheld, and so many are shown in its place."""
        ...

    def browsed(self, whole: int, shown: int) -> None:
        """A page of cards of so many tokens was sent; the definitions of all tools have so many."""
        ...


class Span(Protocol):
    """One stage of a request, as it is being drawn."""

    def note(self, name: str, fact: str | int) -> None: ...

    def fail(self, code: str) -> None:
        """The stage ended with this error."""
        ...


class Tracer(Protocol):
    """Draws the stages of requests. Never raises, and is told names and codes only: no arguments and no results."""

    def stage(self, name: str, **facts: str | int) -> AbstractContextManager[Span]:
        """One stage, inside the one that is open in this task."""
        ...
