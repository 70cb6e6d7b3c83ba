"""What the state backends share: the State port, limits, and the records of a store outside this process.

Such a store sees owners only as digests. An owner may be the id of an MCP session, and a reader of the
store could resume that session with it.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, Unpack, get_args

from anyio import to_thread

from leafgate.admission.policy import Limit, RateLimits
from leafgate.codec.compression import CompressionError, compress, decompress
from leafgate.model.envelope import HANDLE_CHARS, Artifact, Origin
from leafgate.model.errors import ConfigError, StoreError
from leafgate.model.rights import QuotaBreach, Quotas
from leafgate.model.tool import ChoiceCard
from leafgate.ports import (
    Approval,
    Approvals,
    ApprovalStatus,
    ArtifactStore,
    BrowseStates,
    FlowRecord,
    FlowRecordKind,
    FlowRecords,
    ResultCache,
    Sessions,
    SharedCounts,
    TaskRecord,
    Tasks,
)


class State(Protocol):
    """One store for everything that a gateway, or all gateways that share the store, remember."""

    async def open(self) -> None:
        """Check the store now rather than on first use. StoreError if it cannot be used."""
        ...

    async def close(self) -> None: ...

    def artifacts(self, quota_of: Callable[[str], int | None]) -> ArtifactStore: ...

    def results(self, bounds: CacheBounds) -> ResultCache: ...

    def quotas(self, limits: RateLimits, space: str) -> Quotas:
        """Limits with the same `space` are counted together, in all gateways."""
        ...

    def browse_states(self) -> BrowseStates: ...

    def tasks(self) -> Tasks: ...

    def shared_counts(self) -> SharedCounts | None:
        """None if nothing outlives the process or is shared with another one."""
        ...

    def sessions(self) -> Sessions | None:
        """None if nothing outlives the process or is shared with another one."""
        ...

    def approvals(self) -> Approvals: ...

    def flows(self) -> FlowRecords: ...


# Limits

DAY: Final = 86_400
ENTRY_COST: Final = 1024  # bytes that an artifact takes beside its content, generously
RESULT_COST: Final = 200  # the same for a cached result
MAX_COUNTERS: Final = 20_000  # of calls, by owner and scope
CALL_COUNT_SECONDS: Final = DAY  # a stored sum of calls per session ends after this time without a call
MAX_OWNERS: Final = 1_000  # with a browse state
MAX_CARD_BYTES: Final = 8 * 1024 * 1024  # JSON of one owner's cards; larger states are not kept
MAX_TASKS: Final = 20_000  # in memory; elsewhere their time bounds them
MAX_NAMES: Final = 50_000  # counters that a store sums up; further ones are not counted
SESSION_SECONDS: Final = 3_600  # since its last use
EVENT_SECONDS: Final = 600
MAX_EVENTS: Final = 256  # of one session
MAX_EVENT_BYTES: Final = 32 * 1024 * 1024  # of one session
ALIVE_SECONDS: Final = 15
MAX_APPROVALS: Final = 1_000  # questions to clients and calls that wait for an operator, of all callers
MAX_APPROVALS_OF_ONE: Final = 50
FLOW_SECONDS: Final = 3_600
MAX_FLOW_BYTES: Final = 4 * 1024 * 1024  # of one owner, kind and server; four bytes for each letter that was read
MAX_FLOW_RECORDS: Final = 256  # the same in records
MAX_FLOW_OWNERS: Final = 1_000  # in memory; elsewhere their time bounds them
FLOW_KEY_BYTES: Final = 32


@dataclass(frozen=True)
class ArtifactLimits:
    """Bytes for all owners and for one owner, and seconds. `quota_of` returns the quota of an owner with its own."""

    capacity: int = 256 * 1024 * 1024
    quota: int = 64 * 1024 * 1024
    ttl: float = 3600.0
    quota_of: Callable[[str], int | None] = lambda owner: None

    def allow(self, artifact: Artifact) -> bool:
        return len(artifact.content) + ENTRY_COST <= self.capacity

    def quota_for(self, owner: str) -> int:
        own = self.quota_of(owner)
        return self.quota if own is None else own


ARTIFACT_LIMITS: Final = ArtifactLimits()


@dataclass(frozen=True)
class CacheBounds:
    """Age in seconds, number and bytes of cached results."""

    ttl: float = 300.0
    max_entries: int = 1_000
    max_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise ConfigError(f"cache.{name}: a number above 0")


# Bytes: the first one says how the others are encoded.

COMPRESS_FROM: Final = 1024
_PLAIN: Final = b"\x00"
_ZSTD: Final = b"\x01"


def pack(data: bytes) -> bytes:
    """The bytes, compressed if there are at least COMPRESS_FROM and compression saves space."""
    if len(data) >= COMPRESS_FROM:
        smaller = compress(data, "zstd")
        if len(smaller) < len(data):
            return _ZSTD + smaller
    return _PLAIN + data


def unpack(packed: bytes, limit: int) -> bytes:
    """The original bytes. StoreError if they are damaged or more than `limit`."""
    kind, data = packed[:1], packed[1:]
    if kind == _PLAIN and len(data) <= limit:
        return data
    if kind != _ZSTD:
        raise StoreError("an entry in the store is damaged: its kind or its size is wrong")
    try:
        return decompress(data, "zstd", limit)
    except CompressionError as error:
        raise StoreError(f"an entry in the store is damaged: {error}") from None


def name_of(owner: str) -> str:
    """The digest that stands for an owner in a store; equal in every process."""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:40]


# Artifacts

Result = TypeVar("Result")
Args = TypeVarTuple("Args")

THREAD_FROM: Final = 64 * 1024  # bytes: compressing less is faster than starting a thread
_HANDLE: Final = re.compile(rf"[0-9a-f]{{{HANDLE_CHARS}}}", re.ASCII)


@dataclass(frozen=True)
class ArtifactRecord:
    """`about` is everything but the content, as JSON; `size` counts against the owner's quota.

    Two artifacts with one identity are one; two with one digest share their content.
    """

    digest: str
    identity: str
    about: str
    packed: bytes
    length: int

    @property
    def size(self) -> int:
        return self.length + ENTRY_COST


class StoredArtifacts(ABC):
    """The ArtifactStore port over a backend that saves and loads records."""

    def __init__(self, limits: ArtifactLimits) -> None:
        self._limits = limits

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        if not self._limits.allow(artifact):
            return None
        record = await _run(len(artifact.content), record_of, artifact)
        return await self._save(name_of(owner), new_handle(), record, self._limits.quota_for(owner))

    async def get(self, owner: str, handle: str) -> Artifact | None:
        row = await self._load(name_of(owner), handle) if is_handle(handle) else None
        return None if row is None else await _run(len(row[1]), artifact_of, *row)

    @abstractmethod
    async def _save(self, owner: str, handle: str, record: ArtifactRecord, quota: int) -> str:
        """Store the record and return its handle: an earlier one if this owner has the same artifact already."""

    @abstractmethod
    async def _load(self, owner: str, handle: str) -> tuple[str, bytes] | None:
        """`about` and `packed` of a record."""


async def _run(size: int, work: Callable[[Unpack[Args]], Result], *args: *Args) -> Result:
    """Do the work on so many bytes, in a thread if they are many."""
    return work(*args) if size < THREAD_FROM else await to_thread.run_sync(work, *args)


def new_handle() -> str:
    """A random handle, which cannot be guessed."""
    return secrets.token_hex(HANDLE_CHARS // 2)


def is_handle(text: str) -> bool:
    """Whether the text has the form of a handle; no other text is looked up."""
    return _HANDLE.fullmatch(text) is not None


def record_of(artifact: Artifact) -> ArtifactRecord:
    origin = None if artifact.origin is None else [artifact.origin.server, artifact.origin.tool]
    digest = hashlib.sha256(artifact.content).hexdigest()
    fields = [artifact.media_type, artifact.label, origin, artifact.is_text, len(artifact.content)]
    fields += [] if artifact.is_clean else [False]  # older versions cannot read such a record, and must not
    about = json.dumps(fields, separators=(",", ":"))
    identity = hashlib.sha256(f"{digest}{about}".encode()).hexdigest()
    return ArtifactRecord(digest, identity, about, pack(artifact.content), len(artifact.content))


def artifact_of(about: str, packed: bytes) -> Artifact:
    """The artifact of a record. StoreError if the record is damaged."""
    try:
        media_type, label, origin, is_text, length, *more = json.loads(about)
        source, content = None if origin is None else Origin(*origin), unpack(packed, int(length))
        return Artifact(content, str(media_type), str(label), source, is_text is True, is_clean=not more)
    except (ValueError, TypeError) as error:
        raise StoreError(f"an artifact in the store is damaged: {type(error).__name__}") from None


# Results


class StoredResults(ABC):
    """The ResultCache port over a backend. Keys include the catalog: gateways with equal catalogs share entries."""

    def __init__(self, bounds: CacheBounds) -> None:
        self._bounds = bounds
        self._catalog = ""

    def epoch(self) -> str:
        return self._catalog

    def renew(self, catalog: str) -> None:
        self._catalog = catalog

    async def get(self, key: str) -> Mapping[str, Any] | None:
        packed = await self._load(f"{self._catalog}:{key}")
        return None if packed is None else read_result(unpack(packed, self._bounds.max_bytes))

    async def put(self, key: str, raw: Mapping[str, Any], epoch: str) -> None:
        content = write_result(raw, self._bounds.max_bytes)
        if content is not None:
            await self._save(f"{epoch}:{key}", pack(content), len(content) + RESULT_COST)

    @abstractmethod
    async def _load(self, key: str) -> bytes | None: ...

    @abstractmethod
    async def _save(self, key: str, packed: bytes, size: int) -> None: ...


def write_result(raw: Mapping[str, Any], max_bytes: int) -> bytes | None:
    """A result as JSON; None if it cannot be written so, or takes more than `max_bytes` with RESULT_COST."""
    if _larger_than(raw, max_bytes):
        return None
    try:
        content = json.dumps(raw, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return content if len(content) + RESULT_COST <= max_bytes else None


def read_result(content: bytes) -> Mapping[str, Any]:
    """The result. StoreError if the bytes are not one."""
    try:
        result = json.loads(content)
    except ValueError:
        result = None
    if not isinstance(result, dict):
        raise StoreError("a result in the store is damaged")
    return result


def _larger_than(value: object, limit: int) -> bool:
    """Whether a value surely needs more bytes than this as JSON. Stops early: a large value is not written out."""
    size = 0
    stack = [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, Mapping):
            stack += inner.keys()
            stack += inner.values()
        elif isinstance(inner, list | tuple):
            stack += inner
        size += len(inner) + 2 if isinstance(inner, str) else 1
        if size > limit:
            return True
    return False


# Quotas


class CallCounts(ABC):
    """The Quotas port over a place that counts calls."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits

    async def peek(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        return await self.take(owner, scopes, count=False)

    async def take(self, owner: str, scopes: Sequence[str], *, count: bool = True) -> QuotaBreach | None:
        limits = [(scope, limit) for scope in scopes if (limit := self._limits.limit_of(scope)) is not None]
        return await self._check(owner, limits, count=count) if limits else None

    @abstractmethod
    async def _check(self, owner: str, limits: Sequence[tuple[str, Limit]], *, count: bool) -> QuotaBreach | None:
        """The first limit that one more call would break. If none, and `count`, count the call in every scope.

        One atomic step: two calls cannot share the last place.
        """


# Browse states

Cards = Mapping[str, ChoiceCard | None]
NO_CARDS: Final[Cards] = MappingProxyType({})


class StoredBrowseStates(ABC):
    """The BrowseStates port over a backend. A state belongs to a catalog: under another one it is empty."""

    def __init__(self) -> None:
        self._catalog = ""

    def renew(self, catalog: str) -> None:
        self._catalog = catalog

    async def load(self, owner: str) -> Cards:
        content = await self._load(name_of(owner), self._catalog)
        return NO_CARDS if content is None else read_cards(content)

    async def save(self, owner: str, cards: Cards) -> None:
        content = write_cards(cards)
        if content is not None:
            await self._save(name_of(owner), self._catalog, content)

    @abstractmethod
    async def _load(self, owner: str, catalog: str) -> bytes | None: ...

    @abstractmethod
    async def _save(self, owner: str, catalog: str, cards: bytes) -> None: ...


def write_cards(cards: Cards) -> bytes | None:
    """The cards as packed JSON; None if they take more than MAX_CARD_BYTES. Pages are then no longer stable."""
    document = {item_id: None if card is None else card.as_json() for item_id, card in cards.items()}
    data = json.dumps(document, separators=(",", ":")).encode()
    return pack(data) if len(data) <= MAX_CARD_BYTES else None


def read_cards(content: bytes) -> Cards:
    """The cards. StoreError if the bytes are not cards."""
    try:
        document = json.loads(unpack(content, MAX_CARD_BYTES))
        return {
            item_id: None if card is None else ChoiceCard(**{**card, "tags": tuple(card["tags"])})
            for item_id, card in document.items()
        }
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise StoreError(f"the cards of a browse state cannot be read: {type(error).__name__}") from None


# Tasks

_TASK_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


class StoredTasks(ABC):
    """The Tasks port over a place that stores texts for a while."""

    async def put(self, owner: str, task: TaskRecord, seconds: float) -> str:
        id = secrets.token_hex(16)
        row = [task.server, task.instance, task.task_id, task.tool, task.is_native]
        await self._save(name_of(owner), id, json.dumps(row, separators=(",", ":")), seconds)
        return id

    async def get(self, owner: str, id: str) -> TaskRecord | None:
        row = await self._load(name_of(owner), id) if _TASK_ID.fullmatch(id) else None
        try:
            return None if row is None else TaskRecord(*json.loads(row))
        except (ValueError, TypeError) as error:
            raise StoreError(f"a task in the store is damaged: {type(error).__name__}") from None

    @abstractmethod
    async def _save(self, owner: str, id: str, row: str, seconds: float) -> None: ...

    @abstractmethod
    async def _load(self, owner: str, id: str) -> str | None: ...


# Sessions

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def is_event_id(text: str, separator: str = "") -> bool:
    """Whether a store can have issued this id: a number, or two numbers with a separator between them."""
    parts = text.split(separator) if separator else [text]
    return len(parts) == 1 + bool(separator) and all(_NUMBER.fullmatch(part) for part in parts)


# Approvals


@dataclass(frozen=True)
class ApprovalLimits:
    """The most approvals at a time: of all callers, and of one."""

    total: int = MAX_APPROVALS
    of_one: int = MAX_APPROVALS_OF_ONE


APPROVAL_LIMITS: Final = ApprovalLimits()
_STATUSES: Final[Mapping[str, ApprovalStatus]] = {status: status for status in get_args(ApprovalStatus)}


def write_approval(approval: Approval) -> str:
    """Everything but the id and the status, as JSON."""
    return json.dumps([approval.binding, approval.about], separators=(",", ":"))


def read_approval(id: str, status: str, content: str | bytes) -> Approval:
    """The approval. StoreError if the content is not one."""
    try:
        binding, about = json.loads(content)
        return Approval(id, _STATUSES[status], str(binding), dict(about))
    except (ValueError, TypeError, KeyError):
        raise StoreError("an approval in the store is damaged") from None


# Flow records

_KINDS: Final[Mapping[str, FlowRecordKind]] = {kind: kind for kind in get_args(FlowRecordKind)}


@dataclass(frozen=True)
class FlowLimits:
    """Seconds that a record is stored, and the bytes and records of one owner, kind and server."""

    ttl: float = FLOW_SECONDS
    max_bytes: int = MAX_FLOW_BYTES
    max_records: int = MAX_FLOW_RECORDS


FLOW_LIMITS: Final = FlowLimits()


def read_flow(id: str, kind: str, server: str) -> FlowRecord:
    """A record without its data. StoreError if it is not one."""
    if kind not in _KINDS:
        raise StoreError("a flow record in the store is damaged")
    return FlowRecord(id, _KINDS[kind], server)
