"""What the gateway needs from outside, as Protocols. Adapters implement them; the gateway knows no adapter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from leafgate.model.envelope import Artifact, Origin
from leafgate.model.errors import ErrorCode
from leafgate.model.leaf import Level, Reason
from leafgate.model.request import ClientChannel, Served
from leafgate.model.tool import ChoiceCard

LeafOutcome = Literal["leaf", "shim", "skipped"]
# None: a good end. "tool_error": the result of the tool is an error. "cancelled": the caller gave up.
CallEnd = ErrorCode | Literal["tool_error", "cancelled"] | None


@dataclass(frozen=True)
class LeafReport:
    """How one text block got its ids, why its leaf was rejected, and what that cost.

    `checked` is the level at which its leaf was checked. `was_cleaned`: it came with a leaf, which was dropped because
    the text was cleaned. `leaf_seconds` is what a leaf would have cost in place of tokenizing, where it was measured.
    """

    outcome: LeafOutcome
    tokens: int
    rejected: Reason | None = None
    verify_seconds: float = 0.0
    tokenize_seconds: float = 0.0
    checked: Level | None = None
    was_cleaned: bool = False
    leaf_seconds: float | None = None


@dataclass(frozen=True)
class ToolListing:
    """The definition of a tool, resource, template or prompt, as its server wrote it; `server` may be empty."""

    server: str
    definition: Mapping[str, Any]


OfferKind = Literal["tools", "resources", "templates", "prompts", "skills"]


@dataclass(frozen=True)
class ListedForm:
    """What of a definition can stand in a list, None if nothing can; and what was removed: pointers, with reasons."""

    definition: Mapping[str, Any] | None
    removed: tuple[tuple[str, str], ...] = ()


FitForLists = Callable[[OfferKind, Mapping[str, Any]], ListedForm]


def fit_as_written(kind: OfferKind, definition: Mapping[str, Any]) -> ListedForm:
    """For gateways whose lists no client reads: every definition as it is."""
    return ListedForm(definition)


@dataclass(frozen=True)
class Offers:
    """Everything that servers offer, each with its server's name. `instructions` are texts for models, by server."""

    tools: Sequence[ToolListing] = ()
    resources: Sequence[ToolListing] = ()
    templates: Sequence[ToolListing] = ()
    prompts: Sequence[ToolListing] = ()
    skills: Sequence[ToolListing] = ()
    instructions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CacheHint:
    """For how long a list or a resource stays as it is, and whether every caller gets the same (spec 3.12)."""

    ttl_ms: int = 0
    is_public: bool = False

    def narrow(self, other: CacheHint) -> CacheHint:
        """The hint of something that is made of two parts."""
        return CacheHint(min(self.ttl_ms, other.ttl_ms), self.is_public and other.is_public)

    def as_json(self) -> dict[str, Any]:
        return {"ttlMs": self.ttl_ms, "cacheScope": "public" if self.is_public else "private"}


MAX_TTL_MS: Final = 24 * 60 * 60 * 1000


def read_cache_hint(raw: Mapping[str, Any]) -> CacheHint:
    """The hint in a result. Only the stateless era has hints; a value that is not one counts as "not at all"."""
    ttl = raw.get("ttlMs")
    if raw.get("resultType") is None or isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl > 0:
        ttl = 0  # also for NaN, which is not greater than 0
    return CacheHint(int(min(ttl, MAX_TTL_MS)), raw.get("cacheScope") == "public")


# The extension of MCP by which a server answers a call with a task, whose result is fetched later (SEP-2663).
TASKS: Final = "io.modelcontextprotocol/tasks"


@dataclass(frozen=True)
class ServerInstance:
    """What holds the tasks of a server, by a name: for a URL the same in every gateway, for a process only
    while that process runs. `timeout` is the number of seconds that a call of the server may take."""

    name: str = ""
    timeout: float = 60.0


class Receipt(Protocol):
    """Counts the bytes of a message while it is received."""

    def count(self, size: int) -> None:
        """So many bytes more were received."""

    def clear(self) -> None:
        """The message is complete, or given up."""

    def spend(self, seconds: float) -> None:
        """A step of the event loop, for the message, took so long."""

    async def wait_for_turn(self) -> None:
        """Return when more may be received."""


class Intake(Protocol):
    """One server's share of the gateway: whether another message may be read, and what is held of its messages.

    While the gateway works on too many results of a server, it reads no further ones of that server.
    """

    @property
    def is_full(self) -> bool:
        """Whether no further message of the server is read now."""

    async def wait_for_space(self) -> None: ...

    def spend(self, seconds: float) -> None:
        """A step of the event loop, for what the server sent, took so long."""

    def receive(self) -> AbstractContextManager[Receipt]:
        """Inside this context messages are received one after another."""

    def note_dropped(self, kind: str) -> None:
        """A notification of this kind was not passed on."""


class Upstream(Protocol):
    """One or many MCP servers. Its methods raise UpstreamFailure, and nothing else."""

    async def list_offers(self) -> Offers:
        """What the servers offer now. Does not wait for a server that is still starting."""

    def list_hint(self, kind: OfferKind) -> CacheHint | None:
        """For how long the offers of a kind stay as last listed, as far as the servers promise it.

        None if no server has a list of this kind.
        """

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], client: ClientChannel | None = None
    ) -> Mapping[str, Any]:
        """The raw result of one MCP request. Meanwhile the server may talk to `client`."""

    async def watch(self, server: str, uri: str) -> None:
        """Subscribe to updates of a resource."""

    async def unwatch(self, server: str, uri: str) -> None: ...

    def servers_with(self, capability: str) -> Sequence[str]:
        """The servers that declare a capability (logging, completions, resources, …), an extension by its identifier,
        or a setting of one (IDENTIFIER#SETTING). One that has sent a leaf counts as one that declares leaves."""

    def server_of_resource(self, uri: str) -> str | None:
        """The server that a URI belongs to: by its list, by a template, or as the only one with resources."""

    async def wait_for_start(self) -> None:
        """Return once every server has come up or failed once, or after a bounded wait."""

    def instance_of(self, server: str) -> ServerInstance:
        """The instance of a server that requests go to now."""


class ArtifactStore(Protocol):
    """Stores withheld content. A handle works only for the owner that created it. Raises only StoreError."""

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        """The handle, of at most HANDLE_CHARS characters; None if the artifact is too large for the store."""

    async def get(self, owner: str, handle: str) -> Artifact | None: ...


@dataclass(frozen=True)
class TaskRecord:
    """A task that a client was given: where it is, and the tool whose result it will have.

    `instance` names the ServerInstance that made it. `is_native`: the tool was called by its own name, as a client does
    that knows its output schema.
    """

    server: str
    instance: str
    task_id: str  # as its server knows it
    tool: str
    is_native: bool = False


class Tasks(Protocol):
    """Stores tasks for a while. An id cannot be guessed, and works only for its owner. Raises StoreError."""

    async def put(self, owner: str, task: TaskRecord, seconds: float) -> str:
        """The public id of the task."""

    async def get(self, owner: str, id: str) -> TaskRecord | None: ...


class ResultCache(Protocol):
    """Caches raw results of read-only tools for a while. A result that cannot be cached is not an error.

    `get` and `put` raise StoreError if the store fails.
    """

    def epoch(self) -> str:
        """The name of the present catalog. A result is found only in the epoch in which its request started."""

    async def get(self, key: str) -> Mapping[str, Any] | None: ...

    async def put(self, key: str, raw: Mapping[str, Any], epoch: str) -> None: ...

    def renew(self, catalog: str) -> None:
        """Change to the catalog with this digest. Not async, because it is part of the step that swaps the catalog.

        Results of another catalog are no longer found. Gateways with equal catalogs may share results.
        """


class BrowseStates(Protocol):
    """Stores which cards each owner has seen, for stable pages. `load` and `save` raise StoreError."""

    async def load(self, owner: str) -> Mapping[str, ChoiceCard | None]:
        """Ids, each with the card that was first shown, or None; empty for a new owner."""

    async def save(self, owner: str, cards: Mapping[str, ChoiceCard | None]) -> None: ...

    def renew(self, catalog: str) -> None:
        """Change to the catalog with this digest: earlier cards may no longer exist."""


# Names of counters, which telemetry chooses, and their values.
Counts = Mapping[tuple[str, ...], float]


class SharedCounts(Protocol):
    """Sums of counters that outlive a process, or that several processes add to. Raises StoreError."""

    async def add(self, counts: Counts, since: str) -> None:
        """Add all counts or none, and once even if an answer is lost. The first `since` is stored."""

    async def sums(self) -> tuple[Counts, str]:
        """The sums of everything that was added, and the stored `since`."""


@dataclass(frozen=True)
class SessionRecord:
    """A session of the handshake era, for another gateway to resume: its user, and the initialize message."""

    user: str
    hello: bytes


@dataclass(frozen=True)
class SessionEvent:
    """A message that a gateway sent on one stream of a session; an empty one only marks a position."""

    id: str
    stream: str
    gateway: str
    message: bytes


class Sessions(Protocol):
    """Stores sessions and their events, for clients that resume at another gateway or after a restart.

    Raises StoreError.
    """

    async def keep(self, id: str, session: SessionRecord) -> bool:
        """Store the session for a while; repeat it while the session is in use. False if the session was ended."""

    async def find(self, id: str) -> SessionRecord | None: ...

    async def end(self, id: str) -> None:
        """Delete the session and its events. That it was ended is stored, so that it cannot be kept again."""

    async def add_event(self, id: str, stream: str, gateway: str, message: bytes) -> str | None:
        """Store an event of a session and return its id; None if it is too large to be stored.

        Only the last events of a session are stored, bounded in number and in bytes.
        """

    async def events_from(self, id: str, first: str) -> Sequence[SessionEvent]:
        """The event with the id `first` and those after it, in order; empty if that event is not stored."""

    async def beat(self, gateway: str) -> None:
        """Report that this gateway is alive, which is valid for some seconds."""

    async def is_alive(self, gateway: str) -> bool: ...


ApprovalStatus = Literal["asked", "pending", "approved", "denied"]


@dataclass(frozen=True)
class Approval:
    """A call that needs approval, while a person decides or after one did.

    `asked`: its client has the question. `pending`: an operator has it, and is shown `about`, a JSON object. `binding`
    is a digest of what the approval is for; it is good for nothing else.
    """

    id: str
    status: ApprovalStatus
    binding: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)


class Approvals(Protocol):
    """Stores approvals, each for a limited time, so that any gateway can go on with a call. Raises StoreError."""

    async def add(self, caller: str, approval: Approval, seconds: float) -> bool:
        """Store an approval for so many seconds. False if this caller, or all together, have too many."""

    async def take(self, id: str) -> Approval | None:
        """Remove an approval and return it: it can be used once. None if there is none, or its time is over."""

    async def find(self, id: str) -> Approval | None: ...

    async def decide(self, id: str, *, approve: bool) -> Approval | None:
        """Answer one that is pending, and return it as it was; None if there is none."""

    async def list_pending(self) -> Sequence[Approval]:
        """Those that wait for an operator, the oldest first."""


FlowRecordKind = Literal["text", "secret", "sent"]


@dataclass(frozen=True)
class FlowRecord:
    """What flow rules remember of a caller: fingerprints of what was read from a server (`text`, `secret`), or pieces
    of it that went to a server (`sent`). It never holds the text itself. A record with the same id is the same."""

    id: str  # a word
    kind: FlowRecordKind
    server: str
    data: bytes = b""


class FlowRecords(Protocol):
    """Stores flow records by owner for a while; per kind and server the newest, up to a number of bytes.

    Raises StoreError.
    """

    async def key(self) -> bytes:
        """The key of fingerprints: random, made once, and the same for all gateways that share the store."""

    async def add(self, owner: str, record: FlowRecord) -> None: ...

    async def list(self, owner: str) -> Sequence[FlowRecord]:
        """All records of an owner, without their data."""

    async def load(self, owner: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        """The data of those records that are still stored."""


Clock = Callable[[], float]  # seconds that never decrease, from any start
Sleep = Callable[[float], Awaitable[None]]


class Recorder(Protocol):
    """Receives reports of what happened. Never raises and never waits."""

    def leaf(self, origin: Origin, map_digest: str, report: LeafReport) -> None:
        """One text block of a tool result."""

    def own_text(self, map_digest: str, tokens: int, seconds: float) -> None:
        """A text that the gateway wrote itself was tokenized."""

    def detokenized(self, map_digest: str, tokens: int, seconds: float) -> None:
        """Arguments that came as ids were read."""

    def call(self, served: Served, end: CallEnd, seconds: float) -> None:
        """One request to the gateway, reported exactly once."""

    def upstream(self, server: str, end: CallEnd, seconds: float) -> None:
        """One request to a server; each attempt is one."""

    def shortened(self, origin: Origin, whole: int, shown: int) -> None:
        """A text of so many tokens was withheld, and so many are shown in its place."""

    def instructed(self, server: str, action: Literal["flagged", "quarantined"]) -> None:
        """An answer or a question of a server reads like instructions to a model."""

    def browsed(self, whole: int, shown: int) -> None:
        """A page of cards of so many tokens was sent; the definitions of all tools have so many."""


class AuditLog(Protocol):
    """Receives one entry per request. Never raises and never waits."""

    def call(self, served: Served, end: CallEnd, seconds: float) -> None:
        """One request to the gateway, reported exactly once."""

    def refused(self, principal: str | None, where: str, reason: str) -> None:
        """A request that was refused before it reached the gateway; `where` is a path or a method."""


class Span(Protocol):
    """One stage of a request that is being traced."""

    def note(self, name: str, fact: str | int) -> None: ...

    def fail(self, code: str) -> None:
        """The stage ended with this error."""


class Tracer(Protocol):
    """Traces the stages of requests. Never raises. Gets names and codes only, no arguments and no results."""

    def stage(self, name: str, **facts: str | int) -> AbstractContextManager[Span]:
        """One stage, inside the one that is open in this task."""
